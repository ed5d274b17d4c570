/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries that are loaded for a moment during a capture: their calls are recorded from their
 * constructors on, however soon they are closed; dlopen waits a bounded time for that.
 */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/abi_control.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"
#include "tests/targets/guest.h"

#define ANSWER_MS 60000
#define VISITS	  100u

static void start_with(
	struct victim *victim, struct tap *tap, const char *library, const char *const extra[])
{
	victim_start(victim,
		(const char *[]){run_built("tests/targets/visit"), run_built(library), NULL});
	tap_start(tap, victim->pid, extra);
	tap_wait_any(tap);
	/* When the target answers, heaptap hooks the libraries that it loads later, and the threads
	 * that load them wait. */
	victim_prove_alive(victim);
}

static void start(struct victim *victim, struct tap *tap, const char *const extra[])
{
	start_with(victim, tap, "tests/targets/libguest.so", extra);
}

static void check_visits(const struct tap *tap, const char *command, uint64_t visits)
{
	ck_assert_uint_eq(tracefile_blocks_of(tap->trace, GUEST_RUN_BYTES), visits * GUEST_RUN);
	/* If two threads use a library at once, its constructor runs only once. */
	if (!strcmp(command, "visit-threads"))
		return;
	ck_assert_uint_eq(tracefile_blocks_of(tap->trace, GUEST_CONSTRUCTED_BYTES),
		visits * GUEST_CONSTRUCTED);
	ck_assert_uint_eq(tracefile_blocks_of(tap->trace, GUEST_TAKEN_BYTES), visits);
	ck_assert_uint_eq(tracefile_blocks_of(tap->trace, GUEST_DESTROYED_BYTES), visits);
}

static void compare(const char *command, uint64_t visits, const char *const extra[])
{
	struct victim victim;
	struct tap tap;
	char line[64];
	start(&victim, &tap, extra);
	snprintf(line, sizeof(line), "%s %lu", command, (unsigned long)visits);
	free(victim_ask(&victim, line, ANSWER_MS));
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	uint64_t missed = report_u64(attach, "untapped_modules");
	json_decref(attach);
	victim_stop(&victim);
	/* On a busy machine a wait may time out: then calls are missed, and the library is
	 * counted. */
	if (missed)
		ck_assert_uint_ge(tracefile_blocks_of(tap.trace, GUEST_RUN_BYTES),
			(visits - missed) * GUEST_RUN);
	else
		check_visits(&tap, command, visits);
}

HT_TEST(every_call_of_a_short_visit)
{
	compare("visit", VISITS, NULL);
}

HT_TEST(visits_in_threads)
{
	compare("visit-threads", VISITS, NULL);
}

HT_TEST(visits_in_a_namespace_of_their_own)
{
	compare("visit-apart", 10, NULL);
}

HT_TEST(visits_in_a_sample_of_all)
{
	compare("visit", 20, (const char *[]){"--sample", "1", NULL});
}

/* The number of events whose stack has only the frame of the library's function. */
static uint64_t cut_stacks(const char *trace)
{
	struct tracefile file;
	uint64_t count = 0;
	tracefile_load(trace, &file);
	for (size_t i = 0; i < file.event_count; i++) {
		const struct event *event = &file.event[i];
		count += event->kind == ABI_EVENT_ALLOC && event->size >= GUEST_CONSTRUCTED_BYTES &&
			 event->size <= GUEST_DESTROYED_BYTES && event->stack &&
			 file.node[event->stack].parent == 0;
	}
	tracefile_deinit(&file);
	return count;
}

/* Loads the large library once. Its slots may take any time to be hooked. Returns the number of
 * stacks that were cut. */
static uint64_t load_large(void)
{
	struct victim victim;
	struct tap tap;
	start_with(&victim, &tap, "tests/targets/libguest-large.so", NULL);
	tap_configure(&tap, offsetof(struct abi_config, load_cycles_max), UINT64_MAX);
	free(victim_ask(&victim, "visit 1", ANSWER_MS));
	uint64_t late = tap_control(victim.pid, offsetof(struct abi_control, load_late));
	json_auto_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_eq(late, 0);
	victim_stop(&victim);
	/* As in compare(): calls may be missed only if the report counts the library. */
	if (report_u64(attach, "untapped_modules"))
		return 0;
	check_visits(&tap, "visit", 1);
	json_auto_t *report = report_load(tap.trace);
	uint64_t cut = cut_stacks(tap.trace);
	ck_assert_uint_eq(report_u64(report, "capture.truncated_stacks"), cut);
	return cut;
}

#define LARGE_LOADS 5u

/* Compiling the library's unwind table takes longer than dlopen may wait, so dlopen goes on when
 * the slots are hooked. All calls are recorded; stacks may be cut, and are counted then. */
HT_TEST(a_large_library)
{
	uint64_t cut = 0;
	for (unsigned i = 0; i < LARGE_LOADS; i++)
		cut += load_large();
	/* In one load a busy machine may finish the table before the thread goes on. */
	ck_assert_uint_gt(cut, 0);
}

/* A dlopen that loads nothing does not wait, and the report does not mention it. */
HT_TEST(nothing_is_loaded)
{
	struct victim victim;
	struct tap tap;
	start(&victim, &tap, NULL);
	free(victim_ask(&victim, "absent 20", ANSWER_MS));
	free(victim_ask(&victim, "present 20", ANSWER_MS));
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_eq(report_u64(attach, "untapped_modules"), 0);
	json_decref(attach);
	victim_stop(&victim);
}

/* Until heaptap is continued no library is hooked, and each is reported. Only the first load waits
 * for the stopped heaptap. */
HT_TEST(heaptap_is_stopped)
{
	struct victim victim;
	struct tap tap;
	start(&victim, &tap, NULL);
	ck_assert_int_eq(kill(tap.run.pid, SIGSTOP), 0);
	free(victim_ask(&victim, "visit 5", ANSWER_MS));
	ck_assert_int_eq(kill(tap.run.pid, SIGCONT), 0);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_equal(attach);
	ck_assert_uint_ge(report_u64(attach, "untapped_modules"), 5);
	json_decref(attach);
	victim_stop(&victim);
}

/* If heaptap is killed, a thread that waits for it goes on and leaves the agent's guard
 * function. */
HT_TEST(heaptap_is_killed_while_a_thread_waits)
{
	struct victim victim;
	struct tap tap;
	start(&victim, &tap, NULL);
	ck_assert_int_eq(kill(tap.run.pid, SIGSTOP), 0);
	victim_send(&victim, "visit 50");
	ck_assert_int_eq(kill(tap.run.pid, SIGKILL), 0);
	free(victim_line(&victim, ANSWER_MS));
	tap_verify_soon(&tap, ANSWER_MS);
	victim_stop(&victim);
}

/* Detaches while libraries are loaded one after the other. */
HT_TEST(detach_while_threads_wait)
{
	struct victim victim;
	struct tap tap;
	start(&victim, &tap, NULL);
	victim_send(&victim, "visit-threads 200");
	json_t *attach = tap_stop(&tap, 0);
	tap_check_equal(attach);
	json_decref(attach);
	free(victim_line(&victim, ANSWER_MS));
	victim_stop(&victim);
}

HT_SUITE("integration/loads")
