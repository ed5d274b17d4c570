/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets that treat the agent like any unknown part of their process: they inherit it by fork,
 * close its descriptor and reuse the number.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/gotwords.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define ANSWER_MS  20000
#define HEAPTAP_MS 60000

static struct procsnap *before;

static void start_tapped(struct victim *victim, struct tap *tap, unsigned flags)
{
	victim_start(victim, (const char *[]){run_built("tests/targets/awkward"), NULL});
	before = procsnap_take(victim->pid, flags);
	tap_start(tap, victim->pid, NULL);
	tap_wait_on(tap, "/awkward");
}

static pid_t fork_child(struct victim *victim)
{
	HT_FREED char *answer = victim_ask(victim, "fork", ANSWER_MS);
	pid_t child = (pid_t)strtol(answer, NULL, 10);
	return child;
}

static bool is_running(pid_t pid)
{
	char path[64], state = 'Z';
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *stat = fopen(path, "re");
	bool read = stat && fscanf(stat, "%*d (awkward) %c", &state) == 1;
	if (stat)
		fclose(stat);
	return read && state != 'Z';
}

static void recover_child(pid_t child)
{
	char pid[16];
	size_t all;
	struct run run;
	snprintf(pid, sizeof(pid), "%d", child);
	run_start(&run, (const char *[]){run_built("heaptap"), "recover", "-p", pid, NULL});
	ck_assert_int_eq(run_wait(&run, HEAPTAP_MS), 0);
	run_deinit(&run);
	ck_assert_uint_eq(gotwords_tapped(child, "", &all), 0);
	usleep(20000);
	ck_assert(is_running(child));
}

/* recover on a forked child removes the agent from the child, and not from its parent. */
HT_TEST(child_recovered_during_capture)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap, 0);
	pid_t child = fork_child(&victim);
	recover_child(child);
	free(victim_ask(&victim, "work", ANSWER_MS));
	tap_check_clean(tap_stop(&tap, 0));
	victim_prove_alive(&victim);
	ck_assert(is_running(child));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(child_recovered_after_capture)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap, 0);
	pid_t child = fork_child(&victim);
	tap_check_clean(tap_stop(&tap, 0));
	ck_assert(is_running(child));
	recover_child(child);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(descriptor_taken_over)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap, PROCSNAP_FDS_CHANGE);
	free(victim_ask(&victim, "take", ANSWER_MS));
	for (int i = 0; i < 10; i++)
		free(victim_ask(&victim, "check", ANSWER_MS));
	tap_check_clean(tap_stop(&tap, 0));
	free(victim_ask(&victim, "check", ANSWER_MS));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

struct cycles {
	unsigned count, flags; /* of procsnap */
	void (*begin)(struct victim *victim);
	void (*meanwhile)(struct victim *victim);
	void (*end)(struct victim *victim); /* begin, meanwhile and end may be NULL */
};

static void call(void (*what)(struct victim *victim), struct victim *victim)
{
	if (what)
		what(victim);
}

/* Makes `count` captures one after the other. Each must leave nothing in the target. */
static void go_through(struct victim *victim, const struct cycles *cycles)
{
	for (unsigned i = 0; i < cycles->count; i++) {
		struct tap tap;
		before = procsnap_take(victim->pid, cycles->flags);
		call(cycles->begin, victim);
		tap_start(&tap, victim->pid, (const char *[]){"--symbolize", "later", NULL});
		tap_wait_on(&tap, "/awkward");
		call(cycles->meanwhile, victim);
		tap_check_clean(tap_stop(&tap, 0));
		call(cycles->end, victim);
		procsnap_verify(before, victim->pid);
		unlink(tap.trace);
	}
	victim_stop(victim);
}

static void work(struct victim *victim)
{
	free(victim_ask(victim, "work", ANSWER_MS));
}

