/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets that attack heaptap through everything that they share with it. The capture ends with a
 * valid trace, and the target is unchanged.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "format/abi_control.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"
#include "tests/targets/layout.h"

/* tests/targets/layout.h must match the agent's layout, or the target attacks the wrong
 * addresses. */
_Static_assert(LAYOUT_THUNKS == ABI_THUNKS_OFF && LAYOUT_CONFIG == ABI_CONFIG_OFF &&
		       LAYOUT_JOURNAL == ABI_JOURNAL_OFF,
	"what lies before the shared area");
_Static_assert(LAYOUT_FOLLOW == offsetof(struct abi_config, follow), "LAYOUT_FOLLOW");
_Static_assert(LAYOUT_GIVEN_UP == offsetof(struct abi_control, given_up), "LAYOUT_GIVEN_UP");
_Static_assert(LAYOUT_EXEC_ASKS == offsetof(struct abi_control, exec_asks), "LAYOUT_EXEC_ASKS");
_Static_assert(LAYOUT_TABLE == ABI_TABLE_OFF - ABI_SHARED_OFF &&
		       LAYOUT_NODES == ABI_NODES_OFF - ABI_SHARED_OFF &&
		       LAYOUT_FUNCTIONS == ABI_FUNCTIONS_OFF - ABI_SHARED_OFF &&
		       LAYOUT_LAST == ABI_LAST_OFF - ABI_SHARED_OFF &&
		       LAYOUT_SAMPLES == ABI_FILTER_OFF - ABI_SHARED_OFF &&
		       LAYOUT_SLOTS == ABI_SLOTS_OFF - ABI_SHARED_OFF &&
		       LAYOUT_SLOT_BYTES == ABI_SLOT_BYTES,
	"what lies in the shared area");

#define ANSWER_MS	 60000
#define DAEMON_MEMORY_KB 400000 /* without memory that it shares with the target */

static void start(struct victim *victim)
{
	victim_start(victim, (const char *[]){run_built("tests/targets/hostile"), NULL});
}

/* Starts and attaches; returns the target's snapshot from before. */
static struct procsnap *start_tapped(struct victim *victim, struct tap *tap, unsigned flags)
{
	start(victim);
	struct procsnap *before = procsnap_take(victim->pid, flags);
	tap_start(tap, victim->pid, NULL);
	tap_wait_on(tap, "/hostile");
	return before;
}

static void order(struct victim *victim, const char *command, const char *expected)
{
	HT_FREED char *answer = victim_ask(victim, command, ANSWER_MS);
	ck_assert_msg(!strncmp(answer, expected, strlen(expected)), "%s: %s", command, answer);
}

static uint64_t rounds(struct victim *victim)
{
	HT_FREED char *answer = victim_ask(victim, "rounds", ANSWER_MS);
	uint64_t count = strtoull(answer, NULL, 10);
	return count;
}

static uint64_t own_memory_kb(pid_t pid)
{
	char path[64], line[256];
	uint64_t kb = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "RssAnon: %lu", &kb);
	if (status)
		fclose(status);
	return kb;
}

/* The target attacks during the capture and during the detach. */
static void attack(const char *what, bool loaded, int expected_status)
{
	struct victim victim;
	struct tap tap;
	char command[64];
	struct procsnap *before = start_tapped(&victim, &tap, 0);
	order(&victim, "load 20000", "longest");
	snprintf(command, sizeof(command), "attack %s", what);
	order(&victim, command, "attacking");
	for (int i = 0; i < 20; i++) {
		if (loaded)
			order(&victim, "load 20000", "longest");
		uint64_t now = rounds(&victim);
		run_until(rounds(&victim) > now + 200, ANSWER_MS);
	}
	ck_assert_uint_lt(own_memory_kb(tap.run.pid), DAEMON_MEMORY_KB);
	json_t *attach = tap_stop(&tap, expected_status);
	ck_assert_ptr_nonnull(attach);
	ck_assert_uint_le(report_u64(attach, "level"), 1);
	json_decref(attach);
	order(&victim, "calm", "calm");
	procsnap_verify(before, victim.pid);
	order(&victim, "load 20000", "longest");
	victim_stop(&victim);
	json_decref(report_load(tap.trace));
}

HT_TEST(control_words)
{
	attack("control", false, 7);
}

HT_TEST(forged_exec_request_is_ignored)
{
	attack("exec", true, 0);
}

HT_TEST(stack_nodes)
{
	attack("nodes", true, 0);
}

HT_TEST(slots)
{
	attack("slots", true, 7);
}

HT_TEST(journal)
{
	attack("journal", true, 0);
}

HT_TEST(everything)
{
	attack("everything", false, 7);
}

HT_TEST(holes)
{
	attack("holes", false, 7);
}

HT_TEST(rubbish_on_the_socket)
{
	attack("socket", true, 7);
}

