/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/replay.h"

#include <stdlib.h>

#include "analyzer/model/array.h"
#include "analyzer/model/sample.h"

/* Stamps of two threads are inverted by at most this (some milliseconds): a free that comes later
 * than that after an allocation of its address is a free of the new block. */
#define INVERSION_CYCLES (1u << 24)
#define OWED_MAX	 64u

/* What a stream's last REALLOC_BEGIN gave back, until its outcome is known. */
struct pending {
	enum { PENDING_NONE, PENDING_BLOCK, PENDING_BEFORE } kind;
	bool temporary;
	uint8_t hook;
	uint32_t thread;
	uint64_t usable_bytes;
	struct live_block block;
};

/* A free that is still to come: its block was given up when `addr` was allocated again. */
struct owed {
	uint64_t addr, tsc;
	uint32_t thread; /* allocated the address; its own frees are in order */
};

/* One slot's stream. */
struct lane {
	struct pending pending;
	bool known;
	uint32_t tid, thread; /* of the last event, and its index */
	uint64_t until_tsc;   /* as long as it is not under another name */
	size_t changes;	      /* of names that were known then */
};

struct replay {
	struct replay_observer observer;
	struct threads *threads;
	const struct nodes *nodes;
	const struct timebase *timebase;
	uint64_t now_ns; /* of the newest event */
	struct live live;
	struct lane *lane;
	size_t lane_capacity;
	struct owed owed[OWED_MAX];
	unsigned owed_count;
	uint64_t sample_bytes, random;
	struct nodes *nodes_to_add; /* NULL: all numbers hold */
	const struct scripts *scripts;
	struct replay_counts counts;
};

struct ht_err *replay_create(const struct replay_observer *observer, struct threads *threads,
	const struct nodes *nodes, const struct timebase *timebase, struct replay **ret)
{
	struct replay *replay = calloc(1, sizeof(*replay));
	if (!replay)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the replay");
	replay->observer = *observer;
	replay->threads = threads;
	replay->nodes = nodes;
	replay->timebase = timebase;
	*ret = replay;
	return NULL;
}

void replay_destroy(struct replay *replay)
{
	if (!replay)
		return;
	live_deinit(&replay->live);
	free(replay->lane);
	free(replay);
}

const struct replay_counts *replay_counts(const struct replay *replay)
{
	return &replay->counts;
}

/* --- frees that arrive late ------------------------------------------------------------------ */

static void owe(struct replay *replay, uint64_t addr, const struct replay_call *call)
{
	replay->counts.inferred_frees++;
	if (replay->owed_count == OWED_MAX) {
		for (unsigned i = 1; i < OWED_MAX; i++)
			replay->owed[i - 1] = replay->owed[i];
		replay->owed_count--;
	}
	replay->owed[replay->owed_count++] = (struct owed){.addr = addr,
		.tsc = call->tsc,
		.thread = replay->threads->thread[call->thread].first};
}

/* Whether the free of `addr` is one that was owed; drops those that are overdue. */
static bool absorb(struct replay *replay, uint64_t addr, const struct replay_call *call)
{
	uint32_t thread = replay->threads->thread[call->thread].first;
	bool found = false;
	unsigned kept = 0;
	for (unsigned i = 0; i < replay->owed_count; i++) {
		const struct owed owed = replay->owed[i];
		bool in_time = (int64_t)(call->tsc - owed.tsc) < (int64_t)INVERSION_CYCLES;
		if (!found && in_time && owed.addr == addr && owed.thread != thread)
			found = true;
		else if (in_time)
			replay->owed[kept++] = owed;
	}
	replay->owed_count = kept;
	replay->counts.absorbed_frees += found;
	return found;
}

/* --- facts ----------------------------------------------------------------------------------- */

void replay_sample(struct replay *replay, uint64_t sample_bytes)
{
	replay->sample_bytes = sample_bytes;
}

void replay_scripts(struct replay *replay, struct nodes *nodes, const struct scripts *scripts)
{
	replay->nodes_to_add = nodes;
	replay->scripts = scripts;
}

/* The stack of an event, as far as the trace vouches for it. */
static struct ht_err *find_stack(struct replay *replay, const struct event *event, uint32_t *ret)
{
	*ret = event->stack;
	if (event->stack && !nodes_get(replay->nodes, event->stack)) {
		replay->counts.unknown_stacks++;
		*ret = 0;
	}
	if (ht_likely(!replay->nodes->generation) || !*ret || !replay->nodes_to_add)
		return NULL;
	uint16_t generation = nodes_generation(replay->nodes, *ret);
	if (!generation || scripts_hold(replay->scripts, generation, event->tsc))
		return NULL;
	return nodes_plain(replay->nodes_to_add, *ret, ret);
}

