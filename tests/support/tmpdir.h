/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory of the running test, removed with its contents when the process ends. If the process
 * is killed, a later test removes the directory.
 */
#pragma once

/* Path of a file with this name in the directory, which is made at the first call. malloc'd. */
char *tmpdir_path(const char *name);

/* Removes directories of dead tests in `parent`: those of this user, an hour old, and without a
 * live process that may use them. The first call of tmpdir_path calls this. */
void tmpdir_remove_left(const char *parent);
