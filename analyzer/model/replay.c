/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/replay.h"

#include <stdlib.h>

#include "format/array.h"
#include "format/live.h"
#include "analyzer/model/origins.h"
#include "format/owed.h"
#include "analyzer/model/sample.h"

/* The block of a stream's last REALLOC_BEGIN, until the outcome is known. */
struct pending {
	enum { PENDING_NONE, PENDING_BLOCK, PENDING_BEFORE } kind;
	bool temporary;
	uint8_t hook;
	uint32_t thread;
	uint64_t usable_bytes;
	struct live_block block;
};

/* The replay's state of one stream of events. */
struct lane {
	struct pending pending;
	bool known;
	uint32_t tid, thread; /* of the last event; index of the thread */
	uint64_t until_tsc; /* events from this time on may belong to another name of the thread */
	size_t changes;	    /* number of name changes when until_tsc was computed */
};

#define KNOWN_ORIGINS 1024u

static uint32_t known_index(uint32_t stack, uint32_t thread, uint8_t hook)
{
	return (stack + thread * 331 + hook * 37) % KNOWN_ORIGINS;
}

struct replay {
	struct replay_observer observer;
	struct threads *threads;
	struct nodes *nodes;
	const struct timebase *timebase;
	uint64_t now_ns;  /* time of the newest event */
	uint32_t caller;  /* index of the calling thread; UINT32_MAX: none */
	uint64_t *newest; /* where that thread's `newest` (threads.h) is stored */
	struct live live;
	struct origins origins;
	struct lane *lane;
	size_t lane_capacity;
	struct owed owed;
	uint64_t sample_bytes, random;
	bool is_settling; /* the window has ended */
	struct replay_counts counts;
	uint32_t known[KNOWN_ORIGINS]; /* recently used origins; 0: none yet */
};

struct ht_err *replay_create(const struct replay_observer *observer, struct threads *threads,
	struct nodes *nodes, const struct timebase *timebase, struct replay **ret)
{
	struct replay *replay = calloc(1, sizeof(*replay));
	if (!replay)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the replay");
	replay->observer = *observer;
	replay->threads = threads;
	replay->nodes = nodes;
	replay->timebase = timebase;
	replay->caller = UINT32_MAX;
	*ret = replay;
	return NULL;
}

void replay_destroy(struct replay *replay)
{
	if (!replay)
		return;
	live_deinit(&replay->live);
	origins_deinit(&replay->origins);
	free(replay->lane);
	free(replay);
}

const struct replay_counts *replay_counts(const struct replay *replay)
{
	return &replay->counts;
}

/* --- facts ----------------------------------------------------------------------------------- */

void replay_sample(struct replay *replay, uint64_t sample_bytes)
{
	replay->sample_bytes = sample_bytes;
}

/* The stack of an event, without function numbers that are not valid at its time; 0 if the trace
 * lacks it. */
static struct ht_err *find_stack(struct replay *replay, const struct event *event, uint32_t *ret)
{
	*ret = event->stack;
	if (event->stack && !nodes_get(replay->nodes, event->stack)) {
		replay->counts.unknown_stacks++;
		*ret = 0;
	}
	const struct generations *generations = &replay->nodes->generations;
	if (ht_likely(!generations->of_node) || !*ret ||
		generations_hold(generations, *ret, event->tsc))
		return NULL;
	return nodes_plain(replay->nodes, *ret, ret);
}

/* Decides by a pseudorandom number whether the weight of a sample is rounded up; each reading of a
 * trace gives the same results. */
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

/* The index that identifies a thread under all of its names. */
static uint32_t same_thread(const struct replay *replay, uint32_t thread)
{
	return replay->threads->thread[thread].first;
}

/* Whether the thread that allocated `block` has allocated nothing since. */
static bool is_newest(const struct replay *replay, const struct live_block *block)
{
	if (ht_likely(block->thread == replay->caller))
		return *replay->newest == block->addr;
	uint32_t thread = same_thread(replay, block->thread);
	return replay->threads->thread[thread].newest == block->addr;
}

static struct live_block block_of(const struct replay *replay, const struct live_entry *entry)
{
	const struct origin *origin =
		origins_get(&replay->origins, entry->origin_flags >> LIVE_ORIGIN_SHIFT);
	return (struct live_block){.addr = entry->addr,
		.size = entry->size,
		.birth_ns = entry->birth_ns,
		.stack = origin->stack,
		.thread = origin->thread,
		.hook = origin->hook,
		.rounds_up = entry->origin_flags & LIVE_ROUNDS_UP,
		.note = entry->note};
}

