/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/receiver.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <x86intrin.h>

#include "format/abi_hooks.h"
#include "format/event.h"
#include "format/reader.h"
#include "tests/support/eventbuild.h"
#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

#define SLOTS	     8u
#define NODES_LISTED 64u

/* What a trace holds, put together again. */
struct piece {
	uint32_t slot;
	uint64_t position, flags, length;
	uint64_t syncs_before; /* REC_SYNCs that stand before it */
	uint32_t nodes_before;
};

struct heard {
	struct bytes_out stream[SLOTS]; /* bodies in a row; a gap is filled with zeros */
	struct piece *piece;
	size_t piece_count, piece_max;
	struct rec_sync *sync;
	size_t sync_count, sync_max;
	uint32_t node_id[NODES_LISTED];
	struct rec_node node[NODES_LISTED];
	uint32_t node_count; /* may exceed what is listed */
	uint64_t loss[REC_COUNTER_COUNT];
};

/* Daemon and target in one process. */
struct stage {
	uint8_t *image;
	struct abi_control *control;
	struct abi_node *nodes;
	struct abi_slot *slots;
	int daemon_fd, agent_fd;
	struct sink *sink;
	struct receiver *receiver;
};

static void stage_init(struct stage *stage)
{
	int pair[2];
	size_t length = abi_image_bytes(SLOTS);
	int fd = memfd_create("image", MFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)length), 0);
	stage->image = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(stage->image, MAP_FAILED);
	close(fd);
	stage->control = (void *)(stage->image + ABI_CONTROL_OFF);
	stage->nodes = (void *)(stage->image + ABI_NODES_OFF);
	stage->slots = (void *)(stage->image + ABI_SLOTS_OFF);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	stage->daemon_fd = pair[0];
	stage->agent_fd = pair[1];
	char *path = tmpdir_path("trace");
	ck_no_err(sink_create(&(struct sink_options){.path = path, .replace = true}, &stage->sink));
	free(path);
	struct receiver_options options = {
		.image = stage->image,
		.image_bytes = length,
		.slot_max = SLOTS,
		.socket_fd = stage->daemon_fd,
		.sink = stage->sink,
	};
	ck_no_err(receiver_create(&options, &stage->receiver));
}

static void stage_deinit(struct stage *stage)
{
	receiver_destroy(stage->receiver);
	sink_destroy(stage->sink);
	close(stage->daemon_fd);
	if (stage->agent_fd >= 0)
		close(stage->agent_fd);
	munmap(stage->image, abi_image_bytes(SLOTS));
}

/* Makes room for one more. */
static void *grown(void *list, size_t count, size_t *max, size_t item_bytes)
{
	if (count < *max)
		return list;
	*max = *max * 2 + 64;
	list = realloc(list, *max * item_bytes);
	ck_assert_ptr_nonnull(list);
	return list;
}

static void hear_events(struct heard *heard, const struct rec_events *events)
{
	ck_assert_uint_lt(events->slot, SLOTS);
	heard->piece =
		grown(heard->piece, heard->piece_count, &heard->piece_max, sizeof(*heard->piece));
	heard->piece[heard->piece_count++] = (struct piece){
		.slot = (uint32_t)events->slot,
		.position = events->position,
		.flags = events->flags,
		.length = events->body.length,
		.syncs_before = heard->sync_count,
		.nodes_before = heard->node_count,
	};
	struct bytes_out *stream = &heard->stream[events->slot];
	ck_assert_uint_ge(events->position, stream->length);
	size_t gap = events->position - stream->length;
	ck_no_err(bytes_out_reserve(stream, gap));
	if (gap)
		memset(stream->data + stream->length, 0, gap);
	stream->length += gap;
	ck_no_err(bytes_out_put(stream, events->body.data, events->body.length));
}