/* Decides how a sample is counted; the same trace gives the same numbers each time. */
static bool rounds_up(struct replay *replay, uint64_t size)
{
	/* splitmix64 (Steele, Lea, Flood, Fast splittable pseudorandom number generators, 2014). */
	uint64_t x = replay->random += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	x ^= x >> 31;
	return sample_blocks(size, replay->sample_bytes, x) >
	       sample_blocks(size, replay->sample_bytes, UINT64_MAX);
}

/* A thread is the same under each of its names. */
static uint32_t same_thread(const struct replay *replay, uint32_t thread)
{
	return replay->threads->thread[thread].first;
}

/* Whether the thread that allocated `block` has allocated nothing since. */
static bool is_newest(const struct replay *replay, const struct live_block *block)
{
	uint32_t thread = same_thread(replay, block->thread);
	return replay->threads->thread[thread].newest == block->addr;
}

/* No block goes: free(NULL), or a free whose block was given up before. */
static bool frees_nothing(
	struct replay *replay, const struct replay_call *call, const struct event *event)
{
	return event->addr == 0 ||
	       (ht_unlikely(replay->owed_count != 0) && absorb(replay, event->addr, call));
}

static struct ht_err *free_block(
	struct replay *replay, const struct replay_call *call, const struct event *event)
{
	const struct replay_observer *observer = &replay->observer;
	struct live_block block;
	if (frees_nothing(replay, call, event))
		return NULL;
	if (live_take(&replay->live, event->addr, &block))
		return observer->freed(observer->context, call, &block, is_newest(replay, &block));
	return observer->before_freed(observer->context, call, event->size);
}

/* Takes what a realloc of `addr` gives back out of the live set. */
static struct pending give_back(
	struct replay *replay, const struct replay_call *call, const struct event *event)
{
	struct pending gone = {
		.hook = call->hook,
		.thread = call->thread,
		.usable_bytes = event->size,
	};
	if (frees_nothing(replay, call, event))
		return gone;
	if (live_take(&replay->live, event->addr, &gone.block)) {
		gone.kind = PENDING_BLOCK;
		gone.temporary = is_newest(replay, &gone.block);
	} else {
		gone.kind = PENDING_BEFORE;
	}
	return gone;
}

static struct ht_err *report_gone(struct replay *replay, const struct pending *gone, uint64_t tsc)
{
	const struct replay_observer *observer = &replay->observer;
	const struct replay_call call = {
		.tsc = tsc, .time_ns = replay->now_ns, .thread = gone->thread, .hook = gone->hook};
	switch (gone->kind) {
	case PENDING_BLOCK:
		return observer->freed(observer->context, &call, &gone->block, gone->temporary);
	case PENDING_BEFORE:
		return observer->before_freed(observer->context, &call, gone->usable_bytes);
	case PENDING_NONE:
		break;
	}
	return NULL;
}

/* The stream's realloc succeeded, or its outcome was lost: then that is what reallocs mostly do. */
static struct ht_err *settle(struct replay *replay, struct lane *lane, uint64_t tsc)
{
	struct pending gone = lane->pending;
	lane->pending.kind = PENDING_NONE;
	return report_gone(replay, &gone, tsc);
}

static struct ht_err *put_block(
	struct replay *replay, const struct replay_call *call, const struct live_block *block)
{
	struct live_block older;
	bool replaced;
	struct ht_err *err = live_put(&replay->live, block, &older, &replaced);
	if (err || !replaced)
		return err;
	owe(replay, block->addr, call);
	return replay->observer.freed(
		replay->observer.context, call, &older, is_newest(replay, &older));
}

static struct ht_err *allocate(
	struct replay *replay, const struct replay_call *call, const struct event *event)
{
	struct live_block block = {
		.addr = event->addr,
		.size = event->size,
		.thread = call->thread,
		.birth_ns = call->time_ns,
		.hook = call->hook & (REPLAY_HOOKS - 1),
		.rounds_up = replay->sample_bytes && rounds_up(replay, event->size),
	};
	if (block.addr == 0) {
		replay->counts.odd_events++;
		return NULL;
	}
	struct ht_err *err = find_stack(replay, event, &block.stack);
	if (!err)
		err = put_block(replay, call, &block);
	if (err)
		return err;
	replay->threads->thread[same_thread(replay, call->thread)].newest = block.addr;
	return replay->observer.allocated(replay->observer.context, call, &block);
}

