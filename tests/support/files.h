/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes small files, and an empty directory for them. Every function fails the running test when
 * something goes wrong.
 */
#pragma once

void files_write(const char *path, const char *text);
/* Fails the test unless the file's first line, at most 63 bytes with its newline, is `text`. */
void files_check(const char *path, const char *text);

/* Makes an empty directory for this test; call it once. malloc'd. */
char *files_directory(void);
/* The number of files in the directory, without hidden ones. */
unsigned int files_count(const char *directory);
/* `directory`/`name`, malloc'd. */
char *files_path(const char *directory, const char *name);