static void hear_nodes(struct heard *heard, const struct rec_nodes *nodes)
{
	struct bytes body = nodes->body;
	for (uint64_t i = 0; i < nodes->count; i++, heard->node_count++) {
		struct rec_node node;
		ck_no_err(rec_node_next(&body, &node));
		if (heard->node_count >= NODES_LISTED)
			continue;
		heard->node_id[heard->node_count] = (uint32_t)(nodes->first_id + i);
		heard->node[heard->node_count] = node;
	}
	ck_assert_uint_eq(bytes_left(&body), 0);
}

static void hear_record(struct heard *heard, const struct rec *rec)
{
	if (rec->kind == REC_EVENTS)
		hear_events(heard, &rec->events);
	else if (rec->kind == REC_NODES)
		hear_nodes(heard, &rec->nodes);
	else if (rec->kind == REC_LOSS)
		heard->loss[rec->loss.counter] = rec->loss.total;
	else if (rec->kind == REC_SYNC) {
		heard->sync = grown(
			heard->sync, heard->sync_count, &heard->sync_max, sizeof(*heard->sync));
		heard->sync[heard->sync_count++] = rec->sync;
	}
}

/* Completes the trace and reads it back. */
static void stage_hear(struct stage *stage, struct heard *heard)
{
	struct trace_reader *reader;
	static struct rec rec;
	enum trace_end end;
	*heard = (struct heard){0};
	ck_no_err(sink_finish(stage->sink));
	ck_assert_ptr_null(sink_problem(stage->sink));
	int fd = sink_reopen(stage->sink);
	ck_no_err(trace_reader_create(fd, "trace", &reader));
	for (;;) {
		ck_no_err(trace_reader_next(reader, &rec, &end));
		if (end != TRACE_MORE)
			break;
		hear_record(heard, &rec);
	}
	ck_assert_int_eq(end, TRACE_COMPLETE);
	trace_reader_destroy(reader);
	close(fd);
}

static void heard_deinit(struct heard *heard)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		bytes_out_deinit(&heard->stream[i]);
	free(heard->piece);
	free(heard->sync);
}

/* --- an agent that keeps to the protocol --- */

struct stamp {
	uint64_t tsc, end; /* of an event, and where it ends in the stream */
};

struct agent {
	struct stage *stage;
	uint32_t index;
	struct abi_slot *slot;
	struct eventbuild build;
	struct bytes_out stream; /* all that was committed */
	struct stamp *stamp;
	size_t stamp_count, stamp_max;
};

#define put(at, value) __atomic_store_n(at, value, __ATOMIC_RELEASE)

static void agent_init(struct agent *agent, struct stage *stage, uint32_t index, uint64_t key)
{
	*agent = (struct agent){.stage = stage, .index = index, .slot = &stage->slots[index]};
	struct abi_slot_head *head = &agent->slot->head;
	__atomic_fetch_or(
		&stage->control->claimed[index / 64], 1ull << index % 64, __ATOMIC_RELEASE);
	put(&head->key, key);
	put(&head->tid, 1000 + index);
	put(&head->incarnation, head->incarnation + 2);
}

static void agent_deinit(struct agent *agent)
{
	eventbuild_deinit(&agent->build);
	bytes_out_deinit(&agent->stream);
	free(agent->stamp);
}

/* What `build` holds goes into the buffer. */
static void agent_commit(struct agent *agent)
{
	struct abi_slot_head *head = &agent->slot->head;
	struct bytes_out *out = &agent->build.out;
	uint64_t used = head->committed - head->buffer_start;
	ck_assert_uint_le(used + out->length, ABI_BUFFER_BYTES);
	memcpy(agent->slot->buffer + used, out->data, out->length);
	ck_no_err(bytes_out_put(&agent->stream, out->data, out->length));
	put(&head->committed, head->committed + out->length);
	out->length = 0;
}

static void agent_begin(struct agent *agent)
{
	struct abi_slot_head *head = &agent->slot->head;
	eventbuild_restart(&agent->build);
	head->buffer_events = 0;
	eventbuild_thread(&agent->build, head->tid, (uint32_t)(head->key & 3));
	agent_commit(agent);
}

