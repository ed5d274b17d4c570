/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory of the running test, removed with everything in it when its process ends.
 */
#pragma once

/* Path of a file with this name in the directory, which is made at the first call. malloc'd. */
char *tmpdir_path(const char *name);
