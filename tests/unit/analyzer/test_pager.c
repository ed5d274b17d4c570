/* SPDX-License-Identifier: Apache-2.0
 *
 * Which output goes through a pager, and that nothing of it is lost.
 */
#include "analyzer/ui/pager.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

static const struct terminal screen = {.is_terminal = true, .columns = 20, .rows = 5};

/* A pager that marks each line that it shows. */
#define MARKING "sed s/^/paged:/"

/* Returns what standard output gets when `text` goes through the pager; malloc'd. `command`: PAGER;
 * NULL: not set. */
static char *shown(
	const struct terminal *terminal, bool is_wanted, const char *command, const char *text)
{
	char *path = tmpdir_path("out"), *got = NULL;
	size_t room = 0;
	struct pager pager;
	if (command)
		setenv("PAGER", command, true);
	else
		unsetenv("PAGER");
	ck_assert_ptr_nonnull(freopen(path, "w", stdout));
	ck_no_err(pager_open(is_wanted, terminal, &pager));
	fputs(text, pager.out);
	ck_no_err(pager_close(&pager));
	fflush(stdout);
	FILE *file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	if (getdelim(&got, &room, '\0', file) < 0) {
		free(got);
		got = strdup("");
	}
	fclose(file);
	free(path);
	return got;
}

static void check_shown(const struct terminal *terminal, bool is_wanted, const char *command,
	const char *text, const char *want)
{
	HT_FREED char *got = shown(terminal, is_wanted, command, text);
	ck_assert_msg(strcmp(got, want) == 0, "%s: \"%s\"", command, got);
}

HT_TEST(pages_output_longer_than_the_screen)
{
	check_shown(&screen, true, MARKING, "1\n2\n3\n4\n", "1\n2\n3\n4\n");
	check_shown(&screen, true, MARKING, "1\n2\n3\n4\n5\n",
		"paged:1\npaged:2\npaged:3\npaged:4\npaged:5\n");
	check_shown(&screen, true, MARKING, "", "");
	check_shown(&screen, true, MARKING, "1\n2\n3\n4\n5",
		"paged:1\npaged:2\npaged:3\npaged:4\npaged:5");
}

/* The terminal has 20 columns: a line of 21 characters takes two rows, a colour none. */
HT_TEST(long_lines_take_more_rows)
{
	check_shown(&screen, true, MARKING, "1\n2\n3\n12345678901234567890\n",
		"1\n2\n3\n12345678901234567890\n");
	check_shown(&screen, true, MARKING, "1\n2\n3\n123456789012345678901\n",
		"paged:1\npaged:2\npaged:3\npaged:123456789012345678901\n");
	check_shown(&screen, true, MARKING, "1\n2\n3\n\033[1m12345678901234567890\033[0m\n",
		"1\n2\n3\n\033[1m12345678901234567890\033[0m\n");
}

HT_TEST(no_pager_where_none_is_wanted)
{
	static const char text[] = "1\n2\n3\n4\n5\n6\n";
	const struct terminal file = {.columns = 20, .rows = 5};
	check_shown(&screen, false, MARKING, text, text);
	check_shown(&file, true, MARKING, text, text);
	check_shown(&screen, true, "", text, text);
	check_shown(&screen, true, "cat", text, text);
}

HT_TEST(a_pager_that_cannot_run_loses_nothing)
{
	static const char text[] = "1\n2\n3\n4\n5\n6\n";
	check_shown(&screen, true, "/nonexistent/pager 2>/dev/null", text, text);
	check_shown(&screen, true, "/dev/null 2>/dev/null", text, text);
}

/* The text is more than a pipe holds, and the pager ends without reading it. */
HT_TEST(the_user_ends_the_pager)
{
	size_t length = 1 << 20;
	char *text = malloc(length + 1);
	memset(text, '\n', length);
	text[length] = '\0';
	check_shown(&screen, true, "exec <&-; echo seen", text, "seen\n");
	free(text);
	struct sigaction action;
	ck_assert_int_eq(sigaction(SIGPIPE, NULL, &action), 0);
	ck_assert(action.sa_handler == SIG_DFL);
}

/* A fake less, first in PATH, prints its arguments and LESS. */
HT_TEST(less_without_a_choice)
{
	char *directory = tmpdir_path("bin"), *path = tmpdir_path("less");
	FILE *file = fopen(path, "we");
	fputs("#!/bin/sh\necho \"$* $LESS\"\n", file);
	fclose(file);
	char *slash = strrchr(path, '/');
	ck_assert_int_eq(chmod(path, 0700), 0);
	*slash = '\0';
	char search[4300];
	snprintf(search, sizeof(search), "%s:%s", path, getenv("PATH"));
	setenv("PATH", search, true);
	unsetenv("LESS");
	check_shown(&screen, true, NULL, "1\n2\n3\n4\n5\n6\n", "-R -F -X FRX\n");
	free(directory);
	free(path);
}

HT_SUITE("analyzer/pager")
