/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/receiver.h"

#include <string.h>
#include <sys/socket.h>

#include "tests/support/daemonstage.h"
#include "tests/support/ht_check.h"

struct seen {
	struct receiver_thread thread[STAGE_SLOTS];
	size_t count;
};

static void see_thread(void *context, const struct receiver_thread *thread)
{
	struct seen *seen = context;
	ck_assert_uint_lt(seen->count, STAGE_SLOTS);
	seen->thread[seen->count++] = *thread;
}

static struct seen see_threads(const struct stage *stage)
{
	struct seen seen = {.count = 0};
	receiver_each_thread(stage->receiver, see_thread, &seen);
	return seen;
}

HT_TEST(threads_get_bounds_and_are_released)
{
	struct stage stage;
	struct agent agent, heir;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 5, 0x7000 + 1);
	struct seen seen = see_threads(&stage);
	ck_assert_uint_eq(seen.count, 1);
	ck_assert_uint_eq(seen.thread[0].slot, 5);
	ck_assert_uint_eq(seen.thread[0].tid, 1005);
	ck_assert_uint_eq(seen.thread[0].thread_pointer, 0x7000);
	ck_assert(!seen.thread[0].bounded);
	receiver_set_bounds(stage.receiver, &seen.thread[0], 0x10000, 0x20000);
	ck_assert(see_threads(&stage).thread[0].bounded);
	ck_assert_uint_eq(agent.slot->head.stack_lo, 0x10000);
	ck_assert_uint_eq(agent.slot->head.stack_hi, 0x20000);

	agent_events(&agent, 3);
	ck_no_err(receiver_drain(stage.receiver));
	receiver_release(stage.receiver, &seen.thread[0]);
	ck_assert_uint_eq(agent.slot->head.key, (0x7000 + 1) | ABI_SLOT_DEAD);
	ck_assert_uint_eq(see_threads(&stage).count, 0);

	/* The stream continues, and late data about the old owner does not change the new one. */
	agent_give_up_buffer(&agent);
	agent_init(&heir, &stage, 5, 0x9000);
	receiver_set_bounds(stage.receiver, &seen.thread[0], 0x1, 0x2);
	receiver_release(stage.receiver, &seen.thread[0]);
	ck_assert_uint_eq(agent.slot->head.key, 0x9000);
	ck_assert_uint_eq(agent.slot->head.stack_lo, 0x10000);
	ck_assert(!see_threads(&stage).thread[0].bounded);
	uint64_t position = agent.stream.length;
	agent_events(&heir, 4);
	ck_no_err(receiver_drain(stage.receiver));
	stage_hear(&stage, &heard);
	heard_check_piece(&heard, 1, position, heir.stream.length, REC_EVENTS_RESTART);
	heard_deinit(&heard);
	agent_deinit(&agent);
	agent_deinit(&heir);
	stage_deinit(&stage);
}

HT_TEST(totals_add_up_and_are_recorded)
{
	struct stage stage;
	struct agent outer, nested;
	struct heard heard;
	stage_init(&stage);
	agent_init(&outer, &stage, 0, 0x1000);
	agent_init(&nested, &stage, 1, 0x1000 + 1);
	agent_events(&outer, 10);
	agent_flush(&outer);
	agent_events(&nested, 3);
	agent_flush(&nested);
	agent_events(&nested, 4);
	outer.slot->head.failed_calls = 2;
	nested.slot->head.failed_calls = 3;
	outer.slot->head.trunc[ABI_TRUNC_STACK] = 5;
	outer.slot->head.lost[ABI_LOSS_NESTED] = 6;
	stage.control->lost[ABI_LOSS_SLOT_FULL] = 7;
	stage.control->unknown_pcs = 8;
	struct receiver_totals totals = stage_drain_last(&stage);
	ck_assert_uint_eq(totals.events, 17);
	ck_assert_uint_eq(totals.nested, 7);
	ck_assert_uint_eq(totals.threads, 1);
	ck_assert_uint_eq(receiver_unknown_pcs(stage.receiver), 8);
	ck_no_err(receiver_put_totals(stage.receiver));
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.loss[REC_COUNTER_EVENTS], 17);
	ck_assert_uint_eq(heard.loss[REC_COUNTER_NESTED], 7);
	ck_assert_uint_eq(heard.loss[REC_COUNTER_FAILED_CALLS], 5);
	ck_assert_uint_eq(heard.loss[REC_COUNTER_TRUNC_STACK], 5);
	ck_assert_uint_eq(heard.loss[REC_COUNTER_LOST_NESTED], 6);
	ck_assert_uint_eq(heard.loss[REC_COUNTER_LOST_SLOT_FULL], 7);
	ck_assert_uint_eq(heard.loss[REC_COUNTER_LOST_TIMEOUT], 0);
	heard_deinit(&heard);
	agent_deinit(&outer);
	agent_deinit(&nested);
	stage_deinit(&stage);
}

