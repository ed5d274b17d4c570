/* SPDX-License-Identifier: Apache-2.0
 *
 * A mere stop ends no wait of the target, although the kernel ends some: tested with every wait of
 * tests/targets/waits, each stopped at its beginning, when heaptap may stop it.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/thread/tracee.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/victim.h"

#define FAR_NS	  (60 * CLOCK_NS_PER_S)
#define ANSWER_MS 20000
#define STOPS	  2

static bool sleeps(pid_t pid)
{
	char state = child_state(pid);
	return state == 'S' || state == 'D';
}

static void stop_and_release(pid_t pid)
{
	struct tracee tracee;
	enum tracee_result result;
	ck_no_err(tracee_stop(pid, clock_mono_ns() + FAR_NS, false, &tracee, &result));
	ck_assert_int_eq(result, TRACEE_STOPPED);
	ck_no_err(tracee_release(&tracee));
}

/* Returns the line that the victim prints after its wait; NULL: it still waits. */
static char *end_of_wait(struct victim *victim)
{
	struct pollfd out = {.fd = victim->out_fd, .events = POLLIN};
	run_until(sleeps(victim->pid), ANSWER_MS);
	return poll(&out, 1, 0) == 0 ? NULL : victim_line(victim, ANSWER_MS);
}

static bool stays_in(const char *name)
{
	struct victim victim;
	char *end = NULL;
	victim_start(
		&victim, (const char *[]){run_built("tests/targets/waits"), name, "600000", NULL});
	free(victim_ask(&victim, "go", ANSWER_MS));
	ck_assert_ptr_null(end_of_wait(&victim));
	for (int i = 0; i < STOPS && !end; i++) {
		stop_and_release(victim.pid);
		end = end_of_wait(&victim);
	}
	if (end)
		fprintf(stderr, "# %s\n", end);
	bool stayed = !end;
	free(end);
	victim_kill(&victim);
	return stayed;
}

HT_TEST(no_wait_ends)
{
	char *list, *rest;
	unsigned waits = 0, ended = 0;
	if (access(run_built("tests/targets/waits"), X_OK)) {
		printf("skipped: tracee_waits: tests/targets/waits is not built\n");
		return;
	}
	ck_assert_int_eq(run_program((const char *[]){run_built("tests/targets/waits"), NULL},
				 ANSWER_MS, &list, NULL),
		0);
	rest = list;
	for (char *line; (line = strsep(&rest, "\n"));) {
		const char *name = strchr(line, ' ');
		if (!name)
			continue;
		waits++;
		ended += !stays_in(name + 1);
	}
	free(list);
	ck_assert_uint_gt(waits, 50);
	ck_assert_msg(ended == 0, "%u of %u waits ended", ended, waits);
}

HT_SUITE("attach/thread/tracee, waits")
