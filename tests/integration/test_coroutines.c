/* SPDX-License-Identifier: Apache-2.0
 *
 * Coroutines of boost.context on stacks of their own, with std::pmr's resources and exceptions
 * (tests/targets/coroutines.cc): each call is recorded, to the byte, with a stack that ends where
 * the coroutine's stack ends. Attach and detach come at any moment.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/books.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define PHASE_MS 60000
#define CYCLES	 5

static void start(struct victim *victim)
{
	victim_start(victim, (const char *[]){run_built("tests/targets/coroutines"), NULL});
	free(victim_ask(victim, "go", PHASE_MS));
}

/* Each stack with do_allocate must also have fiber_entry, the outermost function of every
 * coroutine. */
static void check_stacks(const char *trace)
{
	json_t *report = report_load(trace), *stack, *frame;
	size_t i, n, whole = 0, turns = 0;
	json_array_foreach(report_at(report, "stacks"), i, stack)
	{
		bool turn = false, began = false;
		json_array_foreach(report_at(stack, "frames"), n, frame)
		{
			const char *name = json_string_value(json_object_get(frame, "function"));
			turn |= name && strstr(name, "do_allocate");
			began |= name && strstr(name, "fiber_entry");
		}
		turns += turn;
		whole += turn && began;
	}
	ck_assert_uint_gt(turns, 3);
	ck_assert_uint_eq(whole, turns);
	json_decref(report);
}

HT_TEST(exact)
{
	struct victim victim;
	struct tap tap;
	start(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_any(&tap);
	HT_FREED char *books = victim_ask(&victim, "go", PHASE_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	json_auto_t *ledger = report_parse(books);
	books_check(tap.trace, ledger, true, true);
	check_stacks(tap.trace);
}

HT_TEST(in_the_middle)
{
	struct victim victim;
	start(&victim);
	for (unsigned i = 0; i < CYCLES; i++) {
		struct tap tap;
		victim_send(&victim, "go");
		tap_start(&tap, victim.pid, (const char *[]){"--symbolize", "later", NULL});
		tap_wait_any(&tap);
		json_t *attach = tap_stop(&tap, 0);
		tap_check_clean(attach);
		json_decref(attach);
		unlink(tap.trace);
		free(victim_line(&victim, PHASE_MS));
	}
	victim_stop(&victim);
}

HT_SUITE("integration/coroutines")