/* Notes that the free of the block at `addr` is owed. */
static void owe(struct replay *replay, uint64_t addr, const struct replay_call *call)
{
	replay->counts.inferred_frees++;
	owed_add(&replay->owed, addr, call->tsc, same_thread(replay, call->thread));
}

static bool absorb(struct replay *replay, uint64_t addr, const struct replay_call *call)
{
	bool found = owed_take(&replay->owed, addr, call->tsc, same_thread(replay, call->thread));
	replay->counts.absorbed_frees += found;
	return found;
}

/* Whether the free ends no block: free(NULL), or an owed free, whose block has already ended. */
static bool frees_nothing(
	struct replay *replay, const struct replay_call *call, const struct event *event)
{
	return event->addr == 0 ||
	       (ht_unlikely(replay->owed.count != 0) && absorb(replay, event->addr, call));
}

static struct ht_err *free_block(
	struct replay *replay, const struct replay_call *call, const struct event *event)
{
	const struct replay_observer *observer = &replay->observer;
	if (frees_nothing(replay, call, event))
		return NULL;
	const struct live_entry *entry = live_leave(&replay->live, event->addr);
	if (!entry)
		return observer->before_freed(observer->context, call, event->size);
	const struct live_block block = block_of(replay, entry);
	return observer->freed(observer->context, call, &block, is_newest(replay, &block));
}

/* Removes the old block of a realloc of `addr` from the live set. */
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
	const struct live_entry *entry = live_leave(&replay->live, event->addr);
	if (entry) {
		gone.kind = PENDING_BLOCK;
		gone.block = block_of(replay, entry);
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

/* Ends the old block: the stream's realloc succeeded, or its outcome was lost and success is
 * assumed. */
static struct ht_err *close_realloc(struct replay *replay, struct lane *lane, uint64_t tsc)
{
	struct pending gone = lane->pending;
	lane->pending.kind = PENDING_NONE;
	return report_gone(replay, &gone, tsc);
}

/* Ends the block that is live at an address that was allocated again. */
static struct ht_err *give_up(
	struct replay *replay, const struct replay_call *call, const struct live_entry *entry)
{
	const struct live_block older = block_of(replay, entry);
	owe(replay, older.addr, call);
	return replay->observer.freed(
		replay->observer.context, call, &older, is_newest(replay, &older));
}

/* Makes a place for a block at `addr`; the caller fills it. */
static inline struct ht_err *enter_block(struct replay *replay, const struct replay_call *call,
	uint64_t addr, struct live_entry **ret)
{
	HT_TRY(live_reserve(&replay->live));
	*ret = live_enter(&replay->live, addr);
	return ht_likely(!live_is_live(*ret)) ? NULL : give_up(replay, call, *ret);
}

static inline struct live_entry entry_of(const struct live_block *block, uint32_t origin)
{
	return (struct live_entry){.addr = block->addr,
		.size = block->size,
		.birth_ns = block->birth_ns,
		.note = block->note,
		.origin_flags = origin << LIVE_ORIGIN_SHIFT | LIVE_IS_LIVE |
				(block->rounds_up ? LIVE_ROUNDS_UP : 0)};
}

/* Sets the stack of `block`, which an event names, and finds its origin. */
static struct ht_err *find_origin(
	struct replay *replay, const struct event *event, struct live_block *block, uint32_t *ret)
{
	const uint32_t thread = block->thread;
	HT_TRY(find_stack(replay, event, &block->stack));
	HT_TRY(origins_number(&replay->origins, block->stack, thread, block->hook, ret));
	/* Numbers of interpreted functions in a stack are valid only for a time, so do not cache
	 * the origin of such a stack. */
	if (!generations_of(&replay->nodes->generations, event->stack))
		replay->known[known_index(block->stack, thread, block->hook)] = *ret;
	return NULL;
}

static inline bool is_origin_of(
	const struct replay *replay, uint32_t number, const struct live_block *block)
{
	const struct origin *origin = origins_get(&replay->origins, number);
	return number && origin->stack == block->stack && origin->thread == block->thread &&
	       origin->hook == block->hook;
}

static inline struct ht_err *allocate(
	struct replay *replay, const struct replay_call *call, const struct event *event)
{
	struct live_block block = {
		.addr = event->addr,
		.size = event->size,
		.birth_ns = call->time_ns,
		.stack = event->stack,
		.thread = call->thread,
		.hook = call->hook,
	};
	struct live_entry *entry = NULL;
	uint32_t origin = replay->known[known_index(block.stack, block.thread, block.hook)];
	struct ht_err *err;
	if (ht_unlikely(block.addr == 0)) {
		replay->counts.odd_events++;
		return NULL;
	}
	if (ht_unlikely(replay->sample_bytes != 0))
		block.rounds_up = rounds_up(replay, block.size);
	if (ht_unlikely(!is_origin_of(replay, origin, &block)))
		HT_TRY(find_origin(replay, event, &block, &origin));
	err = enter_block(replay, call, block.addr, &entry);
	if (ht_unlikely(err != NULL))
		return err;
	*replay->newest = block.addr;
	err = replay->observer.allocated(replay->observer.context, call, &block);
	*entry = entry_of(&block, origin);
	return err;
}

/* The stream's realloc failed, or its outcome is not needed: its old block is live again. */
static struct ht_err *reinstate(
	struct replay *replay, struct lane *lane, const struct replay_call *call)
{
	struct pending kept = lane->pending;
	const struct live_block *block = &kept.block;
	struct live_entry *entry = NULL;
	uint32_t origin = 0;
	lane->pending.kind = PENDING_NONE;
	if (kept.kind != PENDING_BLOCK)
		return NULL;
	HT_TRY(origins_number(&replay->origins, block->stack, block->thread, block->hook, &origin));
	HT_TRY(enter_block(replay, call, block->addr, &entry));
	*entry = entry_of(block, origin);
	return NULL;
}

/* Updates the thread of a lane by the names known now. */
static struct ht_err *update_lane(
	struct replay *replay, struct lane *lane, const struct event *event)
{
	const uint32_t before = lane->thread;
	HT_TRY(threads_index(
		replay->threads, event->tid, event->tsc, &lane->thread, &lane->until_tsc));
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
		HT_TRY(ARRAY_RESERVE(
			replay->lane, replay->lane_capacity, (size_t)stream + 1, "streams"));
	}
	struct lane *lane = &replay->lane[stream];
	*ret = lane;
	if (ht_likely(lane->known && lane->tid == event->tid && event->tsc < lane->until_tsc &&
		      lane->changes == replay->threads->change_count))
		return NULL;
	return update_lane(replay, lane, event);
}

