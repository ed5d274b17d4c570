/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/receiver.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "tests/support/daemonstage.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"

#define QUIET_MS 1500u

/* --- streams --- */

HT_TEST(whole_buffers_come_by_socket)
{
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 3, 0x1000);
	agent_events(&agent, 10);
	uint64_t first = agent.slot->head.committed;
	agent_flush(&agent);
	agent_events(&agent, 20);
	agent_flush(&agent);
	ck_no_err(receiver_read_socket(stage.receiver));
	ck_assert_uint_eq(receiver_totals(stage.receiver).events, 30);
	ck_assert_uint_eq(agent.slot->head.drained, agent.slot->head.committed);
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.piece_count, 2);
	heard_check_piece(&heard, 0, 0, first, REC_EVENTS_RESTART);
	heard_check_piece(&heard, 1, first, agent.stream.length - first, REC_EVENTS_RESTART);
	heard_check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

HT_TEST(parts_come_from_memory_and_the_rest_by_socket)
{
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	agent_events(&agent, 5);
	ck_no_err(receiver_drain(stage.receiver));
	uint64_t first = agent.stream.length;
	ck_assert_uint_eq(agent.slot->head.drained, first);
	agent_events(&agent, 1);
	ck_no_err(receiver_drain(stage.receiver));
	uint64_t second = agent.stream.length;
	agent_events(&agent, 7);
	agent_flush(&agent);
	ck_no_err(receiver_read_socket(stage.receiver));
	ck_assert_uint_eq(receiver_totals(stage.receiver).events, 13);
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.piece_count, 3);
	heard_check_piece(&heard, 0, 0, first, REC_EVENTS_RESTART);
	heard_check_piece(&heard, 1, first, second - first, 0);
	heard_check_piece(&heard, 2, second, agent.stream.length - second, 0);
	heard_check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

/* Two threads have recorded; the marks are cleared when one seems to be alone. */
HT_TEST(marks_of_several_are_cleared)
{
	static const struct timespec longer_than_a_look = {.tv_nsec = 5000000};
	struct stage stage;
	struct agent agent[2];
	stage_init(&stage);
	uint64_t *last = (void *)(stage.image + ABI_LAST_OFF);
	for (uint32_t i = 0; i < 2; i++) {
		agent_init(&agent[i], &stage, i, 0x1000 + 0x100 * i);
		agent_events(&agent[i], 1);
	}
	ck_no_err(receiver_drain(stage.receiver));
	last[-1] = last[0] = last[ABI_LAST_WORDS - 1] = last[ABI_LAST_WORDS] = 1;
	nanosleep(&longer_than_a_look, NULL);
	agent_events(&agent[1], 1);
	ck_no_err(receiver_drain(stage.receiver));
	ck_assert_uint_eq(last[0], 0);
	ck_assert_uint_eq(last[ABI_LAST_WORDS - 1], 0);
	ck_assert_uint_eq(last[-1], 1);
	ck_assert_uint_eq(last[ABI_LAST_WORDS], 1);
	for (uint32_t i = 0; i < 2; i++)
		agent_deinit(&agent[i]);
	stage_deinit(&stage);
}

/* The receiver takes no buffer again that was sent twice (a jump out of the hook can cause that),
 * or that a drain has taken before. */
HT_TEST(nothing_is_taken_twice)
{
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 1, 0x1000);
	agent_events(&agent, 5);
	ck_no_err(receiver_drain(stage.receiver));
	agent_send(&agent);
	agent_flush(&agent);
	agent_events(&agent, 2);
	ck_no_err(receiver_drain(stage.receiver));
	ck_no_err(receiver_drain(stage.receiver));
	ck_assert_uint_eq(receiver_totals(stage.receiver).events, 7);
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.piece_count, 2);
	heard_check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

HT_TEST(a_drain_takes_waiting_messages_first)
{
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 1, 0x1000);
	agent_events(&agent, 5);
	agent_flush(&agent);
	agent_events(&agent, 6);
	ck_no_err(receiver_drain(stage.receiver));
	struct receiver_totals totals = stage_drain_last(&stage);
	ck_assert_uint_eq(totals.events, 11);
	ck_assert_uint_eq(totals.committed, 11);
	ck_assert_uint_eq(totals.lost[ABI_LOSS_TIMEOUT], 0);
	stage_hear(&stage, &heard);
	heard_check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