HT_TEST(children_attack)
{
	struct victim victim;
	struct tap tap;
	struct procsnap *before = start_tapped(&victim, &tap, 0);
	order(&victim, "load 1000", "longest");
	order(&victim, "children journal", "done");
	order(&victim, "children slots", "done");
	order(&victim, "children socket", "done");
	json_decref(tap_stop(&tap, 7));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	json_decref(report_load(tap.trace));
}

HT_TEST(cutting_the_memory_off)
{
	attack("size", true, 0);
}

static void lose_socket(const char *command, const char *answer, unsigned flags, int status)
{
	struct victim victim;
	struct tap tap;
	struct procsnap *before = start_tapped(&victim, &tap, flags);
	order(&victim, "load 50000", "longest");
	order(&victim, command, answer);
	order(&victim, "load 50000", "longest");
	json_t *attach = tap_stop(&tap, status);
	tap_check_balance(attach, 200000);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	json_decref(report_load(tap.trace));
}

/* The program closes the agent's socket and reuses its number. The agent must not send to that
 * descriptor, and heaptap must not close it. */
HT_TEST(closed_and_reused)
{
	lose_socket("close", "closed", PROCSNAP_FDS_CHANGE, 0);
}

HT_TEST(shut_down)
{
	lose_socket("shutdown", "shut", 0, 7);
}

/* --- mappings that the target changes ---------------------------------------------------- */

static struct victim changing;
static struct tap tap;
static struct procsnap *before;

static void start_changing(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* finish() waits for the guardian's end */
	before = start_tapped(&changing, &tap, 0);
	order(&changing, "load 1000", "longest");
}

static void finish(void)
{
	victim_stop(&changing);
	run_until(tap_guardian_is_done(0), ANSWER_MS);
	json_decref(report_load(tap.trace));
}

/* heaptap cannot remove its agent, and reports that. */
static void stop_incomplete(void)
{
	json_auto_t *attach = tap_stop(&tap, 6);
	ck_assert_uint_eq(report_u64(attach, "level"), 3);
}

static void stop_clean(void)
{
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	tap_check_balance(attach, 2000);
	json_decref(attach);
	procsnap_verify(before, changing.pid);
}

HT_TEST(parts_are_unmapped)
{
	start_changing();
	order(&changing, "drop 10000 11000", "dropped");     /* a part of the code */
	order(&changing, "drop 20000 21000", "dropped");     /* the state page */
	order(&changing, "drop 40000 60000", "dropped");     /* configuration and journal */
	order(&changing, "drop 4040000 4041000", "dropped"); /* the control page */
	stop_clean();
	finish();
}

HT_TEST(everything_is_protected)
{
	start_changing();
	order(&changing, "protect 0 0", "protected");
	stop_clean();
	finish();
}

/* The target makes the agent inaccessible and then calls a hook, which kills it. All earlier events
 * are in the trace. */
HT_TEST(protected_and_called)
{
	start_changing();
	procsnap_drop(before); /* the target ends */
	order(&changing, "protect 0 0", "protected");
	victim_send(&changing, "load 10");
	json_t *attach = tap_wait(&tap, 5);
	tap_check_balance(attach, 2000);
	json_decref(attach);
	ck_assert_int_eq(victim_wait(&changing, ANSWER_MS), 128 + SIGSEGV);
	json_decref(report_load(tap.trace));
}

HT_TEST(something_else_in_the_agents_place)
{
	static const char *const unmap[] = {
		"unmap 0 1000", "unmap 20000 21000", "unmap 21000 30000", "unmap 4050000 4060000"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(unmap); i++) {
		start_changing();
		procsnap_drop(before); /* the agent stays */
		order(&changing, unmap[i], "unmapped");
		stop_incomplete();
		order(&changing, "load 1000", "longest");
		finish();
	}
}

static bool is_as_before(void)
{
	struct procsnap *now = procsnap_take(changing.pid, 0);
	char *difference = procsnap_diff(before, now);
	bool same = !difference[0];
	free(difference);
	procsnap_destroy(now);
	return same;
}

/* Code at the place of the stub is not executable: a thread sent there would die. heaptap
 * leaves the agent, and the guardian removes it when that is possible. */
HT_TEST(stub_place_not_executable)
{
	start_changing();
	order(&changing, "still", "still");
	stop_incomplete();
	victim_prove_alive(&changing);
	order(&changing, "lively", "lively");
	run_until(is_as_before(), ANSWER_MS);
	procsnap_verify(before, changing.pid);
	finish();
}

HT_TEST(something_else_in_the_stubs_place)
{
	start_changing();
	procsnap_drop(before); /* the agent stays */
	order(&changing, "steal", "stolen");
	stop_incomplete();
	order(&changing, "load 1000", "longest");
	finish();
}

HT_SUITE("integration/hostile")
