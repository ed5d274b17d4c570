/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/daemonstage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <x86intrin.h>

#include "format/abi_hooks.h"
#include "format/reader.h"
#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

void stage_init(struct stage *stage)
{
	int pair[2];
	size_t length = abi_image_bytes(STAGE_SLOTS);
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
	snprintf(stage->trace, sizeof(stage->trace), "%s", path);
	ck_no_err(sink_create(&(struct sink_options){.path = path, .replace = true}, &stage->sink));
	free(path);
	struct receiver_options options = {
		.image = stage->image,
		.image_bytes = length,
		.slot_max = STAGE_SLOTS,
		.socket_fd = stage->daemon_fd,
		.sink = stage->sink,
	};
	ck_no_err(receiver_create(&options, &stage->receiver));
}

void stage_deinit(struct stage *stage)
{
	receiver_destroy(stage->receiver);
	sink_destroy(stage->sink);
	close(stage->daemon_fd);
	if (stage->agent_fd >= 0)
		close(stage->agent_fd);
	munmap(stage->image, abi_image_bytes(STAGE_SLOTS));
}

/* Makes room for one more item; returns the list, which may have moved. */
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
	ck_assert_uint_lt(events->slot, STAGE_SLOTS);
	heard->piece =
		grown(heard->piece, heard->piece_count, &heard->piece_max, sizeof(*heard->piece));
	heard->piece[heard->piece_count++] = (struct piece){
		.slot = (uint32_t)events->slot,
		.position = events->position,
		.flags = events->flags,
		.length = bytes_left(&events->body),
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
	ck_no_err(bytes_out_put(stream, events->body.at, bytes_left(&events->body)));
}

static void hear_nodes(struct heard *heard, const struct rec_nodes *nodes)
{
	struct bytes body = nodes->body;
	for (uint64_t i = 0; i < nodes->count; i++, heard->node_count++) {
		struct rec_node node;
		ck_no_err(rec_node_next(&body, &node));
		if (heard->node_count >= STAGE_NODES_LISTED)
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

void stage_hear(struct stage *stage, struct heard *ret)
{
	struct trace_reader *reader;
	static struct rec rec;
	enum trace_end end;
	*ret = (struct heard){0};
	sink_finish(stage->sink, false);
	ck_assert_ptr_null(sink_problem(stage->sink));
	int fd = open(stage->trace, O_RDONLY | O_CLOEXEC);
	ck_no_err(trace_reader_create(fd, "trace", &reader));
	for (;;) {
		ck_no_err(trace_reader_next(reader, &rec, &end));
		if (end != TRACE_MORE)
			break;
		hear_record(ret, &rec);
	}
	ck_assert_int_eq(end, TRACE_COMPLETE);
	trace_reader_destroy(reader);
	close(fd);
}

void heard_deinit(struct heard *heard)
{
	for (uint32_t i = 0; i < STAGE_SLOTS; i++)
		bytes_out_deinit(&heard->stream[i]);
	free(heard->piece);
	free(heard->sync);
}

void agent_init(struct agent *agent, struct stage *stage, uint32_t index, uint64_t key)
{
	*agent = (struct agent){.stage = stage, .index = index, .slot = &stage->slots[index]};
	struct abi_slot_head *head = &agent->slot->head;
	__atomic_fetch_or(
		&stage->control->claimed[index / 64], 1ull << index % 64, __ATOMIC_RELEASE);
	stage_store(&head->key, key);
	stage_store(&head->tid, 1000 + index);
	stage_store(&head->incarnation, head->incarnation + 2);
}

void agent_deinit(struct agent *agent)
{
	eventbuild_deinit(&agent->build);
	bytes_out_deinit(&agent->stream);
	free(agent->stamp);
}

/* Moves the events of `build` into the thread record's buffer. */
static void agent_commit(struct agent *agent)
{
	struct abi_slot_head *head = &agent->slot->head;
	struct bytes_out *out = &agent->build.out;
	uint64_t used = head->committed - head->buffer_start;
	ck_assert_uint_le(used + out->length, ABI_BUFFER_BYTES);
	memcpy(agent->slot->buffer + used, out->data, out->length);
	ck_no_err(bytes_out_put(&agent->stream, out->data, out->length));
	stage_store(&head->committed, head->committed + out->length);
	out->length = 0;
}

static void agent_begin(struct agent *agent)
{
	struct abi_slot_head *head = &agent->slot->head;
	eventbuild_restart(&agent->build);
	head->first_event = head->events;
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

void agent_event(struct agent *agent, uint32_t stack)
{
	struct abi_slot_head *head = &agent->slot->head;
	if (head->committed == head->buffer_start)
		agent_begin(agent);
	stage_store(&head->state, ABI_SLOT_RECORDING);
	uint64_t tsc = abi_time_floor(__rdtsc());
	uint64_t addr = 0x7f0000000000 + (tsc & 0xfffff0);
	if (head->events & 1)
		eventbuild_alloc(&agent->build, ABI_EVENT_ALLOC, ABI_HOOK_MALLOC, tsc, addr,
			tsc & 0xfff, stack);
	else
		eventbuild_free(&agent->build, ABI_EVENT_FREE, ABI_HOOK_FREE, tsc, addr, 32);
	stage_store(&head->last_tsc, tsc);
	head->events++;
	agent_commit(agent);
	note_stamp(agent, tsc);
	stage_store(&head->state, ABI_SLOT_IDLE);
}

void agent_events(struct agent *agent, unsigned int count)
{
	while (count--)
		agent_event(agent, 0);
}

void stage_send(
	const struct stage *stage, const struct abi_message *head, const void *body, size_t length)
{
	struct iovec iov[2] = {
		{(void *)head, sizeof(*head)},
		{(void *)body, length},
	};
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
	ck_assert_int_eq(sendmsg(stage->agent_fd, &message, MSG_NOSIGNAL),
		(ssize_t)(sizeof(*head) + length));
}

void agent_send(struct agent *agent)
{
	const struct abi_slot_head *head = &agent->slot->head;
	size_t length = head->committed - head->buffer_start;
	struct abi_message message = {
		.magic = ABI_MESSAGE_MAGIC,
		.slot = agent->index,
		.position = head->buffer_start,
		.length = (uint32_t)length,
		.events = (uint32_t)(head->events - head->first_event),
	};
	stage_send(agent->stage, &message, agent->slot->buffer, length);
}

void agent_give_up_buffer(struct agent *agent)
{
	stage_store(&agent->slot->head.buffer_start, agent->slot->head.committed);
}

void agent_flush(struct agent *agent)
{
	agent_send(agent);
	agent_give_up_buffer(agent);
}

void heard_check_stream(const struct heard *heard, const struct agent *agent)
{
	const struct bytes_out *got = &heard->stream[agent->index];
	ck_assert_uint_eq(got->length, agent->stream.length);
	ck_assert_mem_eq(got->data, agent->stream.data, got->length);
}

void heard_check_piece(
	const struct heard *heard, size_t index, uint64_t position, uint64_t length, uint64_t flags)
{
	ck_assert_uint_lt(index, heard->piece_count);
	ck_assert_uint_eq(heard->piece[index].position, position);
	ck_assert_uint_eq(heard->piece[index].length, length);
	ck_assert_uint_eq(heard->piece[index].flags, flags);
}

struct receiver_totals stage_drain_last(struct stage *stage)
{
	ck_no_err(receiver_drain_last(stage->receiver));
	return receiver_totals(stage->receiver);
}