HT_TEST(a_dropped_buffer_is_a_gap)
{
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 2, 0x1000);
	agent_events(&agent, 5);
	ck_no_err(receiver_drain(stage.receiver));
	uint64_t drained = agent.stream.length;
	agent_events(&agent, 4);
	agent_give_up_buffer(&agent);
	uint64_t start = agent.stream.length;
	/* The agent counts nine lost events, of which five were drained. */
	agent.slot->head.lost[ABI_LOSS_TIMEOUT] += 9;
	agent_events(&agent, 3);
	ck_no_err(receiver_drain(stage.receiver));
	struct receiver_totals totals = stage_drain_last(&stage);
	ck_assert_uint_eq(totals.events, 8);
	ck_assert_uint_eq(totals.committed, 12);
	ck_assert_uint_eq(totals.lost[ABI_LOSS_TIMEOUT], 4);
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.piece_count, 2);
	heard_check_piece(&heard, 0, 0, drained, REC_EVENTS_RESTART);
	heard_check_piece(&heard, 1, start, agent.stream.length - start, REC_EVENTS_RESTART);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

HT_TEST(a_gap_at_the_end_is_counted)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 2, 0x1000);
	agent_events(&agent, 9);
	agent_give_up_buffer(&agent);
	agent.slot->head.lost[ABI_LOSS_SOCKET] += 9;
	struct receiver_totals totals = stage_drain_last(&stage);
	ck_assert_uint_eq(totals.events, 0);
	ck_assert_uint_eq(totals.committed, 9);
	ck_assert_uint_eq(totals.lost[ABI_LOSS_SOCKET], 9);
	ck_assert_uint_eq(totals.lost[ABI_LOSS_TIMEOUT], 0);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

/* A thread is killed after it counted its event and before it committed it. */
HT_TEST(a_killed_thread_leaves_no_false_loss)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 2, 0x1000);
	agent_events(&agent, 9);
	agent.slot->head.state = ABI_SLOT_RECORDING;
	agent.slot->head.events++;
	struct receiver_totals totals = stage_drain_last(&stage);
	ck_assert_uint_eq(totals.events, 9);
	ck_assert_uint_eq(totals.committed, 9);
	ck_assert_uint_eq(totals.lost[ABI_LOSS_TIMEOUT], 0);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

HT_TEST(memory_alone_is_enough)
{
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	receiver_destroy(stage.receiver);
	struct receiver_options options = {
		.image = stage.image,
		.image_bytes = abi_image_bytes(STAGE_SLOTS),
		.slot_max = STAGE_SLOTS,
		.socket_fd = -1,
		.sink = stage.sink,
	};
	ck_no_err(receiver_create(&options, &stage.receiver));
	agent_init(&agent, &stage, 7, 0x1000);
	for (int i = 0; i < 3; i++) {
		agent_events(&agent, 5);
		ck_no_err(receiver_drain(stage.receiver));
		ck_assert_uint_eq(agent.slot->head.drained, agent.slot->head.committed);
		agent_give_up_buffer(&agent);
	}
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.piece_count, 3);
	heard_check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

HT_TEST(a_closed_socket_is_no_error)
{
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 7, 0x1000);
	agent_events(&agent, 5);
	agent_flush(&agent);
	agent_events(&agent, 5);
	ck_assert_int_eq(receiver_socket(stage.receiver), stage.daemon_fd);
	close(stage.agent_fd);
	stage.agent_fd = -1;
	ck_no_err(receiver_drain(stage.receiver));
	ck_assert_int_eq(receiver_socket(stage.receiver), -1);
	ck_no_err(receiver_drain_last(stage.receiver));
	stage_hear(&stage, &heard);
	heard_check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

/* The agent runs in the middle of a copy, when the copy reaches the protected page. */
static struct agent *overtaking_agent;

static void protect_second_page(const struct agent *agent, int protection)
{
	ck_assert_int_eq(
		mprotect(agent->slot->buffer + HT_PAGE_BYTES, HT_PAGE_BYTES, protection), 0);
}

static void overtake(int signal_number)
{
	(void)signal_number;
	protect_second_page(overtaking_agent, PROT_READ | PROT_WRITE);
	agent_flush(overtaking_agent);
	agent_events(overtaking_agent, 2000);
}

