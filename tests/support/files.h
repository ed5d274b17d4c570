/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files and an empty directory to put them in. Every function fails the running test when
 * something goes wrong.
 */
#pragma once

void files_write(const char *path, const char *text);
/* The first line of the file is `text`. */
void files_check(const char *path, const char *text);

/* An empty directory of this test; once. malloc'd. */
char *files_directory(void);
/* How many files lie in it, but for hidden ones. */
unsigned int files_count(const char *directory);
/* `directory`/`name`, malloc'd. */
char *files_path(const char *directory, const char *name);
