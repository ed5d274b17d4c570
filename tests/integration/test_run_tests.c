/* SPDX-License-Identifier: Apache-2.0
 *
 * scripts/run-tests counts what Check programs say, and is not fooled by those that crash or hang.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define SCRIPT_MS 60000

static char *program(const char *name, const char *body)
{
	char *path = tmpdir_path(name);
	FILE *file = fopen(path, "we");
	ck_assert_ptr_nonnull(file);
	fprintf(file, "#!/bin/sh\n%s\n", body);
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_int_eq(chmod(path, 0755), 0);
	return path;
}

static void check_last_line(const char *const argv[], int expected_status, const char *line)
{
	char *out;
	int status = run_program(argv, SCRIPT_MS, &out, NULL);
	ck_assert_msg(status == expected_status, "%d: %s", status, out);
	size_t length = strlen(out), last = strlen(line);
	ck_assert_msg(length > last && !strcmp(out + length - last, line) &&
			      out[length - last - 1] == '\n',
		"%s", out);
}

static const char good[] = "echo '100%: Checks: 3, Failures: 0, Errors: 0'";
static const char bad[] = "echo '50%: Checks: 4, Failures: 1, Errors: 1'; exit 1";

START_TEST(counts_are_summed)
{
	check_last_line(
		(const char *[]){"scripts/run-tests", program("a", good), program("b", good), NULL},
		0, "6 passed, 0 failed\n");
	check_last_line(
		(const char *[]){"scripts/run-tests", program("a", good), program("b", bad), NULL},
		1, "5 passed, 2 failed\n");
}
END_TEST

START_TEST(a_crash_is_a_failure)
{
	check_last_line((const char *[]){"scripts/run-tests", program("a", "kill -SEGV $$"),
				program("b", good), NULL},
		1, "3 passed, 1 failed\n");
	char body[256];
	snprintf(body, sizeof(body), "%s; exit 1", good);
	check_last_line((const char *[]){"scripts/run-tests", program("c", body), NULL}, 1,
		"3 passed, 1 failed\n");
	check_last_line((const char *[]){"scripts/run-tests", program("d", "exit 0"), NULL}, 1,
		"0 passed, 1 failed\n");
	check_last_line((const char *[]){"scripts/run-tests", "/nonexistent/program", NULL}, 1,
		"0 passed, 1 failed\n");
}
END_TEST

START_TEST(a_hang_is_a_failure)
{
	setenv("TEST_LIMIT_S", "1", 1);
	check_last_line((const char *[]){"scripts/run-tests", program("a", "exec sleep 1000"),
				program("b", good), NULL},
		1, "3 passed, 1 failed\n");
}
END_TEST

START_TEST(skips_are_shown)
{
	char body[256], *out;
	snprintf(body, sizeof(body), "echo 'skipped: this: not today'; %s", good);
	int status = run_program((const char *[]){"scripts/run-tests", program("a", body), NULL},
		SCRIPT_MS, &out, NULL);
	ck_assert_int_eq(status, 0);
	ck_assert_ptr_nonnull(strstr(out, "skipped: this: not today\n3 passed, 0 failed\n"));
}
END_TEST

HT_SUITE("integration/run_tests", counts_are_summed, a_crash_is_a_failure, a_hang_is_a_failure,
	skips_are_shown)
