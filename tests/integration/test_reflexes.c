/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that handle signals such as SIGSEGV, or run code while a thread ends
 * (tests/targets/reflexes.c): they get each signal with its usual address and code, and their later
 * calls are recorded as usual.
 */
#include <string.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define ANSWER_MS     60000
#define CYCLES	      3
#define FAULT_CYCLES  10
#define MORE	      200 /* signals during each capture */
#define DIVES	      20
#define DIVES_TEXT    "dive 20"
#define CALM_BYTES    333
#define ENDING	      32
#define ENDING_TEXT   "32"
#define LAST_BYTES    444
#define DESTRUCTIONS  4 /* PTHREAD_DESTRUCTOR_ITERATIONS */
#define PROFILES_MORE 100

static struct victim victim;

static void start(const char *mode, const char *number)
{
	victim_start(
		&victim, (const char *[]){run_built("tests/targets/reflexes"), mode, number, NULL});
}

/* Captures while `meanwhile` runs. The trace must then have `blocks` blocks of `bytes` bytes;
 * `bytes` 0: not checked. */
static void cycle(unsigned flags, void (*meanwhile)(void), uint64_t bytes, uint64_t blocks)
{
	struct tap tap;
	struct procsnap *before = procsnap_take(victim.pid, flags);
	tap_start(&tap, victim.pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_on(&tap, "/reflexes");
	meanwhile();
	json_t *attach = tap_stop(&tap, bytes ? 0 : TAP_MAY_DROP);
	tap_check_equal(attach);
	json_decref(attach);
	if (bytes)
		ck_assert_uint_eq(tracefile_blocks_of(tap.trace, bytes), blocks);
	unlink(tap.trace);
	procsnap_verify(before, victim.pid);
	victim_prove_alive(&victim);
}

static void cycles(const char *mode, unsigned count, void (*meanwhile)(void))
{
	start(mode, NULL);
	for (unsigned i = 0; i < count; i++)
		cycle(PROCSNAP_MASKS_CHANGE, meanwhile, 0, 0);
	victim_stop(&victim);
}

static void count_on(const char *what, uint64_t more)
{
	uint64_t now = report_count(&victim, what);
	run_until(report_count(&victim, what) >= now + more, ANSWER_MS);
}

static void fault(void)
{
	count_on("faults", MORE);
}

/* The thread that must run the stub raises and handles SIGSEGV, SIGTRAP, SIGILL and SIGFPE. If
 * heaptap stops it at one, its handler must still see the original PC. */
HT_TEST(faults_are_handled)
{
	cycles("faults", FAULT_CYCLES, fault);
}

/* Signals, also SIGTRAP, are blocked and pending in the thread that runs the stub. They must stay
 * pending and reach the program. */
HT_TEST(signals_wait)
{
	cycles("pending", CYCLES, fault);
}

static void dive(void)
{
	free(victim_ask(&victim, DIVES_TEXT, ANSWER_MS));
}

/* The program uses up its stack and leaves by longjmp from a handler, mostly out of the agent,
 * which uses most of the stack in each call. */
HT_TEST(stacks_are_used_up)
{
	start("dives", NULL);
	dive();
	for (unsigned i = 0; i < CYCLES; i++)
		cycle(0, dive, CALM_BYTES, DIVES);
	dive();
	victim_stop(&victim);
}

static void profile(void)
{
	count_on("profiles", PROFILES_MORE);
}

/*
 * A profile tick may interrupt the thread at the first instruction of a hook. The address of that
 * instruction is then in the old signal frame and in the list of the unwinder, below the stack
 * pointer, until later ticks overwrite it. Where the thread does not run for that long, heaptap
 * cannot tell the word from a function pointer, and the jump page stays: named, and with exit 0.
 */
static void profiled_cycle(void)
{
	struct tap tap;
	start("profile", NULL);
	tap_start_changing(&tap, victim.pid, PROCSNAP_MASKS_CHANGE,
		(const char *[]){"--symbolize", "later", "--linger", "0", NULL});
	tap_wait_on(&tap, "/reflexes");
	profile();
	json_t *attach = tap_stop(&tap, TAP_MAY_DROP);
	if (report_u64(attach, "level") == 2) {
		ck_assert_ptr_nonnull(strstr(report_text(attach, "why"), "one page of 4 KiB"));
		tap_verify_but(&tap, (const char *[]){PROCSNAP_PAGE, NULL});
	} else {
		tap_check_equal(attach);
	}
	json_decref(attach);
	unlink(tap.trace);
	profile();
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

HT_TEST(a_profiler_unwinds_the_agent)
{
	for (unsigned i = 0; i < CYCLES; i++)
		profiled_cycle();
}

static void scan(void)
{
	count_on("scans", MORE);
}

/* A collector's signal arrives at any moment, and some pointers exist only in registers. If the
 * collector missed them, it would free blocks that the thread uses. */
HT_TEST(a_collector_sees_the_registers)
{
	cycles("scanned", FAULT_CYCLES, scan);
}

static void end(void)
{
	free(victim_ask(&victim, "end", ANSWER_MS));
}

HT_TEST(threads_allocate_at_their_end)
{
	start("ends", ENDING_TEXT);
	end(); /* glibc has installed a signal handler of its own since the first new thread */
	for (unsigned i = 0; i < CYCLES; i++)
		cycle(0, end, LAST_BYTES, ENDING * DESTRUCTIONS);
	victim_stop(&victim);
}

HT_SUITE("integration/reflexes")