HT_TEST(an_overtaken_copy_is_thrown_away)
{
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	agent_events(&agent, 2000);
	ck_assert_uint_gt(agent.stream.length, 2 * HT_PAGE_BYTES);
	overtaking_agent = &agent;
	signal(SIGSEGV, overtake);
	protect_second_page(&agent, PROT_NONE);
	ck_no_err(receiver_drain(stage.receiver));
	signal(SIGSEGV, SIG_DFL);
	struct receiver_totals totals = stage_drain_last(&stage);
	ck_assert_uint_eq(totals.events, 4000);
	ck_assert_uint_eq(totals.committed, 4000);
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.piece_count, 2);
	heard_check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

/* --- completeness --- */

/* Makes passes until the rate of the TSC is known, so that REC_SYNC has a complete_tsc. */
static void settle(struct stage *stage)
{
	struct timespec start, now;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < 2000000);
	ck_no_err(receiver_drain(stage->receiver));
}

static uint64_t last_complete_tsc(struct stage *stage)
{
	struct heard heard;
	stage_hear(stage, &heard);
	ck_assert_uint_ge(heard.sync_count, 1);
	uint64_t complete = heard.sync[heard.sync_count - 1].complete_tsc;
	heard_deinit(&heard);
	return complete;
}

HT_TEST(completeness_follows_the_clock)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	agent_event(&agent, 0);
	settle(&stage);
	uint64_t now = __rdtsc();
	settle(&stage);
	settle(&stage);
	uint64_t settled = receiver_settled(stage.receiver);
	agent_event(&agent, 1);
	settle(&stage);
	ck_assert(settled > now && last_complete_tsc(&stage) == settled);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

/* While the target does nothing, the trace gets two more REC_SYNCs, and one each second. */
HT_TEST(quiet_passes_put_nothing)
{
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	agent_event(&agent, 0);
	settle(&stage);
	unsigned passes = 0;
	/* If this process gets no core, the loop takes longer; each second of it has a REC_SYNC. */
	uint64_t end_ms = run_now_ms() + QUIET_MS;
	for (; run_now_ms() < end_ms; passes++)
		ck_no_err(receiver_drain(stage.receiver));
	uint64_t seconds = (run_now_ms() + 1000 - end_ms + QUIET_MS) / 1000;
	ck_assert_uint_gt(passes, 2 + seconds);
	ck_assert(receiver_is_quiet(stage.receiver));
	agent_event(&agent, 1);
	ck_no_err(receiver_drain(stage.receiver));
	stage_hear(&stage, &heard);
	ck_assert_uint_gt(heard.sync_count, 3);
	ck_assert_uint_le(heard.sync_count, 1 + 2 + seconds + 1);
	/* A pass that receives events also puts a REC_SYNC. */
	ck_assert_uint_eq(heard.piece[1].syncs_before, heard.sync_count - 1);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

HT_TEST(completeness_stays_behind_the_tick)
{
	struct stage stage;
	stage_init(&stage);
	settle(&stage);
	uint64_t now = __rdtsc();
	settle(&stage);
	ck_assert_uint_lt(last_complete_tsc(&stage), now);
	stage_deinit(&stage);
}

/* Some records must be in the trace before the events behind them: receiver_hold keeps complete_tsc
 * back. */
HT_TEST(completeness_is_held_as_long_as_asked)
{
	struct stage stage;
	for (int again = 0; again < 2; again++) {
		stage_init(&stage);
		settle(&stage);
		uint64_t now = __rdtsc();
		receiver_hold(stage.receiver, now);
		settle(&stage);
		settle(&stage);
		settle(&stage);
		if (again) {
			receiver_hold(stage.receiver, UINT64_MAX);
			settle(&stage);
			ck_assert_uint_gt(last_complete_tsc(&stage), now);
		} else {
			ck_assert_uint_eq(last_complete_tsc(&stage), now);
		}
		stage_deinit(&stage);
	}
}

HT_TEST(a_recording_thread_holds_completeness)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	settle(&stage);
	agent_event(&agent, 0);
	stage_store(&agent.slot->head.state, ABI_SLOT_RECORDING);
	settle(&stage);
	settle(&stage);
	ck_assert_uint_eq(last_complete_tsc(&stage), agent.slot->head.last_tsc);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

HT_TEST(a_dead_thread_does_not_hold_completeness)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	agent_event(&agent, 0);
	stage_store(&agent.slot->head.state, ABI_SLOT_RECORDING);
	stage_store(&agent.slot->head.key, 0x1000 | ABI_SLOT_DEAD);
	settle(&stage);
	settle(&stage);
	ck_assert_uint_gt(last_complete_tsc(&stage), agent.slot->head.last_tsc);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

HT_TEST(a_slot_that_cannot_be_read_holds_completeness)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	agent_event(&agent, 0);
	settle(&stage);
	agent.slot->head.buffer_start += ABI_BUFFER_BYTES;
	uint64_t now = __rdtsc();
	settle(&stage);
	settle(&stage);
	ck_assert_uint_lt(last_complete_tsc(&stage), now);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

HT_TEST(the_last_pass_completes_everything)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	agent_event(&agent, 0);
	stage_store(&agent.slot->head.state, ABI_SLOT_RECORDING);
	uint64_t now = __rdtsc();
	ck_no_err(receiver_drain_last(stage.receiver));
	ck_assert_uint_ge(last_complete_tsc(&stage), now);
	agent_deinit(&agent);
	stage_deinit(&stage);
}