static void note_stamp(struct agent *agent, uint64_t tsc)
{
	agent->stamp =
		grown(agent->stamp, agent->stamp_count, &agent->stamp_max, sizeof(*agent->stamp));
	agent->stamp[agent->stamp_count++] =
		(struct stamp){.tsc = tsc, .end = agent->slot->head.committed};
}

static void agent_event(struct agent *agent, uint32_t stack)
{
	struct abi_slot_head *head = &agent->slot->head;
	if (head->committed == head->buffer_start)
		agent_begin(agent);
	put(&head->state, ABI_SLOT_RECORDING);
	uint64_t tsc = __rdtsc();
	uint64_t addr = 0x7f0000000000 + (tsc & 0xfffff0);
	if (tsc & 1)
		eventbuild_alloc(&agent->build, ABI_EVENT_ALLOC, ABI_HOOK_MALLOC, tsc, addr,
			tsc & 0xfff, stack);
	else
		eventbuild_free(&agent->build, ABI_EVENT_FREE, ABI_HOOK_FREE, tsc, addr, 32);
	put(&head->last_tsc, tsc);
	head->events++;
	head->buffer_events++;
	agent_commit(agent);
	note_stamp(agent, tsc);
	put(&head->state, ABI_SLOT_IDLE);
}

static void agent_events(struct agent *agent, unsigned int count)
{
	while (count--)
		agent_event(agent, 0);
}

static void send_message(int fd, const struct abi_message *head, const void *body, size_t length)
{
	struct iovec iov[2] = {
		{(void *)head, sizeof(*head)},
		{(void *)body, length},
	};
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
	ck_assert_int_eq(sendmsg(fd, &message, MSG_NOSIGNAL), (ssize_t)(sizeof(*head) + length));
}

static void agent_send(struct agent *agent)
{
	const struct abi_slot_head *head = &agent->slot->head;
	size_t length = head->committed - head->buffer_start;
	struct abi_message message = {
		.magic = ABI_MESSAGE_MAGIC,
		.slot = agent->index,
		.position = head->buffer_start,
		.length = (uint32_t)length,
		.events = (uint32_t)head->buffer_events,
	};
	send_message(agent->stage->agent_fd, &message, agent->slot->buffer, length);
}

static void agent_give_up_buffer(struct agent *agent)
{
	put(&agent->slot->head.buffer_start, agent->slot->head.committed);
}

static void agent_flush(struct agent *agent)
{
	agent_send(agent);
	agent_give_up_buffer(agent);
}

static void check_stream(const struct heard *heard, const struct agent *agent)
{
	const struct bytes_out *got = &heard->stream[agent->index];
	ck_assert_uint_eq(got->length, agent->stream.length);
	ck_assert_mem_eq(got->data, agent->stream.data, got->length);
}

static void check_piece(
	const struct heard *heard, size_t index, uint64_t position, uint64_t length, uint64_t flags)
{
	ck_assert_uint_lt(index, heard->piece_count);
	ck_assert_uint_eq(heard->piece[index].position, position);
	ck_assert_uint_eq(heard->piece[index].length, length);
	ck_assert_uint_eq(heard->piece[index].flags, flags);
}

static struct receiver_totals totals_after_last(struct stage *stage)
{
	ck_no_err(receiver_drain_last(stage->receiver));
	return receiver_totals(stage->receiver);
}

/* --- streams --- */

START_TEST(whole_buffers_come_by_socket)
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
	check_piece(&heard, 0, 0, first, REC_EVENTS_RESTART);
	check_piece(&heard, 1, first, agent.stream.length - first, REC_EVENTS_RESTART);
	check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

START_TEST(parts_come_from_memory_and_the_rest_by_socket)
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
	check_piece(&heard, 0, 0, first, REC_EVENTS_RESTART);
	check_piece(&heard, 1, first, second - first, 0);
	check_piece(&heard, 2, second, agent.stream.length - second, 0);
	check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

