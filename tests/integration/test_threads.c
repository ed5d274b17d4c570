/* SPDX-License-Identifier: Apache-2.0
 *
 * Very many threads: a thousand that wait, hundreds that compute, and chains of threads that start
 * and end all the time, also during attach and detach (tests/targets/crowd.c); one thread with
 * coroutines whose stacks are unmapped (tests/targets/pooled.c).
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/sample.h"
#include "tests/support/tap.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define ANSWER_MS 120000
#define CYCLES	  sample_size(10, 3)
#define BORN	  3000 /* more threads than there are thread records */
#define CHAINS	  2
#define POOLED	  100u

/* Captures until the target's count `what` has grown by `growth`. */
static void cycle(struct victim *victim, const char *what, uint64_t growth)
{
	struct procsnap *before =
		procsnap_take(victim->pid, PROCSNAP_THREADS_CHANGE | PROCSNAP_MASKS_CHANGE);
	struct tap tap;
	tap_start(&tap, victim->pid, (const char *[]){"--symbolize", "later", "--lossless", NULL});
	tap_wait_on(&tap, "/crowd");
	uint64_t end = report_count(victim, what) + growth;
	run_until(report_count(victim, what) >= end, ANSWER_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	/* Some new threads have not allocated when the capture ends. */
	if (!strcmp(what, "born"))
		ck_assert_uint_ge(report_u64(attach, "threads") + CHAINS, growth);
	json_decref(attach);
	unlink(tap.trace);
	procsnap_verify(before, victim->pid);
}

static void cycles(unsigned turns, uint64_t growth, const char *what, const char *const argv[])
{
	struct victim victim;
	victim_start(&victim, argv);
	for (unsigned i = 0; i < turns; i++)
		cycle(&victim, what, growth);
	victim_stop(&victim);
}

#define CROWD(...)                                                                                 \
	(const char *[])                                                                           \
	{                                                                                          \
		run_built("tests/targets/crowd"), __VA_ARGS__, NULL                                \
	}

HT_TEST(a_thousand_that_wait)
{
	cycles(sample_size(3, 1), 100, "rounds", CROWD("-p", "990", "-b", "10"));
}

HT_TEST(chains_of_detached_threads)
{
	cycles(CYCLES, BORN, "born", CROWD("-c", "2"));
}

HT_TEST(chains_of_joined_threads)
{
	cycles(CYCLES, BORN, "born", CROWD("-c", "2", "-j", "-p", "50"));
}

HT_TEST(hundreds_keep_exact_books)
{
	struct victim victim;
	victim_start(&victim, CROWD("-b", "250", "-n", "200", "-w"));
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	struct tap tap;
	tap_start(&tap, victim.pid, (const char *[]){"--symbolize", "later", "--lossless", NULL});
	tap_wait_on(&tap, "/crowd");
	HT_FREED char *answer = victim_ask(&victim, "go", ANSWER_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_eq(report_u64(attach, "threads"), 250);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);

	json_auto_t *books = report_parse(answer);
	struct tracefile file;
	tracefile_load(tap.trace, &file);
	struct tracefile_count count = tracefile_allocations(&file, 0, ABI_HOOK_MALLOC);
	ck_assert_uint_eq(count.calls, report_u64(books, "allocations"));
	ck_assert_uint_eq(count.bytes, report_u64(books, "bytes"));
	ck_assert_uint_eq(tracefile_frees(&file, 0), report_u64(books, "frees"));
	tracefile_deinit(&file);
}

/* Stack memory that the agent's walk has read and remembered is unmapped before the next walk. */
static void check_pooled(const char *where)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/pooled"), where, NULL});
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/pooled");
	uint64_t end = report_count(&victim, "rounds") + POOLED;
	run_until(report_count(&victim, "rounds") >= end, ANSWER_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_ge(report_u64(attach, "events"), 3 * POOLED);
	json_decref(attach);
	victim_stop(&victim);
}

HT_TEST(stacks_of_one_mapping_are_unmapped)
{
	check_pooled(NULL);
}

HT_TEST(stacks_within_the_threads_own_become_unreadable)
{
	check_pooled("within");
}

HT_TEST(an_array_becomes_unreadable_where_frames_were)
{
	check_pooled("array");
}

HT_SUITE("threads")
