/* SPDX-License-Identifier: Apache-2.0
 *
 * scripts/release: the tarball's programs work in a root without any library, and the same tree
 * gives the same tarball.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define BUILD_MS 300000
#define TRY_MS	 60000

/* Builds the tarball in `directory`. False: the machine lacks the tools; prints that the test is
 * skipped. */
static bool build(const char *directory)
{
	char *err;
	if (!strstr(run_built("heaptap"), "/release/")) {
		printf("skipped: release: only a release build is linked for a tarball\n");
		return false;
	}
	if (access("/bin/busybox", X_OK) < 0) {
		printf("skipped: release: busybox-static is missing\n");
		return false;
	}
	int status = run_program(
		(const char *[]){"scripts/release", "-o", directory, NULL}, BUILD_MS, NULL, &err);
	const bool no_source = status != 0 && strstr(err, "cannot get Debian's source package");
	if (no_source)
		printf("skipped: release: Debian's source package of Zydis cannot be fetched\n");
	ck_assert_msg(status == 0 || no_source, "%d: %.2000s", status, err);
	free(err);
	return !no_source;
}

static int shell(const char *script, const char *first, const char *second, char **ret_out)
{
	HT_FREED char *err;
	const int status =
		run_program((const char *[]){"sh", "-euc", script, "sh", first, second, NULL},
			TRY_MS, ret_out, &err);
	if (status != 0)
		printf("%s", err);
	return status;
}

HT_TEST(runs_without_any_library)
{
	char *here = tmpdir_path("here"), *root = tmpdir_path("root"), *out;
	if (!build(here))
		return;
	ck_assert_int_eq(shell("for program in \"$1\"/static/heaptap*[pe]; do\n"
			       "! readelf -lW \"$program\" | grep -q INTERP; done",
				 run_built("."), NULL, NULL),
		0);
	if (geteuid() != 0) {
		printf("skipped: release_runs: only root may change the root directory\n");
		return;
	}
	ck_assert_int_eq(shell("mkdir -p \"$1/bin\" && cp /bin/busybox \"$2\" \"$1/bin\"\n"
			       "for name in sh mkfifo grep sleep kill test; do\n"
			       "ln -s busybox \"$1/bin/$name\"; done",
				 root, run_built("tests/targets/busy-static"), NULL),
		0);
	ck_assert_int_eq(shell("scripts/try-release \"$1\"/*.tar.xz \"$2\" /bin/busy-static", here,
				 root, &out),
		0);
	/* The names come from the program's own debug information. */
	ck_assert_msg(strstr(out, "busy.c:") && strstr(out, "churn <- run"), "%.3000s", out);
	free(out);
	ck_assert_int_eq(
		shell("cd \"$1\"/heaptap-*/ && ls licences | grep -q libc6-dev &&\n"
		      "test -s licences/libzydis-dev && test -s man/man1/heaptap-report.1 &&\n"
		      "test -s completion/heaptap && test -s LICENSE && test -s README.md &&\n"
		      "test -s CHANGELOG.md && test -s attach/SAFETY.md && test -s "
		      "attach/LIMITS.md &&\n"
		      "test -s examples/fleet.sql && test -s systemd/heaptap@.service &&\n"
		      "test -s systemd/heaptap@.timer",
			root, NULL, NULL),
		0);
	free(here);
	free(root);
}

HT_TEST(the_same_tree_gives_the_same_bytes)
{
	char *here = tmpdir_path("first"), *there = tmpdir_path("second");
	if (!build(here))
		return;
	ck_assert_int_eq(shell("rm -rf \"$1/static\"", run_built("."), NULL, NULL), 0);
	if (build(there))
		ck_assert_int_eq(
			shell("cmp \"$1\"/*.tar.xz \"$2\"/*.tar.xz", here, there, NULL), 0);
	free(here);
	free(there);
}

HT_SUITE("integration/release")