/* A mapping event may come between the two halves of a realloc, so it leaves the lane unchanged. */
static struct ht_err *take_mapping(
	struct replay *replay, uint32_t stream, const struct event *event)
{
	struct event known = *event;
	replay->counts.mappings++;
	if (replay->is_settling)
		return NULL;
	HT_TRY(find_stack(replay, event, &known.stack));
	return replay->observer.mapped
		       ? replay->observer.mapped(replay->observer.context, stream, &known)
		       : NULL;
}

/* Takes an event that is neither an allocation nor a free. The stream has no open realloc. */
static struct ht_err *take_rest(struct replay *replay, struct lane *lane,
	const struct replay_call *call, const struct event *event)
{
	switch (event->kind) {
	case ABI_EVENT_REALLOC_BEGIN:
		lane->pending = give_back(replay, call, event);
		return NULL;
	case ABI_EVENT_REALLOC_FREED:
		return NULL;
	default:
		replay->counts.odd_events++;
		return NULL;
	}
}

static inline struct ht_err *take_call(struct replay *replay, struct lane *lane,
	const struct replay_call *call, const struct event *event)
{
	if (ht_unlikely(
		    lane->pending.kind != PENDING_NONE || event->kind == ABI_EVENT_REALLOC_FAIL)) {
		if (event->kind == ABI_EVENT_REALLOC_FAIL)
			return reinstate(replay, lane, call);
		HT_TRY(close_realloc(replay, lane, event->tsc));
	}
	/* Processors predict two branches better than one jump through a table. */
	if (event->kind == ABI_EVENT_FREE)
		return free_block(replay, call, event);
	if (ht_likely(event->kind == ABI_EVENT_ALLOC || event->kind == ABI_EVENT_REALLOC_END))
		return allocate(replay, call, event);
	return take_rest(replay, lane, call, event);
}

/* --- after the window ------------------------------------------------------------------------ */

void replay_settle(struct replay *replay)
{
	replay->is_settling = true;
}

static struct ht_err *end_settled(
	struct replay *replay, const struct replay_call *call, const struct live_block *block)
{
	const struct replay_observer *observer = &replay->observer;
	return observer->settled ? observer->settled(observer->context, call, block) : NULL;
}

/* Ends the block at `addr`. If no block is live there, the freed block was allocated after the
 * window or before it: the free is not counted. */
static struct ht_err *free_settled(
	struct replay *replay, const struct replay_call *call, uint64_t addr)
{
	const struct live_entry *entry = addr ? live_leave(&replay->live, addr) : NULL;
	if (!entry)
		return NULL;
	const struct live_block block = block_of(replay, entry);
	return end_settled(replay, call, &block);
}

