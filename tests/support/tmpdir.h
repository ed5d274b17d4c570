/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory of the running test, removed with everything in it when its process ends; when that
 * is killed, by a later one.
 */
#pragma once

/* Path of a file with this name in the directory, which is made at the first call. malloc'd. */
char *tmpdir_path(const char *name);

/* Removes such directories in `parent` that are ours, an hour old, and of which no process that may
 * use them lives. The first tmpdir_path does so. */
void tmpdir_remove_left(const char *parent);
