/* SPDX-License-Identifier: Apache-2.0
 *
 * Other tools that hook the allocator in the same process, below or above heaptap's hooks, before
 * or after heaptap. Both record every call, heaptap writes no word of the other tool, both can be
 * removed in any order, and the program goes on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define ANSWER_MS  30000
#define USES	   1000
#define USE_SIZE   111 /* of the blocks that rewire allocates for "use" */
#define BURST_SIZE 333 /* of the blocks of burst_work */
#define HEAPTRACK  "/usr/lib/heaptrack/"

static long order(struct victim *victim, const char *command, const char *argument)
{
	char text[250];
	snprintf(text, sizeof(text), "%s%s%s", command, argument ? " " : "",
		argument ? argument : "");
	HT_FREED char *answer = victim_ask(victim, text, ANSWER_MS);
	long number = strtol(answer, NULL, 10);
	return number;
}

static long use(struct victim *victim)
{
	return order(victim, "use 1000", NULL);
}

static void start(struct victim *victim, const char *preload)
{
	if (preload)
		setenv("LD_PRELOAD", preload, 1);
	victim_start(victim, (const char *[]){run_built("tests/targets/rewire"), NULL});
	unsetenv("LD_PRELOAD");
}

static void start_tap(struct tap *tap, const struct victim *victim, const char *module)
{
	tap_start(
		tap, victim->pid, (const char *[]){"--symbolize", "later", "--linger", "0", NULL});
	tap_wait_on(tap, module);
}

/* Detaches while other code keeps addresses of hooks: the jump page stays. */
static void detach_to_tombstone(struct tap *tap)
{
	tap_drop(tap, "others go on with what they have read of ours");
	json_auto_t *attach = tap_stop(tap, 0);
	ck_assert_uint_eq(report_u64(attach, "level"), 2);
}

static void detach_cleanly(struct tap *tap)
{
	json_auto_t *attach = tap_stop(tap, 0);
	tap_check_clean(attach);
}

/* Makes a whole capture, which must leave nothing. */
static void capture(struct victim *victim, const char *module)
{
	struct tap tap;
	struct procsnap *before =
		procsnap_take(victim->pid, PROCSNAP_MASKS_CHANGE | PROCSNAP_FILES_MOVE);
	start_tap(&tap, victim, module);
	use(victim);
	detach_cleanly(&tap);
	procsnap_verify(before, victim->pid);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, USE_SIZE), USES);
}

/* --- heaptrack
 * ---------------------------------------------------------------------------------- */

/* How many allocations of this size heaptrack's raw output has. */
static uint64_t calls_in_heaptrack(const char *path, unsigned size)
{
	char line[4400], wanted[16];
	uint64_t count = 0;
	snprintf(wanted, sizeof(wanted), "+ %x ", size);
	FILE *file = fopen(path, "re");
	ck_assert_msg(file != NULL, "heaptrack has written nothing");
	while (fgets(line, sizeof(line), file))
		count += !strncmp(line, wanted, strlen(wanted));
	fclose(file);
	return count;
}

/* heaptrack is preloaded: the slots hold its functions. It goes on during and after each capture,
 * with its own thread. */
HT_TEST(heaptrack_below)
{
	struct victim victim;
	HT_FREED char *output = tmpdir_path("heaptrack.raw");
	setenv("DUMP_HEAPTRACK_OUTPUT", output, 1);
	start(&victim, HEAPTRACK "libheaptrack_preload.so");
	unsetenv("DUMP_HEAPTRACK_OUTPUT");
	use(&victim);
	for (int round = 0; round < 3; round++) {
		capture(&victim, "/rewire");
		use(&victim);
	}
	order(&victim, "call heaptrack_stop", NULL);
	use(&victim);
	victim_stop(&victim);
	ck_assert_uint_eq(calls_in_heaptrack(output, USE_SIZE), 1 + 7 * USES);
}

static void inject_heaptrack(struct victim *victim, const char *output)
{
	order(victim, "load", HEAPTRACK "libheaptrack_inject.so");
	order(victim, "call heaptrack_inject", output);
}

/* heaptrack was injected before: it has written its own functions, which have no symbols, into
 * every slot. */
HT_TEST(heaptrack_injected_before)
{
	struct victim victim;
	HT_FREED char *output = tmpdir_path("heaptrack.raw");
	start(&victim, NULL);
	inject_heaptrack(&victim, output);
	use(&victim);
	for (int round = 0; round < 3; round++) {
		capture(&victim, "/libheaptrack_inject.so");
		use(&victim);
	}
	order(&victim, "call heaptrack_stop", NULL);
	use(&victim);
	victim_stop(&victim);
	ck_assert_uint_eq(calls_in_heaptrack(output, USE_SIZE), 7 * USES);
}

static void check_nothing_of_ours(const struct victim *victim)
{
	HT_FREED char *ours = procsnap_ours(victim->pid);
	ck_assert_msg(!ours[0], "%s", ours);
}

/* heaptrack is injected during the capture and replaces heaptap's thunks in the slots. heaptap must
 * leave those slots as they are. The comparison finds differences, because heaptrack makes
 * read-only words writable. */
