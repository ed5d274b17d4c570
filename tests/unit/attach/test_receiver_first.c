/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/receiver.h"

#include "tests/support/daemonstage.h"
#include "tests/support/ht_check.h"

/* A thread has been in its first hook, without a core, since before completeness was first known.
 */
HT_TEST(a_first_event_in_the_making_holds_completeness)
{
	struct stage stage;
	struct agent agent, other;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	agent_init(&other, &stage, 1, 0x2000);
	stage_store(&agent.slot->head.state, ABI_SLOT_RECORDING);
	for (unsigned after = 0; after < 3; after += receiver_settled(stage.receiver) != 0) {
		agent_event(&other, 0);
		ck_no_err(receiver_drain(stage.receiver));
	}
	stage_hear(&stage, &heard);
	ck_assert_uint_ge(heard.sync_count, 3);
	ck_assert_uint_eq(heard.sync[heard.sync_count - 1].complete_tsc, 0);
	heard_deinit(&heard);
	agent_deinit(&agent);
	agent_deinit(&other);
	stage_deinit(&stage);
}

HT_SUITE("attach/daemon/receiver/first")