/* A buffer that was sent twice (its hook was left by a jump) or drained as a whole before. */
START_TEST(nothing_is_taken_twice)
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
	check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

START_TEST(a_drain_takes_waiting_messages_first)
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
	struct receiver_totals totals = totals_after_last(&stage);
	ck_assert_uint_eq(totals.events, 11);
	ck_assert_uint_eq(totals.committed, 11);
	ck_assert_uint_eq(totals.lost[ABI_LOSS_TIMEOUT], 0);
	stage_hear(&stage, &heard);
	check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

START_TEST(a_dropped_buffer_is_a_gap)
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
	/* The agent does not know that five of them were drained. */
	agent.slot->head.lost[ABI_LOSS_TIMEOUT] += 9;
	agent_events(&agent, 3);
	ck_no_err(receiver_drain(stage.receiver));
	struct receiver_totals totals = totals_after_last(&stage);
	ck_assert_uint_eq(totals.events, 8);
	ck_assert_uint_eq(totals.committed, 12);
	ck_assert_uint_eq(totals.lost[ABI_LOSS_TIMEOUT], 4);
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.piece_count, 2);
	check_piece(&heard, 0, 0, drained, REC_EVENTS_RESTART);
	check_piece(&heard, 1, start, agent.stream.length - start, REC_EVENTS_RESTART);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

START_TEST(a_gap_at_the_end_is_counted)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 2, 0x1000);
	agent_events(&agent, 9);
	agent_give_up_buffer(&agent);
	agent.slot->head.lost[ABI_LOSS_SOCKET] += 9;
	struct receiver_totals totals = totals_after_last(&stage);
	ck_assert_uint_eq(totals.events, 0);
	ck_assert_uint_eq(totals.committed, 9);
	ck_assert_uint_eq(totals.lost[ABI_LOSS_SOCKET], 9);
	ck_assert_uint_eq(totals.lost[ABI_LOSS_TIMEOUT], 0);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

/* Killed after it counted its event and before it committed it. */
START_TEST(a_killed_thread_leaves_no_false_loss)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 2, 0x1000);
	agent_events(&agent, 9);
	agent.slot->head.state = ABI_SLOT_RECORDING;
	agent.slot->head.events++;
	struct receiver_totals totals = totals_after_last(&stage);
	ck_assert_uint_eq(totals.events, 9);
	ck_assert_uint_eq(totals.committed, 9);
	ck_assert_uint_eq(totals.lost[ABI_LOSS_TIMEOUT], 0);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

