/* SPDX-License-Identifier: Apache-2.0
 *
 * The interactive heaptap top, in a terminal of tmux: the table appears, fits a new size, stops and
 * goes on with the shell's job control, and leaves the target when it ends.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define WAIT_MS 20000

struct screened {
	struct victim victim;
	struct tap tap;
	char *socket;
};

static char *tmux(const struct screened *screened, const char *const words[])
{
	const char *argv[20] = {"tmux", "-u", "-S", screened->socket};
	char *out, *err;
	for (size_t i = 0; words[i]; i++)
		argv[i + 4] = words[i];
	run_program(argv, WAIT_MS, &out, &err);
	free(err);
	return out;
}

static void type(const struct screened *screened, const char *keys)
{
	free(tmux(screened, (const char *[]){"send-keys", "-t", "top", keys, NULL}));
}

static bool shows(const struct screened *screened, const char *words)
{
	char *out = tmux(screened, (const char *[]){"capture-pane", "-p", "-t", "top", NULL});
	const bool ret = strstr(out, words);
	free(out);
	return ret;
}

static bool has_tmux(void)
{
	if (access("/usr/bin/tmux", X_OK) == 0)
		return true;
	printf("skipped: the interactive top: tmux is not installed\n");
	return false;
}

/* A shell in the terminal, in which top runs. */
static void start(struct screened *screened)
{
	char *heaptap = realpath(run_built("heaptap"), NULL), command[5000];
	*screened = (struct screened){.socket = tmpdir_path("tmux")};
	victim_start(&screened->victim, (const char *[]){run_built("tests/targets/cxx"), NULL});
	screened->tap = (struct tap){.target = screened->victim.pid};
	tap_look(&screened->tap, 0);
	free(tmux(screened, (const char *[]){"-f", "/dev/null", "new-session", "-d", "-x", "80",
				    "-y", "24", "-s", "top", "bash", NULL}));
	snprintf(command, sizeof(command), "%s top -d 0.5 -p %d; echo status $?.", heaptap,
		screened->victim.pid);
	type(screened, command);
	type(screened, "Enter");
	free(heaptap);
	run_until(shows(screened, "FUNCTION <- CALLER"), WAIT_MS);
}

static void finish(struct screened *screened)
{
	free(tmux(screened, (const char *[]){"kill-server", NULL}));
	victim_stop(&screened->victim);
	free(screened->socket);
}

HT_TEST(the_table_fits_stops_and_ends)
{
	struct screened screened;
	if (!has_tmux())
		return;
	start(&screened);
	free(tmux(&screened,
		(const char *[]){"resize-window", "-t", "top", "-x", "30", "-y", "8", NULL}));
	run_until(shows(&screened, "too small"), WAIT_MS);
	free(tmux(&screened,
		(const char *[]){"resize-window", "-t", "top", "-x", "120", "-y", "30", NULL}));
	run_until(shows(&screened, "p pause"), WAIT_MS);
	type(&screened, "?");
	run_until(shows(&screened, "put a mark into the trace"), WAIT_MS);
	type(&screened, "q");
	run_until(shows(&screened, "p pause"), WAIT_MS);
	type(&screened, "C-z");
	run_until(shows(&screened, "Stopped"), WAIT_MS);
	/* The capture goes on while the table is stopped. */
	ck_assert(tap_is_recording(screened.victim.pid));
	type(&screened, "fg");
	type(&screened, "Enter");
	run_until(shows(&screened, "p pause"), WAIT_MS);
	type(&screened, "q");
	run_until(!shows(&screened, "p pause"), WAIT_MS);
	tap_verify_soon(&screened.tap, WAIT_MS);
	finish(&screened);
}

HT_TEST(ctrl_c_leaves_the_target)
{
	struct screened screened;
	if (!has_tmux())
		return;
	start(&screened);
	type(&screened, "C-c");
	run_until(shows(&screened, "status 0."), WAIT_MS);
	tap_verify(&screened.tap);
	finish(&screened);
}

HT_TEST(a_terminal_that_hangs_up_leaves_the_target)
{
	struct screened screened;
	if (!has_tmux())
		return;
	start(&screened);
	free(tmux(&screened, (const char *[]){"kill-server", NULL}));
	tap_verify_soon(&screened.tap, WAIT_MS);
	victim_stop(&screened.victim);
	free(screened.socket);
}

HT_SUITE("integration/top_screen")
