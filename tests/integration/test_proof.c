/* SPDX-License-Identifier: Apache-2.0
 *
 * Directed tests of the proof of detach: threads that sleep in the allocator called by a hook,
 * signal handlers that leave a hook in every way, and hook addresses in places that are hard to
 * find.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "tests/support/gotwords.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define ANSWER_MS   30000
#define DETACH_MS   90000
#define GUARDIAN_MS 60000

static struct victim victim;
static struct tap tap;
static struct procsnap *before;

static void ask(const char *command)
{
	free(victim_ask(&victim, command, ANSWER_MS));
}

static void start_with(const char *name, const char *option)
{
	char path[64], module[32];
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	snprintf(path, sizeof(path), "tests/targets/%s", name);
	snprintf(module, sizeof(module), "/%s", name);
	victim_start(&victim, (const char *[]){run_built(path), option, NULL});
	before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, module);
}

static void start(const char *name)
{
	start_with(name, NULL);
}

static bool slots_are_restored(void)
{
	size_t all;
	return gotwords_tapped(victim.pid, "", &all) == 0;
}

/* Begins a detach, which must wait for a sleeping thread, then wakes the thread. */
static void detach_and_wake(void)
{
	kill(tap.run.pid, SIGINT);
	run_until(slots_are_restored(), DETACH_MS);
	ask("wake");
	tap_check_clean(tap_wait(&tap, 0));
}

static bool is_as_before(void)
{
	struct procsnap *now = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	char *difference = procsnap_diff(before, now);
	bool same = !difference[0];
	free(difference);
	procsnap_destroy(now);
	return same;
}