START_TEST(memory_alone_is_enough)
{
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	receiver_destroy(stage.receiver);
	struct receiver_options options = {
		.image = stage.image,
		.image_bytes = abi_image_bytes(SLOTS),
		.slot_max = SLOTS,
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
	check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

START_TEST(a_closed_socket_is_no_error)
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
	check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

/* The agent gets its turn in the middle of a copy: when it comes to the page that is protected. */
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

START_TEST(an_overtaken_copy_is_thrown_away)
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
	struct receiver_totals totals = totals_after_last(&stage);
	ck_assert_uint_eq(totals.events, 4000);
	ck_assert_uint_eq(totals.committed, 4000);
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.piece_count, 2);
	check_stream(&heard, &agent);
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

/* --- nodes --- */

static void publish_node(struct stage *stage, uint32_t id, uint32_t parent, uint64_t pc)
{
	struct abi_node *node = &stage->nodes[id];
	node->pc = pc;
	node->parent = parent;
	node->epoch = 7;
	node->flags = ABI_NODE_EXACT;
	put(&node->ready, 1);
}

START_TEST(nodes_come_once_and_after_their_parents)
{
	struct stage stage;
	struct heard heard;
	stage_init(&stage);
	put(&stage.control->node_count, 5);
	publish_node(&stage, 1, 0, 0x11);
	publish_node(&stage, 3, 1, 0x33);
	publish_node(&stage, 4, 2, 0x44);
	publish_node(&stage, 5, 9, 0x55); /* a parent that cannot be */
	ck_no_err(receiver_drain(stage.receiver));
	ck_no_err(receiver_drain(stage.receiver));
	publish_node(&stage, 2, 1, 0x22);
	ck_no_err(receiver_drain(stage.receiver));
	ck_no_err(receiver_drain(stage.receiver));
	stage_hear(&stage, &heard);
	const uint32_t id[] = {1, 3, 5, 2, 4}, parent[] = {0, 1, 0, 1, 2};
	ck_assert_uint_eq(heard.node_count, HT_ARRAY_SIZE(id));
	for (uint32_t i = 0; i < heard.node_count; i++) {
		ck_assert_uint_eq(heard.node_id[i], id[i]);
		ck_assert_uint_eq(heard.node[i].parent, parent[i]);
		ck_assert_uint_eq(heard.node[i].pc, id[i] * 0x11);
		ck_assert_uint_eq(heard.node[i].epoch, 7);
		ck_assert_uint_eq(heard.node[i].flags, ABI_NODE_EXACT);
	}
	heard_deinit(&heard);
	stage_deinit(&stage);
}
END_TEST

START_TEST(nodes_stand_before_the_events_that_name_them)
{
	struct stage stage;
	struct agent agent;
	struct heard heard;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	for (uint32_t id = 1; id <= 9000; id++) {
		put(&stage.control->node_count, id);
		publish_node(&stage, id, id - 1, id);
		agent_event(&agent, id);
		if (id % 100 == 0)
			agent_flush(&agent);
		if (id % 100 == 50)
			ck_no_err(receiver_drain(stage.receiver));
		if (id % 300 == 0)
			ck_no_err(receiver_read_socket(stage.receiver));
	}
	ck_no_err(receiver_drain_last(stage.receiver));
	stage_hear(&stage, &heard);
	check_stream(&heard, &agent);
	ck_assert_uint_eq(heard.node_count, 9000);
	struct event_decoder decoder = {0};
	for (size_t i = 0; i < heard.piece_count; i++) {
		const struct piece *piece = &heard.piece[i];
		struct bytes in = bytes_of(agent.stream.data + piece->position, piece->length);
		struct event event;
		if (piece->flags & REC_EVENTS_RESTART)
			event_decoder_restart(&decoder);
		while (event_next(&decoder, &in, &event) == EVENT_OK)
			ck_assert_uint_le(event.stack, piece->nodes_before);
	}
	heard_deinit(&heard);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

START_TEST(all_nodes_that_fit_are_taken)
{
	struct stage stage;
	struct heard heard;
	stage_init(&stage);
	put(&stage.control->node_count, UINT64_MAX);
	/* What lies behind the nodes must not be taken for one. */
	publish_node(&stage, ABI_NODE_MAX, 1, 1);
	for (uint32_t id = 1; id < ABI_NODE_MAX; id++) {
		if (id % 1000)
			publish_node(&stage, id, id - 1, id);
	}
	ck_no_err(receiver_drain(stage.receiver));
	for (uint32_t id = 1000; id < ABI_NODE_MAX; id += 1000)
		publish_node(&stage, id, 0, id);
	ck_no_err(receiver_drain(stage.receiver));
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.node_count, ABI_NODE_MAX - 1);
	heard_deinit(&heard);
	stage_deinit(&stage);
}
END_TEST

/* --- completeness --- */

/* Passes until the pace of the TSC is known, so that REC_SYNC claims something. */
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

START_TEST(completeness_follows_the_clock)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	agent_event(&agent, 0);
	settle(&stage);
	uint64_t now = __rdtsc();
	settle(&stage);
	ck_assert_uint_gt(last_complete_tsc(&stage), now);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

START_TEST(a_recording_thread_holds_completeness)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	settle(&stage);
	agent_event(&agent, 0);
	put(&agent.slot->head.state, ABI_SLOT_RECORDING);
	settle(&stage);
	settle(&stage);
	ck_assert_uint_eq(last_complete_tsc(&stage), agent.slot->head.last_tsc);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

START_TEST(a_dead_thread_does_not_hold_completeness)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	agent_event(&agent, 0);
	put(&agent.slot->head.state, ABI_SLOT_RECORDING);
	put(&agent.slot->head.key, 0x1000 | ABI_SLOT_DEAD);
	settle(&stage);
	ck_assert_uint_gt(last_complete_tsc(&stage), agent.slot->head.last_tsc);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

START_TEST(a_slot_that_cannot_be_read_holds_completeness)
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
END_TEST

START_TEST(the_last_pass_completes_everything)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	agent_init(&agent, &stage, 0, 0x1000);
	agent_event(&agent, 0);
	put(&agent.slot->head.state, ABI_SLOT_RECORDING);
	uint64_t now = __rdtsc();
	ck_no_err(receiver_drain_last(stage.receiver));
	ck_assert_uint_ge(last_complete_tsc(&stage), now);
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

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

/* No event stamped before complete_tsc comes after its SYNC. */
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

START_TEST(streams_are_whole_under_concurrent_drains)
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
	struct receiver_totals totals = totals_after_last(&stage);
	ck_assert_uint_eq(totals.events, STORM_AGENTS * STORM_EVENTS);
	ck_assert_uint_eq(totals.committed, totals.events);
	ck_assert_uint_eq(totals.threads, STORM_AGENTS);
	stage_hear(&stage, &heard);
	for (uint32_t i = 0; i < STORM_AGENTS; i++) {
		check_stream(&heard, &storm[i].agent);
		check_syncs(&heard, &storm[i].agent);
		agent_deinit(&storm[i].agent);
	}
	heard_deinit(&heard);
	stage_deinit(&stage);
}
END_TEST

