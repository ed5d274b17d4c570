/* SPDX-License-Identifier: Apache-2.0
 *
 * `make install` puts everything below DESTDIR and PREFIX, the installed heaptap finds its other
 * half, and `make uninstall` leaves nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define MAKE_MS 300000

static void make(const char *goal, const char *destination, const char *prefix)
{
	char destdir[4200], prefix_is[4200], *err;
	snprintf(destdir, sizeof(destdir), "DESTDIR=%s", destination);
	snprintf(prefix_is, sizeof(prefix_is), "PREFIX=%s", prefix);
	int status = run_program((const char *[]){"make", "-s", goal, destdir, prefix_is, NULL},
		MAKE_MS, NULL, &err);
	ck_assert_msg(status == 0, "make %s: %.2000s", goal, err);
	free(err);
}

static char *files_below(const char *directory)
{
	char *out;
	run_program((const char *[]){"sh", "-c", "cd \"$1\" && find . ! -name . | sort", "sh",
			    directory, NULL},
		MAKE_MS, &out, NULL);
	return out;
}

static void install_and_uninstall(const char *destination, const char *prefix, const char *root)
{
	make("install", destination, prefix);
	char *files = files_below(root);
	ck_assert_msg(strstr(files, "/bin/heaptap\n") &&
			      strstr(files, "/libexec/heaptap/heaptap-analyze\n") &&
			      strstr(files, "/man1/heaptap.1\n") &&
			      strstr(files, "/completions/heaptap\n"),
		"%.2000s", files);
	free(files);
	char program[8200], *out;
	snprintf(program, sizeof(program), "%s%s/bin/heaptap", destination, prefix);
	int status = run_program(
		(const char *[]){program, "report", "/nonexistent", NULL}, MAKE_MS, NULL, &out);
	ck_assert_msg(status != 127 && strstr(out, "/nonexistent"), "%d: %.2000s", status, out);
	make("uninstall", destination, prefix);
	files = files_below(root);
	ck_assert_str_eq(files, "");
	free(files);
}

START_TEST(staged)
{
	char *stage = tmpdir_path("stage");
	ck_assert_int_eq(
		run_program((const char *[]){"mkdir", stage, NULL}, MAKE_MS, NULL, NULL), 0);
	install_and_uninstall(stage, "/usr/local", stage);
}
END_TEST

START_TEST(into_a_prefix)
{
	char *root = tmpdir_path("root"), *prefix = tmpdir_path("root/opt/heaptap");
	ck_assert_int_eq(
		run_program((const char *[]){"mkdir", root, NULL}, MAKE_MS, NULL, NULL), 0);
	install_and_uninstall("", prefix, root);
}
END_TEST

START_TEST(man_page_and_completion_know_every_option)
{
	char *out;
	int status = run_program(
		(const char *[]){"sh", "-c",
			"for option in $(\"$1\" --help | grep -oE -e '--[a-z]+' | sort -u |"
			" grep -vx -e --help -e --version); do\n"
			"name=${option#--}\n"
			"grep -qF -e \"\\\\-\\\\-$name\" attach/heaptap.1 || echo \"man: "
			"$option\"\n"
			"grep -qF -e \"$option\" attach/heaptap.bash || echo \"bash: $option\"\n"
			"done",
			"sh", run_built("heaptap"), NULL},
		MAKE_MS, &out, NULL);
	ck_assert_int_eq(status, 0);
	ck_assert_str_eq(out, "");
}
END_TEST

HT_SUITE("integration/install", staged, into_a_prefix, man_page_and_completion_know_every_option)