static void finish(void)
{
	victim_prove_alive(&victim);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* The detach misses its deadline; the guardian continues it, and ends when the thread has left the
 * hook. */
static void detach_past_the_deadline(void)
{
	json_t *attach = tap_stop(&tap, 6);
	ck_assert_uint_eq(report_u64(attach, "level"), 3);
	json_decref(attach);
	victim_prove_alive(&victim);
	ck_assert(slots_are_restored());
	ask("wake");
	run_until(is_as_before(), GUARDIAN_MS);
	json_t *report = report_load(tap.trace);
	ck_assert_str_eq(report_text(report, "capture.left.result"), "code");
	ck_assert_ptr_nonnull(strstr(report_text(report, "capture.left.why"), "thread "));
	json_decref(report);
	finish();
}

HT_TEST(asleep_in_the_allocator)
{
	start("jumper");
	ask("hold");
	detach_and_wake();
	finish();
}

HT_TEST(asleep_past_the_deadline)
{
	start("jumper");
	ask("hold");
	detach_past_the_deadline();
}

HT_TEST(a_handler_allocates_within_a_hook)
{
	start("jumper");
	ask("hold");
	ask("handle malloc");
	detach_and_wake();
	finish();
}

HT_TEST(a_handler_sleeps_on_its_own_stack)
{
	start("jumper");
	ask("hold");
	ask("handle sleep");
	detach_and_wake();
	finish();
}

/* The handler runs on an array in the stack below the hook that it interrupts, and the kernel
 * reports no alternate stack meanwhile. heaptap must not take the hook for one that was left by a
 * jump. */
HT_TEST(handlers_allocate_on_a_stack_within)
{
	start("jumper");
	ask("disarm");
	ask("rain");
	ask("calm");
	tap_check_clean(tap_stop(&tap, 0));
	finish();
}

/* The jump drops the hook's frame, and the thread calls no allocator afterwards. */
HT_TEST(a_handler_jumps_out_of_a_hook)
{
	start("jumper");
	ask("hold");
	ask("handle jump");
	tap_check_clean(tap_stop(&tap, 0));
	ask("wake");
	finish();
}

/* The thread has switched to another stack. The hook's frame stays on the first stack, and the
 * thread returns to it later. */
HT_TEST(a_handler_swaps_away_from_a_hook)
{
	start("jumper");
	ask("hold");
	ask("handle swap");
	detach_past_the_deadline();
}

/* Until the daemon has told the agent where the stack begins, the agent cannot distinguish a jump
 * from a nested call. It drops such events and counts them (exit 7). */
static void stop_among_jumps(void)
{
	kill(tap.run.pid, SIGINT);
	int status = run_wait(&tap.run, DETACH_MS);
	char *out = run_out(&tap.run), *err = run_err(&tap.run);
	ck_assert_msg(status == 0 || status == 7, "status %d: %s%s", status, out, err);
	json_t *attach = report_parse(out);
	tap_check_equal(attach);
	ck_assert_int_eq(status == 7, report_u64(attach, "dropped_events") > 0);
	json_decref(attach);
	free(out);
	free(err);
	run_deinit(&tap.run);
}

/* The other stack is an array in a frame of the thread's own stack, outside of the hook. */
HT_TEST(a_handler_swaps_to_a_stack_within_its_own)
{
	start("jumper");
	ask("hold");
	ask("handle within");
	detach_past_the_deadline();
}

HT_TEST(what_a_handler_swaps_to_calls_no_allocator)
{
	start("jumper");
	ask("hold");
	ask("handle rest");
	detach_past_the_deadline();
}

HT_TEST(a_storm_of_jumps)
{
	start("jumper");
	ask("storm");
	for (int i = 0; i < 10; i++) {
		stop_among_jumps();
		victim_prove_alive(&victim);
		tap_start(&tap, victim.pid, NULL);
		tap_wait_on(&tap, "/jumper");
	}
	ask("calm");
	stop_among_jumps();
	finish();
}

static void expect_tombstone(void)
{
	json_auto_t *attach = tap_stop(&tap, 0);
	ck_assert_uint_eq(report_u64(attach, "level"), 2);
}

HT_TEST(a_table_is_copied)
{
	start("escape");
	ask("copy");
	expect_tombstone();
	ask("use heap");
	procsnap_verify_but(before, victim.pid, (const char *[]){PROCSNAP_PAGE, NULL});
	victim_stop(&victim);
}

/* While the program keeps a hook's address, the jump page stays and forwards calls. */
static void keep_and_forget(const char *keep, const char *use, const char *forget)
{
	start("escape");
	ask(keep);
	expect_tombstone();
	ask(use);
	ask(forget);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/escape");
	tap_check_clean(tap_stop(&tap, 0));
	finish();
}

HT_TEST(a_table_is_made_read_only)
{
	keep_and_forget("freeze", "use frozen", "thaw");
}

HT_TEST(a_packed_structure_has_it)
{
	keep_and_forget("pack", "use packed", "unpack");
}

/* glibc mangles (encrypts) the pointers that it keeps for exit. */
HT_TEST(the_address_is_kept_for_exit)
{
	start("escape");
	ask("atexit");
	expect_tombstone();
	procsnap_verify_but(before, victim.pid, (const char *[]){PROCSNAP_PAGE, NULL});
	victim_stop(&victim);
}

/* Code of the large model does not address slots relative to rip, so it may keep a slot's value in
 * a register. heaptap rewrites such a register. */
static void detach_from_large_code(const char *option)
{
	start_with("faraway", option);
	ask("restart");
	json_t *attach = tap_stop(&tap, 0);
	tap_check_equal(attach);
	json_decref(attach);
	ask("turn");
	finish();
}

HT_TEST(the_large_code_model_in_a_running_loop)
{
	detach_from_large_code(NULL);
}

HT_TEST(the_large_code_model_in_a_loop_asleep)
{
	detach_from_large_code("-s");
}

/* The program loads two or more function pointers into one vector register before a loop. */
HT_TEST(vector_registers_have_it)
{
	start_with("hoist", "-v");
	ask("restart");
	json_t *attach = tap_stop(&tap, 0);
	tap_check_equal(attach);
	json_decref(attach);
	ask("restart");
	finish();
}

HT_SUITE("integration/proof")