/* --- hostile targets --- */

START_TEST(malformed_messages_are_ignored)
{
	static uint8_t body[ABI_BUFFER_BYTES + 1];
	const struct abi_message good = {
		.magic = ABI_MESSAGE_MAGIC, .slot = 1, .length = 64, .events = 1};
	struct stage stage;
	struct heard heard;
	stage_init(&stage);
	struct abi_message bad = good;
	bad.magic++;
	send_message(stage.agent_fd, &bad, body, 64);
	bad = good;
	bad.slot = SLOTS;
	send_message(stage.agent_fd, &bad, body, 64);
	bad = good;
	bad.length = 65;
	send_message(stage.agent_fd, &bad, body, 64);
	bad = good;
	bad.length = ABI_BUFFER_BYTES + 1;
	send_message(stage.agent_fd, &bad, body, sizeof(body));
	bad.length = ABI_BUFFER_BYTES;
	send_message(stage.agent_fd, &bad, body, sizeof(body));
	ck_no_err(receiver_read_socket(stage.receiver));
	bad = good;
	bad.position = UINT64_MAX - 63;
	send_message(stage.agent_fd, &bad, body, 64);
	bad = good;
	bad.events = 33;
	send_message(stage.agent_fd, &bad, body, 64);
	bad = good;
	bad.length = 0;
	send_message(stage.agent_fd, &bad, body, 0);
	ck_assert_int_eq(send(stage.agent_fd, &good, 3, 0), 3);
	ck_no_err(receiver_read_socket(stage.receiver));
	ck_no_err(receiver_drain_last(stage.receiver));
	ck_assert_uint_eq(receiver_totals(stage.receiver).events, 0);
	stage_hear(&stage, &heard);
	ck_assert_uint_eq(heard.piece_count, 0);
	heard_deinit(&heard);
	stage_deinit(&stage);
}
END_TEST

/* Numbers at which arithmetic goes wrong, more often than a plain random number would be one. */
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
	uint64_t *word = (uint64_t *)&stage->slots[draw(seed, SLOTS)].head;
	for (unsigned int i = 0; i < 20; i++)
		word[draw(seed, sizeof(struct abi_slot_head) / 8)] = draw_word(seed);
	uint8_t *buffer = stage->slots[draw(seed, SLOTS)].buffer;
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

