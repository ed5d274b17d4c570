/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/files.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tests/support/tmpdir.h"

void files_write(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

void files_check(const char *path, const char *text)
{
	char found[64] = "";
	FILE *file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_ptr_nonnull(fgets(found, sizeof(found), file));
	ck_assert_str_eq(found, text);
	ck_assert_int_eq(fclose(file), 0);
}

char *files_directory(void)
{
	char *path = tmpdir_path("directory");
	ck_assert_int_eq(mkdir(path, 0700), 0);
	return path;
}

unsigned int files_count(const char *directory)
{
	unsigned int count = 0;
	DIR *dir = opendir(directory);
	ck_assert_ptr_nonnull(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

char *files_path(const char *directory, const char *name)
{
	char *path;
	ck_assert_int_ge(asprintf(&path, "%s/%s", directory, name), 0);
	return path;
}
