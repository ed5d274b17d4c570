/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads with flags of the processor that hardly any program sets: what the stub, or the agent,
 * cannot bear does not run in them, and they do not notice.
 */
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define ANSWER_MS 60000
#define CYCLES	  2
#define CALLS	  4000 /* of one "work" */

static struct victim victim;
static struct tap tap;

static void start(const char *mode)
{
	victim_start(&victim, (const char *[]){run_built("tests/targets/flags"), mode, NULL});
}

static void finish(json_t *attach)
{
	json_decref(attach);
	unlink(tap.trace);
}

/* The stub would be stepped, too, with all signals blocked: another thread runs it. */
HT_TEST(a_thread_steps_itself)
{
	start("steps");
	run_until(child_state(victim.pid) == 'S', ANSWER_MS);
	for (unsigned i = 0; i < CYCLES; i++) {
		struct procsnap *before = procsnap_take(victim.pid, 0);
		tap_start(&tap, victim.pid, (const char *[]){"--symbolize", "later", NULL});
		tap_wait_on(&tap, "/flags");
		json_t *attach = tap_stop(&tap, 0);
		tap_check_clean(attach);
		finish(attach);
		procsnap_verify(before, victim.pid);
	}
	victim_stop(&victim);
}

/* The agent's code would fault, or copy the wrong way: such calls are only forwarded, and counted.
 */
HT_TEST(accesses_not_aligned_and_copies_downwards)
{
	start("copies");
	tap_start(&tap, victim.pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_on(&tap, "/flags");
	for (unsigned i = 0; i < CYCLES; i++)
		free(victim_ask(&victim, "work", ANSWER_MS));
	json_t *attach = tap_stop(&tap, TAP_MAY_DROP);
	tap_check_equal(attach);
	tap_check_balance(attach, CYCLES * CALLS);
	finish(attach);
	free(victim_ask(&victim, "work", ANSWER_MS));
	victim_stop(&victim);
}

HT_SUITE("integration/flags")