/* The stream's realloc failed: its block lives on. */
static struct ht_err *reinstate(
	struct replay *replay, struct lane *lane, const struct replay_call *call)
{
	struct pending kept = lane->pending;
	lane->pending.kind = PENDING_NONE;
	if (kept.kind != PENDING_BLOCK)
		return NULL;
	return put_block(replay, call, &kept.block);
}

/* The thread of a lane, by what is known now. */
static struct ht_err *update_lane(
	struct replay *replay, struct lane *lane, const struct event *event)
{
	const uint32_t before = lane->thread;
	struct ht_err *err = threads_index(
		replay->threads, event->tid, event->tsc, &lane->thread, &lane->until_tsc);
	if (err)
		return err;
	if (lane->known && lane->tid != event->tid)
		threads_succeed(replay->threads, lane->thread, before);
	lane->tid = event->tid;
	lane->changes = replay->threads->change_count;
	lane->known = true;
	return NULL;
}

static inline struct ht_err *find_lane(
	struct replay *replay, uint32_t stream, const struct event *event, struct lane **ret)
{
	if (ht_unlikely(stream >= replay->lane_capacity)) {
		struct ht_err *err = array_reserve(&replay->lane, &replay->lane_capacity,
			(size_t)stream + 1, sizeof(*replay->lane), "streams");
		if (err)
			return err;
	}
	struct lane *lane = &replay->lane[stream];
	*ret = lane;
	if (ht_likely(lane->known && lane->tid == event->tid && event->tsc < lane->until_tsc &&
		      lane->changes == replay->threads->change_count))
		return NULL;
	return update_lane(replay, lane, event);
}

/* A realloc of the same stream goes on behind it. */
static struct ht_err *take_mapping(
	struct replay *replay, uint32_t stream, const struct event *event)
{
	struct event known = *event;
	replay->counts.mappings++;
	struct ht_err *err = find_stack(replay, event, &known.stack);
	if (err)
		return err;
	return replay->observer.mapped
		       ? replay->observer.mapped(replay->observer.context, stream, &known)
		       : NULL;
}

struct ht_err *replay_event(void *context, uint32_t stream, const struct event *event)
{
	struct replay *replay = context;
	if (event->kind == ABI_EVENT_MAPPING)
		return take_mapping(replay, stream, event);
	struct lane *lane;
	struct ht_err *err = find_lane(replay, stream, event, &lane);
	if (err)
		return err;
	uint64_t time_ns = timebase_ns(replay->timebase, event->tsc);
	if (time_ns > replay->now_ns)
		replay->now_ns = time_ns;
	struct replay_call call = {
		.tsc = event->tsc,
		.time_ns = replay->now_ns,
		.thread = lane->thread,
		.hook = event->hook % REPLAY_HOOKS,
	};
	replay->counts.events++;
	if (event->kind == ABI_EVENT_REALLOC_FAIL)
		return reinstate(replay, lane, &call);
	if (lane->pending.kind != PENDING_NONE)
		err = settle(replay, lane, event->tsc);
	if (err)
		return err;
	switch (event->kind) {
	case ABI_EVENT_ALLOC:
	case ABI_EVENT_REALLOC_END:
		return allocate(replay, &call, event);
	case ABI_EVENT_FREE:
		return free_block(replay, &call, event);
	case ABI_EVENT_REALLOC_BEGIN:
		lane->pending = give_back(replay, &call, event);
		return NULL;
	case ABI_EVENT_REALLOC_FREED:
	case ABI_EVENT_REALLOC_FAIL:
	case ABI_EVENT_THREAD:
	case ABI_EVENT_MAPPING:
		return NULL;
	}
	replay->counts.odd_events++;
	return NULL;
}

void replay_scout(void *context, const struct event *event)
{
	const struct replay *replay = context;
	live_prefetch(&replay->live, event->addr);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Blocks of reallocs whose outcome the trace does not have. */
static struct ht_err *reinstate_all(struct replay *replay)
{
	struct ht_err *err = NULL;
	for (size_t i = 0; i < replay->lane_capacity && !err; i++) {
		struct lane *lane = &replay->lane[i];
		const struct replay_call call = {
			.time_ns = replay->now_ns, .thread = lane->pending.thread};
		if (lane->pending.kind == PENDING_BLOCK)
			err = reinstate(replay, lane, &call);
	}
	return err;
}

struct ht_err *replay_finish(struct replay *replay)
{
	const struct replay_observer *observer = &replay->observer;
	if (!observer->lived_on)
		return NULL;
	struct ht_err *err = reinstate_all(replay);
	if (!err)
		err = live_list(&replay->live);
	for (size_t i = 0; i < replay->live.count && !err; i++)
		err = observer->lived_on(observer->context, &replay->live.slot[i]);
	return err;
}