START_TEST(garbage_in_memory_does_no_harm)
{
	struct stage stage;
	uint32_t seed = 1;
	stage_init(&stage);
	memset(stage.control->claimed, 0xff, sizeof(stage.control->claimed));
	for (unsigned int i = 0; i < 3000; i++) {
		scribble(&stage, &seed);
		ck_no_err(receiver_drain(stage.receiver));
		receiver_each_thread(stage.receiver, ignore_thread, stage.receiver);
		(void)receiver_agent_busy(stage.receiver);
		(void)receiver_totals(stage.receiver);
	}
	ck_no_err(receiver_drain_last(stage.receiver));
	ck_no_err(receiver_put_totals(stage.receiver));
	ck_no_err(sink_finish(stage.sink));
	stage_deinit(&stage);
}
END_TEST

/* --- threads and totals --- */

struct seen {
	struct receiver_thread thread[SLOTS];
	size_t count;
};

static void see_thread(void *context, const struct receiver_thread *thread)
{
	struct seen *seen = context;
	ck_assert_uint_lt(seen->count, SLOTS);
	seen->thread[seen->count++] = *thread;
}

static struct seen see_threads(const struct stage *stage)
{
	struct seen seen = {.count = 0};
	receiver_each_thread(stage->receiver, see_thread, &seen);
	return seen;
}

START_TEST(threads_get_bounds_and_are_released)
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

	/* The stream goes on where it was, and what is known of the old owner touches nobody. */
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
	check_piece(&heard, 1, position, heir.stream.length, REC_EVENTS_RESTART);
	heard_deinit(&heard);
	agent_deinit(&agent);
	agent_deinit(&heir);
	stage_deinit(&stage);
}
END_TEST

START_TEST(an_agent_in_a_hook_is_busy)
{
	struct stage stage;
	struct agent agent;
	stage_init(&stage);
	ck_assert(!receiver_agent_busy(stage.receiver));
	agent_init(&agent, &stage, 5, 0x7000);
	ck_assert(!receiver_agent_busy(stage.receiver));
	put(&agent.slot->head.state, ABI_SLOT_IN_REAL);
	ck_assert(receiver_agent_busy(stage.receiver));
	put(&agent.slot->head.key, 0x7000 | ABI_SLOT_DEAD);
	ck_assert(!receiver_agent_busy(stage.receiver));
	agent_deinit(&agent);
	stage_deinit(&stage);
}
END_TEST

START_TEST(totals_add_up_and_are_recorded)
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
	struct receiver_totals totals = totals_after_last(&stage);
	ck_assert_uint_eq(totals.events, 17);
	ck_assert_uint_eq(totals.nested, 7);
	ck_assert_uint_eq(totals.threads, 1);
	ck_assert_uint_eq(totals.unknown_pcs, 8);
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
END_TEST

HT_SUITE("attach/daemon/receiver", whole_buffers_come_by_socket,
	parts_come_from_memory_and_the_rest_by_socket, nothing_is_taken_twice,
	a_drain_takes_waiting_messages_first, a_dropped_buffer_is_a_gap,
	a_gap_at_the_end_is_counted, a_killed_thread_leaves_no_false_loss, memory_alone_is_enough,
	an_overtaken_copy_is_thrown_away, a_closed_socket_is_no_error,
	nodes_come_once_and_after_their_parents, nodes_stand_before_the_events_that_name_them,
	all_nodes_that_fit_are_taken, completeness_follows_the_clock,
	a_recording_thread_holds_completeness, a_dead_thread_does_not_hold_completeness,
	a_slot_that_cannot_be_read_holds_completeness, the_last_pass_completes_everything,
	streams_are_whole_under_concurrent_drains, malformed_messages_are_ignored,
	garbage_in_memory_does_no_harm, threads_get_bounds_and_are_released,
	an_agent_in_a_hook_is_busy, totals_add_up_and_are_recorded)
