/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that throw, unwind and are cancelled all the time, also during attach and detach
 * (tests/targets/throwing.cc): the unwinder never meets a frame of the agent, and each exception
 * reaches the same handler as without heaptap.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define ANSWER_MS 60000
#define CYCLES	  10
#define ROUNDS	  5

static uint64_t rounds(struct victim *victim)
{
	HT_FREED char *answer = victim_ask(victim, "count", ANSWER_MS);
	uint64_t count = strtoull(answer, NULL, 10);
	return count;
}

static void wait_for_rounds(struct victim *victim)
{
	uint64_t end = rounds(victim) + ROUNDS;
	run_until(rounds(victim) >= end, ANSWER_MS);
}

static void check(const char *program)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built(program), NULL});
	wait_for_rounds(&victim); /* the first cancellation installs a handler */
	for (unsigned i = 0; i < CYCLES; i++) {
		struct procsnap *before =
			procsnap_take(victim.pid, PROCSNAP_THREADS_CHANGE | PROCSNAP_MASKS_CHANGE);
		struct tap tap;
		tap_start(&tap, victim.pid, (const char *[]){"--symbolize", "later", NULL});
		tap_wait_any(&tap);
		wait_for_rounds(&victim);
		json_t *attach = tap_stop(&tap, 0);
		tap_check_clean(attach);
		json_decref(attach);
		unlink(tap.trace);
		procsnap_verify(before, victim.pid);
		wait_for_rounds(&victim);
	}
	victim_stop(&victim);
}

HT_TEST(exceptions_in_flight)
{
	check("tests/targets/throwing");
}

/* The allocator's own operators new throw. Not with jemalloc 5.3, where the program aborts even
 * without heaptap. */
HT_TEST(of_the_allocators_own)
{
	check("tests/targets/throwing-tcmalloc");
}

HT_SUITE("integration/throwing")
