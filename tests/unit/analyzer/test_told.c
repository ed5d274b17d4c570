/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what heaptap printed becomes an error with its last line and its exit status.
 */
#include "analyzer/live/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

static int file_with(const char *text)
{
	const int fd = memfd_create("told", MFD_CLOEXEC);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	return fd;
}

/* `text`: what heaptap printed before it ended with `status`; `message` NULL: no error is expected.
 * `printed`: what must then be on standard error. */
static void check(int status, const char *text, enum ht_err_code code, const char *message,
	const char *printed)
{
	char *path = tmpdir_path("words"), *got = NULL;
	size_t room = 0;
	const int fd = file_with(text);
	ck_assert_ptr_nonnull(freopen(path, "w", stderr));
	struct ht_err *err = told_error(fd, status, "it said nothing");
	fflush(stderr);
	FILE *file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	const bool is_empty = getdelim(&got, &room, '\0', file) < 0;
	ck_assert_str_eq(is_empty ? "" : got, printed);
	ck_assert_int_eq(err != NULL, message != NULL);
	if (err) {
		ck_assert_int_eq(err->code, code);
		ck_assert_str_eq(err->message, message);
	}
	ht_err_free(err);
	fclose(file);
	close(fd);
	free(got);
	free(path);
}

HT_TEST(the_last_line_of_a_failure_is_the_error)
{
	check(3, "heaptap: no such process\n", HT_ERR_REFUSED, "no such process", "");
	check(4, "a list\nof two\nheaptap: choose one\n\n", HT_ERR_PERMISSION, "choose one",
		"a list\nof two\n");
	check(5, "", HT_ERR_TARGET_GONE, "it said nothing", "");
	check(1, "other words", HT_ERR_INTERNAL, "other words", "");
}

HT_TEST(a_success_is_only_printed)
{
	check(0, "heaptap: 1\nheaptap: 2\n", HT_ERR_INTERNAL, NULL, "heaptap: 1\nheaptap: 2\n");
	check(0, "", HT_ERR_INTERNAL, NULL, "");
	/* The status for lost events, and a status that heaptap does not have. */
	check(7, "events were lost\n", HT_ERR_INTERNAL, NULL, "events were lost\n");
	check(99, "x\n", HT_ERR_INTERNAL, NULL, "x\n");
}

HT_TEST(without_a_file_there_are_no_words)
{
	ck_no_err(told_error(-1, 0, "it said nothing"));
	ck_err_says(told_error(-1, 3, "it said nothing"), HT_ERR_REFUSED, "it said nothing");
}

HT_SUITE("analyzer/told")