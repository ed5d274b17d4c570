/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a log file that grows, is cut, renamed and made anew.
 */
#include "attach/run/logfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

static struct logfile file;
static char *path, seen[65536];

static void append_bytes(const char *text, size_t count)
{
	FILE *out = fopen(path, "ae");
	ck_assert_ptr_nonnull(out);
	ck_assert_uint_eq(fwrite(text, 1, count, out), count);
	ck_assert_int_eq(fclose(out), 0);
}

static void append(const char *text)
{
	append_bytes(text, strlen(text));
}

static void see(void *context, const char *line)
{
	size_t length = strlen(seen);
	ck_assert_ptr_eq(context, &file);
	ck_assert_uint_lt(length + strlen(line) + 2, sizeof(seen));
	snprintf(seen + length, sizeof(seen) - length, "%s|", line);
}

/* Returns the lines since the last call, each with | behind it. */
static const char *read_lines(void)
{
	*seen = '\0';
	while (logfile_read(&file, see, &file))
		;
	/* logfile_read leaves a renamed file in one call, and opens the new one in the next. */
	while (logfile_read(&file, see, &file))
		;
	return seen;
}

HT_TEST(only_lines_from_now_on)
{
	path = tmpdir_path("log");
	append("old\nbegun before");
	logfile_open(&file, path);
	ck_assert_str_eq(read_lines(), "");
	append(" and ended\nnew\nhalf");
	ck_assert_str_eq(read_lines(), "new|");
	append(" a line\n\n");
	ck_assert_str_eq(read_lines(), "half a line||");
	logfile_close(&file);
	free(path);
}

HT_TEST(a_missing_file_is_waited_for)
{
	path = tmpdir_path("log");
	logfile_open(&file, path);
	ck_assert_str_eq(read_lines(), "");
	append("first\n");
	ck_assert_str_eq(read_lines(), "first|");
	logfile_close(&file);
	free(path);
}

HT_TEST(rotation_loses_no_line)
{
	path = tmpdir_path("log");
	HT_FREED char *other = tmpdir_path("log.1");
	append("old\n");
	logfile_open(&file, path);
	append("last of the first\n");
	ck_assert_int_eq(rename(path, other), 0);
	append("first of the second\n");
	ck_assert_str_eq(read_lines(), "last of the first|first of the second|");
	/* logrotate's copytruncate cuts the file. */
	ck_assert_int_eq(truncate(path, 0), 0);
	ck_assert_str_eq(read_lines(), "");
	append("after\n");
	ck_assert_str_eq(read_lines(), "after|");
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_str_eq(read_lines(), "");
	append("again\n");
	ck_assert_str_eq(read_lines(), "again|");
	logfile_close(&file);
	free(path);
}

HT_TEST(any_bytes_in_bounded_lines)
{
	static char longest[3 * LOGFILE_LINE_MAX];
	path = tmpdir_path("log");
	logfile_open(&file, path);
	append_bytes("a\0b\xff\n", 5);
	ck_assert_str_eq(read_lines(), "a b\xff|");
	memset(longest, 'x', sizeof(longest) - 1);
	append(longest);
	ck_assert_str_eq(read_lines(), "");
	append("\nnext\n");
	read_lines();
	ck_assert_uint_eq(strcspn(seen, "|"), LOGFILE_LINE_MAX);
	ck_assert_str_eq(seen + LOGFILE_LINE_MAX, "|next|");
	logfile_close(&file);
	free(path);
}

/* A pipe could block for ever. */
HT_TEST(only_regular_files_are_read)
{
	path = tmpdir_path("log");
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	logfile_open(&file, path);
	ck_assert_int_eq(file.fd, -1);
	ck_assert_str_eq(read_lines(), "");
	logfile_close(&file);
	free(path);
}

HT_TEST(what_comes_too_fast_is_skipped_and_counted)
{
	path = tmpdir_path("log");
	append("old\n");
	logfile_open(&file, path);
	ck_assert_int_eq(truncate(path, 100 << 20), 0);
	ck_assert_str_eq(read_lines(), "");
	ck_assert_uint_eq(file.skipped_bytes, (100u << 20) - 4);
	append("\nnew\n");
	ck_assert_str_eq(read_lines(), "new|");
	logfile_close(&file);
	free(path);
}

HT_SUITE("unit/attach/logfile")