/* --- everything at once --- */

#define STORM_AGENTS 6u
#define STORM_EVENTS 25000u

struct storm {
	struct agent agent;
	uint32_t seed;
	unsigned int *running;
};

static uint32_t draw(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)*seed * below >> 32);
}

static void *storm_run(void *context)
{
	struct storm *storm = context;
	struct agent *agent = &storm->agent;
	const struct abi_slot_head *head = &agent->slot->head;
	for (unsigned int i = 0; i < STORM_EVENTS; i++) {
		agent_event(agent, 0);
		bool full = head->committed - head->buffer_start > ABI_BUFFER_BYTES - 64;
		if (full || !draw(&storm->seed, 700))
			agent_flush(agent);
		if (!draw(&storm->seed, 900))
			sched_yield();
	}
	__atomic_sub_fetch(storm->running, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Checks that no event with a stamp below the complete_tsc of a REC_SYNC comes after that record.
 */
static void check_syncs(const struct heard *heard, const struct agent *agent)
{
	size_t next = 0;
	for (size_t i = 0; i < heard->piece_count; i++) {
		const struct piece *piece = &heard->piece[i];
		if (piece->slot != agent->index)
			continue;
		uint64_t complete = 0;
		if (piece->syncs_before)
			complete = heard->sync[piece->syncs_before - 1].complete_tsc;
		for (; next < agent->stamp_count &&
			agent->stamp[next].end <= piece->position + piece->length;
			next++)
			ck_assert_uint_ge(agent->stamp[next].tsc, complete);
	}
	ck_assert_uint_eq(next, agent->stamp_count);
	for (size_t i = 1; i < heard->sync_count; i++)
		ck_assert_uint_ge(heard->sync[i].complete_tsc, heard->sync[i - 1].complete_tsc);
}

HT_TEST(streams_are_whole_under_concurrent_drains)
{
	static struct storm storm[STORM_AGENTS];
	pthread_t thread[STORM_AGENTS];
	unsigned int running = STORM_AGENTS;
	struct stage stage;
	struct heard heard;
	stage_init(&stage);
	for (uint32_t i = 0; i < STORM_AGENTS; i++) {
		agent_init(&storm[i].agent, &stage, i, 0x1000 * (i + 1));
		storm[i].seed = i * 7919 + 1;
		storm[i].running = &running;
		ck_assert_int_eq(pthread_create(&thread[i], NULL, storm_run, &storm[i]), 0);
	}
	for (uint32_t seed = 5; __atomic_load_n(&running, __ATOMIC_ACQUIRE);) {
		if (draw(&seed, 3))
			ck_no_err(receiver_read_socket(stage.receiver));
		else
			ck_no_err(receiver_drain(stage.receiver));
	}
	for (uint32_t i = 0; i < STORM_AGENTS; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	struct receiver_totals totals = stage_drain_last(&stage);
	ck_assert_uint_eq(totals.events, STORM_AGENTS * STORM_EVENTS);
	ck_assert_uint_eq(totals.committed, totals.events);
	ck_assert_uint_eq(totals.threads, STORM_AGENTS);
	stage_hear(&stage, &heard);
	for (uint32_t i = 0; i < STORM_AGENTS; i++) {
		heard_check_stream(&heard, &storm[i].agent);
		check_syncs(&heard, &storm[i].agent);
		agent_deinit(&storm[i].agent);
	}
	heard_deinit(&heard);
	stage_deinit(&stage);
}

HT_SUITE("attach/daemon/receiver")
