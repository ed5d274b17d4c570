/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tracefile.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/reader.h"
#include "tests/support/ht_check.h"

#define NODE_IDS (1u << 24) /* all ids are below this */

static void *room_for(void *array, size_t count, size_t *room, size_t element_bytes)
{
	if (count < *room)
		return array;
	*room = *room ? *room * 2 : 1024;
	array = realloc(array, *room * element_bytes);
	ck_assert_ptr_nonnull(array);
	return array;
}

static bool knows(const struct tracefile *file, uint64_t id)
{
	return id == 0 || (id < file->node_room && file->node[id].known);
}

/* Grows the array as needed, because ids need not be dense: a node that its thread has not finished
 * comes later, or never. */
static struct tracefile_node *new_node(struct tracefile *file, uint64_t id)
{
	ck_assert_uint_lt(id, NODE_IDS);
	while (id >= file->node_room) {
		size_t room = file->node_room;
		file->node = room_for(file->node, room, &file->node_room, sizeof(*file->node));
		memset(&file->node[room], 0, (file->node_room - room) * sizeof(*file->node));
	}
	return &file->node[id];
}

static void add_nodes(struct tracefile *file, const struct rec_nodes *nodes)
{
	struct bytes body = nodes->body;
	for (uint64_t i = 0; i < nodes->count; i++) {
		struct rec_node node;
		ck_no_err(rec_node_next(&body, &node));
		uint64_t id = nodes->first_id + i;
		ck_assert(!knows(file, id) && node.parent < id && knows(file, node.parent));
		*new_node(file, id) = (struct tracefile_node){
			.pc = node.pc, .parent = node.parent, .flags = node.flags, .known = true};
	}
}

static struct event_decoder *stream_of(struct tracefile *file, uint64_t slot)
{
	ck_assert_uint_lt(slot, 65536);
	while (file->stream_count <= slot) {
		file->stream =
			realloc(file->stream, (file->stream_count + 1) * sizeof(*file->stream));
		ck_assert_ptr_nonnull(file->stream);
		file->stream[file->stream_count++] = (struct event_decoder){0};
	}
	return &file->stream[slot];
}

static void add_events(struct tracefile *file, const struct rec_events *events)
{
	struct event_decoder *decoder = stream_of(file, events->slot);
	if (events->flags & REC_EVENTS_RESTART)
		event_decoder_restart(decoder);
	struct bytes body = events->body;
	for (;;) {
		file->event = room_for(
			file->event, file->event_count, &file->event_room, sizeof(*file->event));
		enum event_result result =
			event_next(decoder, &body, &file->event[file->event_count]);
		if (result == EVENT_NONE_LEFT)
			return;
		/* Not ck_assert, which sends a message to the runner each time that it holds:
		 * slow. */
		if (result != EVENT_OK || !knows(file, file->event[file->event_count].stack))
			ck_abort_msg("malformed event in the stream of slot %lu", events->slot);
		if (file->event[file->event_count].kind == ABI_EVENT_MAPPING)
			file->mappings++;
		else
			file->event_count++;
	}
}

static void add(struct tracefile *file, const struct rec *rec)
{
	file->modules += rec->kind == REC_MODULE;
	file->threads += rec->kind == REC_THREAD;
	file->rss_samples += rec->kind == REC_RSS;
	file->symbols += rec->kind == REC_SYMBOL;
	if (rec->kind == REC_NODES) {
		add_nodes(file, &rec->nodes);
	} else if (rec->kind == REC_EVENTS) {
		add_events(file, &rec->events);
	} else if (rec->kind == REC_LOSS && rec->loss.counter < REC_COUNTER_COUNT) {
		file->counter[rec->loss.counter] = rec->loss.total;
	} else if (rec->kind == REC_END) {
		file->ended = true;
		file->end_reason = (enum rec_end_reason)rec->end.reason;
	}
}

void tracefile_load(const char *path, struct tracefile *ret)
{
	*ret = (struct tracefile){0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(fd >= 0, "cannot open %s", path);
	struct trace_reader *reader;
	ck_no_err(trace_reader_create(fd, path, &reader));
	for (;;) {
		struct rec rec;
		enum trace_end end;
		ck_no_err(trace_reader_next(reader, &rec, &end));
		if (end == TRACE_MORE) {
			add(ret, &rec);
			continue;
		}
		ck_assert_msg(end != TRACE_DAMAGED, "%s: %s", path, trace_reader_problem(reader));
		ret->complete = end == TRACE_COMPLETE;
		break;
	}
	trace_reader_destroy(reader);
	close(fd);
}

void tracefile_deinit(struct tracefile *file)
{
	free(file->event);
	free(file->node);
	free(file->stream);
}

struct tracefile_count tracefile_allocations(
	const struct tracefile *file, uint32_t tid, enum abi_hook hook)
{
	struct tracefile_count count = {0};
	for (size_t i = 0; i < file->event_count; i++) {
		const struct event *event = &file->event[i];
		if ((tid && event->tid != tid) || event->hook != hook ||
			(event->kind != ABI_EVENT_ALLOC && event->kind != ABI_EVENT_REALLOC_END))
			continue;
		count.calls++;
		count.bytes += event->size;
	}
	return count;
}

uint64_t tracefile_frees(const struct tracefile *file, uint32_t tid)
{
	uint64_t frees = 0, failed = 0;
	for (size_t i = 0; i < file->event_count; i++) {
		const struct event *event = &file->event[i];
		if (tid && event->tid != tid)
			continue;
		frees += event->kind == ABI_EVENT_FREE || event->kind == ABI_EVENT_REALLOC_BEGIN;
		failed += event->kind == ABI_EVENT_REALLOC_FAIL;
	}
	return frees - failed;
}

uint64_t tracefile_blocks_of(const char *path, uint64_t size)
{
	struct tracefile file;
	uint64_t count = 0;
	tracefile_load(path, &file);
	ck_assert(file.complete);
	for (size_t i = 0; i < file.event_count; i++)
		count += file.event[i].size == size &&
			 (file.event[i].kind == ABI_EVENT_ALLOC ||
				 file.event[i].kind == ABI_EVENT_REALLOC_END);
	tracefile_deinit(&file);
	return count;
}