/* A realloc succeeded: its block is live again, now at `addr`. */
static struct ht_err *move_settled(
	struct replay *replay, struct lane *lane, const struct replay_call *call, uint64_t addr)
{
	if (lane->pending.kind != PENDING_BLOCK || !addr) {
		lane->pending.kind = PENDING_NONE;
		return NULL;
	}
	HT_TRY(free_settled(replay, call, addr));
	lane->pending.block.addr = addr;
	return reinstate(replay, lane, call);
}

static struct ht_err *take_settled(struct replay *replay, struct lane *lane,
	const struct replay_call *call, const struct event *event)
{
	if (event->kind == ABI_EVENT_REALLOC_FAIL)
		return reinstate(replay, lane, call);
	if (event->kind == ABI_EVENT_REALLOC_END)
		return move_settled(replay, lane, call, event->addr);
	if (lane->pending.kind == PENDING_BLOCK)
		HT_TRY(end_settled(replay, call, &lane->pending.block));
	lane->pending.kind = PENDING_NONE;
	switch (event->kind) {
	case ABI_EVENT_FREE:
	case ABI_EVENT_ALLOC: /* the address was allocated again, so its block was freed: the event
				 of that free is late */
		return free_settled(replay, call, event->addr);
	case ABI_EVENT_REALLOC_BEGIN:
		lane->pending = give_back(replay, call, event);
		return NULL;
	default:
		return NULL;
	}
}

/* Counts the first events that are calls of one thread under one name. */
static size_t count_calls(const struct lane *lane, const struct event *event, size_t count)
{
	size_t calls = 0;
	while (calls < count && event[calls].tid == lane->tid &&
		event[calls].tsc < lane->until_tsc && event[calls].kind != ABI_EVENT_MAPPING)
		calls++;
	return calls;
}

static struct ht_err *take_calls(
	struct replay *replay, struct lane *lane, const struct event *event, size_t count)
{
	/* A copy, so that the compiler knows that no called function changes it. */
	const struct timebase timebase = *replay->timebase;
	const struct event *end = event + count;
	struct ht_err *err = NULL;
	replay->counts.events += count;
	replay->caller = lane->thread;
	replay->newest = &replay->threads->thread[same_thread(replay, lane->thread)].newest;
	for (; event != end && !err; event++) {
		const uint64_t time_ns = timebase_ns(&timebase, event->tsc);
		if (time_ns > replay->now_ns)
			replay->now_ns = time_ns;
		const struct replay_call call = {
			.tsc = event->tsc,
			.time_ns = replay->now_ns,
			.thread = lane->thread,
			.hook = event->hook % REPLAY_HOOKS,
		};
		err = ht_unlikely(replay->is_settling) ? take_settled(replay, lane, &call, event)
						       : take_call(replay, lane, &call, event);
	}
	return err;
}

struct ht_err *replay_events(
	void *context, uint32_t stream, const struct event *event, size_t count)
{
	struct replay *replay = context;
	struct ht_err *err = NULL;
	while (count && !err) {
		struct lane *lane;
		size_t taken = 1;
		if (event->kind == ABI_EVENT_MAPPING) {
			err = take_mapping(replay, stream, event);
		} else {
			err = find_lane(replay, stream, event, &lane);
			if (err)
				break;
			/* find_lane has checked the first event, so it counts even if count_calls
			 * would refuse it. */
			taken += count_calls(lane, event + 1, count - 1);
			err = take_calls(replay, lane, event, taken);
		}
		event += taken;
		count -= taken;
	}
	replay->caller = UINT32_MAX;
	return err;
}

void replay_scout(void *context, const struct event *event, size_t count)
{
	const struct replay *replay = context;
	for (size_t i = 0; i < count; i++)
		live_prefetch(&replay->live, event[i].addr);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Blocks of reallocs whose outcome the trace lacks stay live. */
static struct ht_err *reinstate_all(struct replay *replay)
{
	for (size_t i = 0; i < replay->lane_capacity; i++) {
		struct lane *lane = &replay->lane[i];
		const struct replay_call call = {
			.time_ns = replay->now_ns, .thread = lane->pending.thread};
		if (lane->pending.kind == PENDING_BLOCK)
			HT_TRY(reinstate(replay, lane, &call));
	}
	return NULL;
}

struct ht_err *replay_finish(struct replay *replay)
{
	const struct replay_observer *observer = &replay->observer;
	if (!observer->lived_on)
		return NULL;
	HT_TRY(reinstate_all(replay));
	live_list(&replay->live);
	for (size_t i = 0; i < replay->live.count; i++) {
		const struct live_block block = block_of(replay, &replay->live.slot[i]);
		HT_TRY(observer->lived_on(observer->context, &block));
	}
	return NULL;
}