/* --- hostile targets --- */

HT_TEST(malformed_messages_are_ignored)
{
	static uint8_t body[ABI_BUFFER_BYTES + 1];
	const struct abi_message good = {
		.magic = ABI_MESSAGE_MAGIC, .slot = 1, .length = 64, .events = 1};
	struct stage stage;
	struct heard heard;
	stage_init(&stage);
	struct abi_message bad = good;
	bad.magic++;
	stage_send(&stage, &bad, body, 64);
	bad = good;
	bad.slot = STAGE_SLOTS;
	stage_send(&stage, &bad, body, 64);
	bad = good;
	bad.length = 65;
	stage_send(&stage, &bad, body, 64);
	bad = good;
	bad.length = ABI_BUFFER_BYTES + 1;
	stage_send(&stage, &bad, body, sizeof(body));
	bad.length = ABI_BUFFER_BYTES;
	stage_send(&stage, &bad, body, sizeof(body));
	ck_no_err(receiver_read_socket(stage.receiver));
	bad = good;
	bad.position = UINT64_MAX - 63;
	stage_send(&stage, &bad, body, 64);
	bad = good;
	bad.events = 33;
	stage_send(&stage, &bad, body, 64);
	bad = good;
	bad.length = 0;
	stage_send(&stage, &bad, body, 0);
	ck_assert_int_eq(send(stage.agent_fd, &good, 3, 0), 3);
	ck_no_err(receiver_read_socket(stage.receiver));
	ck_no_err(receiver_drain_last(stage.receiver));
	ck_assert_uint_eq(receiver_totals(stage.receiver).events, 0);
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.piece_count, 0);
	heard_deinit(&heard);
	stage_deinit(&stage);
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)*seed * below >> 32);
}

/* Returns, in about half of the calls, a number at which arithmetic could overflow; else a random
 * one. */
static uint64_t draw_word(uint32_t *seed)
{
	static const uint64_t edge[] = {0, 1, 9, 64, ABI_BUFFER_BYTES - 1, ABI_BUFFER_BYTES,
		ABI_BUFFER_BYTES + 1, INT64_MAX, UINT64_MAX, UINT64_MAX - ABI_BUFFER_BYTES};
	uint32_t pick = draw(seed, 2 * HT_ARRAY_SIZE(edge));
	if (pick < HT_ARRAY_SIZE(edge))
		return edge[pick];
	return (uint64_t)draw(seed, UINT32_MAX) << draw(seed, 33);
}

static void scribble(struct stage *stage, uint32_t *seed)
{
	uint64_t *word = (uint64_t *)&stage->slots[draw(seed, STAGE_SLOTS)].head;
	for (unsigned int i = 0; i < 20; i++)
		word[draw(seed, sizeof(struct abi_slot_head) / 8)] = draw_word(seed);
	uint8_t *buffer = stage->slots[draw(seed, STAGE_SLOTS)].buffer;
	for (unsigned int i = 0; i < 200; i++)
		buffer[draw(seed, ABI_BUFFER_BYTES)] = (uint8_t)draw(seed, 256);
	word = (uint64_t *)stage->control;
	word[draw(seed, sizeof(struct abi_control) / 8)] = draw_word(seed);
	stage->control->node_count = draw(seed, 5000);
	word = (uint64_t *)stage->nodes;
	word[draw(seed, 10000)] = draw_word(seed);
}

static void ignore_thread(void *context, const struct receiver_thread *thread)
{
	receiver_set_bounds(context, thread, 1, 2);
	if (thread->tid & 1)
		receiver_release(context, thread);
}

HT_TEST(garbage_in_memory_does_no_harm)
{
	struct stage stage;
	uint32_t seed = 1;
	stage_init(&stage);
	memset(stage.control->claimed, 0xff, sizeof(stage.control->claimed));
	for (unsigned int i = 0; i < 3000; i++) {
		scribble(&stage, &seed);
		ck_no_err(receiver_drain(stage.receiver));
		receiver_each_thread(stage.receiver, ignore_thread, stage.receiver);
		(void)receiver_totals(stage.receiver);
	}
	ck_no_err(receiver_drain_last(stage.receiver));
	ck_no_err(receiver_put_totals(stage.receiver));
	sink_finish(stage.sink, false);
	stage_deinit(&stage);
}

HT_SUITE("attach/daemon/receiver: slots")