HT_TEST(heaptrack_injected_meanwhile)
{
	struct victim victim;
	struct tap tap;
	HT_FREED char *output = tmpdir_path("heaptrack.raw");
	start(&victim, NULL);
	start_tap(&tap, &victim, "/rewire");
	tap_drop(&tap, "heaptrack changes words, and who may write them");
	use(&victim);
	inject_heaptrack(&victim, output);
	tap_wait_on(&tap, "/libheaptrack_inject.so");
	use(&victim);
	json_t *attach = tap_stop(&tap, 6);
	ck_assert_uint_le(report_u64(attach, "level"), 1);
	ck_assert_uint_gt(report_u64(attach, "slots_changed"), 0);
	ck_assert_str_eq(report_text(attach, "verify.slots"), "equal");
	ck_assert_str_eq(report_text(attach, "verify.text"), "equal");
	json_decref(attach);
	check_nothing_of_ours(&victim);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, USE_SIZE), 2 * USES);
	use(&victim);
	order(&victim, "call heaptrack_stop", NULL);
	use(&victim);
	capture(&victim, "/rewire");
	victim_stop(&victim);
	ck_assert_uint_eq(calls_in_heaptrack(output, USE_SIZE), 2 * USES);
}

/* When heaptrack stops, it writes the values of its own slots, heaptap's thunks, into all other
 * slots. They must work after the detach, and record in the next capture. */
HT_TEST(heaptrack_gone_meanwhile)
{
	struct victim victim;
	struct tap tap;
	HT_FREED char *output = tmpdir_path("heaptrack.raw");
	start(&victim, NULL);
	inject_heaptrack(&victim, output);
	use(&victim);
	start_tap(&tap, &victim, "/libheaptrack_inject.so");
	use(&victim);
	order(&victim, "call heaptrack_stop", NULL);
	use(&victim);
	detach_to_tombstone(&tap);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, USE_SIZE), 2 * USES);
	use(&victim);
	start_tap(&tap, &victim, "/libheaptrack_inject.so");
	use(&victim);
	detach_to_tombstone(&tap);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, USE_SIZE), USES);
	use(&victim);
	victim_stop(&victim);
	ck_assert_uint_eq(calls_in_heaptrack(output, USE_SIZE), 2 * USES);
}

/* --- a shim
 * ----------------------------------------------------------------------------------- */

HT_TEST(shim_below)
{
	struct victim victim;
	struct tap tap;
	start(&victim, run_built("tests/targets/libcounting.so"));
	long counted = 0;
	for (int round = 0; round < 2; round++) {
		struct procsnap *before = procsnap_take(victim.pid, 0);
		start_tap(&tap, &victim, "/rewire");
		counted = order(&victim, "call counting_calls", NULL);
		use(&victim);
		ck_assert_int_eq(order(&victim, "call counting_calls", NULL), counted + 2 * USES);
		detach_cleanly(&tap);
		procsnap_verify(before, victim.pid);
		ck_assert_uint_eq(tracefile_blocks_of(tap.trace, USE_SIZE), USES);
	}
	victim_stop(&victim);
}

/* A library with its own shim is loaded during the capture. Both are unloaded during the capture
 * (`unload_first`) or after it. */
static void bring_shim(bool unload_first)
{
	struct victim victim;
	struct tap tap;
	start(&victim, NULL);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	start_tap(&tap, &victim, "/rewire");
	order(&victim, "deep", run_built("tests/targets/libburst-counted.so"));
	tap_wait_on(&tap, "/libburst-counted.so");
	long counted = order(&victim, "call counting_calls", NULL);
	long made = order(&victim, "work 1000", NULL);
	ck_assert_int_eq(order(&victim, "call counting_calls", NULL), counted + made);
	use(&victim);
	if (unload_first)
		order(&victim, "unload", NULL);
	detach_cleanly(&tap);
	use(&victim);
	if (!unload_first) {
		ck_assert_int_eq(order(&victim, "work 1000", NULL), made);
		order(&victim, "unload", NULL);
	}
	procsnap_verify(before, victim.pid);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, BURST_SIZE), 1000);
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, USE_SIZE), USES);
	victim_stop(&victim);
}

HT_TEST(shim_comes)
{
	bring_shim(false);
}

HT_TEST(shim_comes_and_goes)
{
	bring_shim(true);
}

/* --- the program's own
 * -------------------------------------------------------------------------- */

/* Takes the snapshot, attaches, and has the program put its own hook above heaptap's. */
static struct procsnap *start_patched(struct victim *victim, struct tap *tap)
{
	start(victim, NULL);
	struct procsnap *before = procsnap_take(victim->pid, 0);
	start_tap(tap, victim, "/rewire");
	order(victim, "patch", NULL);
	ck_assert_int_eq(use(victim), USES);
	return before;
}

/* The program's hook stays after the detach, and so does the jump page that it calls. */
HT_TEST(hook_above)
{
	struct victim victim;
	struct tap tap;
	struct procsnap *before = start_patched(&victim, &tap);
	detach_to_tombstone(&tap);
	ck_assert_int_eq(use(&victim), 2 * USES);
	procsnap_verify_but(
		before, victim.pid, (const char *[]){PROCSNAP_PAGE, "slot free in", NULL});
	victim_stop(&victim);
}

/* The program restores the address that its hook found in the slot, and keeps a copy for the next
 * time. */
HT_TEST(hook_comes_back)
{
	struct victim victim;
	struct tap tap;
	struct procsnap *before = start_patched(&victim, &tap);
	order(&victim, "unpatch", NULL);
	ck_assert_int_eq(use(&victim), USES);
	detach_to_tombstone(&tap);
	procsnap_verify_but(before, victim.pid, (const char *[]){PROCSNAP_PAGE, NULL});
	order(&victim, "patch", NULL);
	ck_assert_int_eq(use(&victim), 2 * USES);
	victim_stop(&victim);
}

HT_SUITE("integration/hooks")
