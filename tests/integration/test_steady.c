/* SPDX-License-Identifier: Apache-2.0
 *
 * A running capture stops no thread: between attach and detach heaptap makes no ptrace(2) call, if
 * the target's threads and libraries stay the same.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/sweep.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define ATTACH_MS  30000
#define STEADY_MS  1000 /* long enough for heaptap's periodic work */
#define HEAPTAP_MS 60000
#define DROPPED	   7 /* the tracer stops the daemon at each call, so events may be dropped */

HT_TEST(nothing_is_stopped_meanwhile)
{
	struct victim victim;
	struct sweep sweep;
	struct procsnap *before;
	HT_FREED char *trace = tmpdir_path("steady.htap");
	victim_start(&victim, (const char *[]){run_built("tests/targets/busy"), "-t", "4", NULL});
	before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	sweep_attach(&sweep, victim.pid, trace, &(struct sweep_plan){.number = SYS_ptrace});
	run_until(tap_is_on(victim.pid, "/busy"), ATTACH_MS);
	unsigned long attached = sweep.calls[SWEEP_ANY];
	uint64_t end = run_now_ms() + STEADY_MS;
	run_until(run_now_ms() >= end, 2 * STEADY_MS);
	unsigned long steady = sweep.calls[SWEEP_ANY];
	kill(sweep.run.pid, SIGINT);
	int status = sweep_wait(&sweep, HEAPTAP_MS);
	ck_assert_msg(status == 0 || status == DROPPED, "%d: %s", status, run_err(&sweep.run));
	unsigned long detached = sweep.calls[SWEEP_ANY];
	ck_assert_uint_gt(attached, 0);
	ck_assert_uint_eq(steady, attached);
	ck_assert_uint_gt(detached, steady);
	sweep_deinit(&sweep);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_SUITE("integration/steady")