HT_TEST(filtered_system_calls)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/awkward"), NULL});
	free(victim_ask(&victim, "filter", ANSWER_MS));
	go_through(&victim, &(struct cycles){.count = 5,
				    .flags = PROCSNAP_MASKS_CHANGE,
				    .meanwhile = work,
				    .end = victim_prove_alive});
}

static void begin_to_doze(struct victim *victim)
{
	victim_send(victim, "doze 25");
}

static void check_it_dozed(struct victim *victim)
{
	HT_FREED char *answer = victim_line(victim, ANSWER_MS);
	ck_assert_str_eq(answer, "dozed");
}

/* The only thread sleeps in a call that the kernel restarts by restart_syscall, which the target's
 * filter forbids. */
HT_TEST(asleep_under_a_filter)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/awkward"), NULL});
	free(victim_ask(&victim, "filter", ANSWER_MS));
	go_through(&victim,
		&(struct cycles){.count = 5, .begin = begin_to_doze, .end = check_it_dozed});
}

static unsigned long status_kib(pid_t pid, const char *field)
{
	char path[64], line[256];
	unsigned long kib = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *status = fopen(path, "re");
	ck_assert_ptr_nonnull(status);
	while (fgets(line, sizeof(line), status))
		if (!strncmp(line, field, strlen(field)))
			kib = strtoul(line + strlen(field), NULL, 10);
	fclose(status);
	return kib;
}

/* The search for escaped addresses must not populate memory that is only reserved. After
 * mlockall(MCL_FUTURE) the kernel must not populate all of the agent's mappings. */
static void check_memory(const char *command)
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){run_built("tests/targets/escape"), NULL});
	free(victim_ask(&victim, command, ANSWER_MS));
	before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	unsigned long kib = status_kib(victim.pid, "VmHWM:");
	tap_start(&tap, victim.pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_on(&tap, "/escape");
	json_decref(tap_stop(&tap, 0));
	unsigned long after = status_kib(victim.pid, "VmHWM:");
	ck_assert_msg(after < kib + (64 << 10), "%lu KiB before, %lu after", kib, after);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(reserved_memory)
{
	check_memory("reserve");
}

HT_TEST(locked_memory)
{
	check_memory("lock");
}

HT_TEST(threads_in_forwarded_calls)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/awkward"), NULL});
	free(victim_ask(&victim, "null 16", ANSWER_MS));
	go_through(&victim,
		&(struct cycles){
			.count = 20, .flags = PROCSNAP_MASKS_CHANGE, .end = victim_prove_alive});
}

/* --- code that the program put behind its text --- */

static unsigned long runs(struct victim *victim)
{
	HT_FREED char *answer = victim_ask(victim, "runs", ANSWER_MS);
	unsigned long count = strtoul(answer, NULL, 10);
	return count;
}

static void check_it_runs(struct victim *victim)
{
	unsigned long before_now = runs(victim);
	run_until(runs(victim) > before_now + 10, ANSWER_MS);
}

static unsigned long settle(struct victim *victim, const char *command)
{
	victim_start(victim, (const char *[]){run_built("tests/targets/awkward"), NULL});
	char *answer = victim_ask(victim, command, ANSWER_MS);
	unsigned long places = strtoul(answer, NULL, 10);
	free(answer);
	check_it_runs(victim);
	return places;
}

/* A thread runs code of the program at the stub's preferred place all the time. heaptap must put
 * the stub elsewhere. */
HT_TEST(code_of_its_own_in_the_best_place)
{
	struct victim victim;
	ck_assert_uint_eq(settle(&victim, "settle 1"), 1);
	go_through(&victim,
		&(struct cycles){.count = 5, .meanwhile = check_it_runs, .end = check_it_runs});
}

HT_TEST(code_of_its_own_everywhere)
{
	struct victim victim;
	struct tap tap;
	ck_assert_uint_gt(settle(&victim, "settle 99"), 1);
	before = procsnap_take(victim.pid, 0);
	tap_start(&tap, victim.pid, NULL);
	ck_assert_ptr_null(tap_wait(&tap, 3));
	check_it_runs(&victim);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_SUITE("integration/awkward")
