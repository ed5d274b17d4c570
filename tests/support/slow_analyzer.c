/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/slow_analyzer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define COPY_MS 20000

static char *before; /* HEAPTAP_OUT; NULL: it was not set */

static void copy(const char *from, const char *to)
{
	HT_FREED char *path = tmpdir_path(to);
	ck_assert_int_eq(
		run_program((const char *[]){"cp", from, path, NULL}, COPY_MS, NULL, NULL), 0);
}

void slow_analyzer_begin(void)
{
	const char *built = getenv("HEAPTAP_OUT");
	HT_FREED char *directory = tmpdir_path("slow");
	before = built ? strdup(built) : NULL;
	ck_assert_int_eq(mkdir(directory, 0755), 0);
	copy(run_built("heaptap"), "slow/heaptap");
	copy(run_built("tests/targets/mute"), "slow/heaptap-analyze");
	setenv("HEAPTAP_OUT", directory, 1);
}

void slow_analyzer_end(void)
{
	if (before)
		setenv("HEAPTAP_OUT", before, 1);
	else
		unsetenv("HEAPTAP_OUT");
	free(before);
}

void slow_analyzer_let_go(void)
{
	HT_FREED char *path = tmpdir_path("slow/go");
	FILE *file = fopen(path, "we");
	ck_assert(file && fclose(file) == 0);
}
