/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads with processor flags that hardly any program sets. Where the stub or the agent would fail
 * with such a flag, heaptap does not run them in that thread, and the thread does not notice.
 */
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define ANSWER_MS 60000
#define CYCLES	  2
#define CALLS	  4000 /* that one "work" makes */

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

/* A thread with TF set would also single-step through the stub, where all signals are blocked. So
 * another thread runs the stub. */
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

/* With AC set the agent's code would fault, with DF set it would copy in the wrong direction. The
 * agent only forwards and counts such calls. */
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
