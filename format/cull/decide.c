/* SPDX-License-Identifier: Apache-2.0 */
#include "format/cull/decide.h"

#include "format/array.h"

/* --- the ends of blocks ------------------------------------------------------------------------
 */

static bool is_newest(const struct cull *cull, const struct live_entry *block)
{
	const struct tally *tally = &cull->tally;
	const uint32_t thread = tally->site[block->origin_flags >> LIVE_ORIGIN_SHIFT].thread;
	return tally->thread[tally->thread[thread].first].newest == block->addr;
}

/* Ends a block. `*ret_listed`: true if its events are written; false if its held allocation was
 * removed and only sums count the block. */
static struct ht_err *end_block(struct cull *cull, const struct cull_call *call,
	const struct live_entry *block, bool temporary, bool *ret_listed)
{
	const struct held *held = held_get(&cull->held, block->note);
	const bool culled =
		block->note && !held->is_listed && call->now_ns - held->first_ns < cull->cull_ns;
	const struct tally_death death = {.site = block->origin_flags >> LIVE_ORIGIN_SHIFT,
		.size = block->size,
		.birth_ns = block->birth_ns,
		.now_ns = call->now_ns,
		.temporary = temporary,
		.culled = culled,
		.caller = call->thread,
		.hook = call->hook};
	*ret_listed = !culled;
	if (culled)
		held_remove(&cull->held, block->note);
	else if (block->note)
		held_get(&cull->held, block->note)->is_listed = true;
	return tally_end(&cull->tally, &death);
}

/* Ends a block with a FREE event at the time of this call. */
static struct ht_err *free_now(struct cull *cull, const struct cull_call *call,
	const struct live_entry *block, uint64_t usable_bytes)
{
	bool listed;
	const struct event event = {.kind = ABI_EVENT_FREE,
		.hook = call->hook,
		.tsc = call->tsc,
		.addr = block->addr,
		.size = usable_bytes};
	HT_TRY(end_block(cull, call, block, is_newest(cull, block), &listed));
	return listed ? delay_listed(cull, call, &event) : NULL;
}

static bool frees_nothing(struct cull *cull, const struct cull_call *call, uint64_t addr)
{
	if (!addr)
		return true;
	const bool absorbed =
		owed_take(&cull->owed, addr, call->tsc, cull->tally.thread[call->thread].first);
	cull->absorbed_frees += absorbed;
	return absorbed;
}

static struct ht_err *take_free(
	struct cull *cull, const struct cull_call *call, const struct event *event)
{
	if (frees_nothing(cull, call, event->addr))
		return NULL;
	const struct live_entry *entry = live_leave(&cull->live, event->addr);
	if (entry) {
		const struct live_entry block = *entry;
		return free_now(cull, call, &block, event->size);
	}
	tally_before(&cull->tally, event->size);
	return delay_listed(cull, call, event);
}

/* --- allocations -------------------------------------------------------------------------------
 */

/* The place for a block at `addr`; if a block is still live there, ends it: its free must be
 * missing or late. */
static struct ht_err *enter_block(
	struct cull *cull, const struct cull_call *call, uint64_t addr, struct live_entry **ret)
{
	HT_TRY(live_reserve(&cull->live));
	*ret = live_enter(&cull->live, addr);
	if (ht_likely(!live_is_live(*ret)))
		return NULL;
	const struct live_entry older = **ret;
	owed_add(&cull->owed, addr, call->tsc, cull->tally.thread[call->thread].first);
	cull->inferred_frees++;
	return free_now(cull, call, &older, 0);
}

static struct ht_err *find_site(
	struct cull *cull, const struct cull_call *call, const struct event *event, uint32_t *ret)
{
	uint32_t key = culled_class(event->size) | (uint32_t)(call->hook & CULLED_KEY_HOOK)
							   << CULLED_KEY_HOOK_SHIFT;
	if (!generations_hold(&cull->generations, event->stack, event->tsc))
		key |= CULLED_KEY_PLAIN;
	return tally_find_site(&cull->tally, event->stack, call->thread, key, ret);
}

/* `first_ns`: birth of the first block of the chain of reallocs. */
static struct ht_err *take_alloc(struct cull *cull, const struct cull_call *call,
	const struct event *event, uint64_t first_ns, bool is_listed)
{
	struct live_entry *entry;
	uint32_t site, at;
	/* An allocation at address 0 is malformed: written unchanged, so that the analyzer counts
	 * it. */
	if (!event->addr)
		return delay_listed(cull, call, event);
	HT_TRY(find_site(cull, call, event, &site));
	HT_TRY(enter_block(cull, call, event->addr, &entry));
	HT_TRY(delay_event(cull, call, event, first_ns, is_listed || cull->is_reading, &at));
	struct tally_thread *thread = &cull->tally.thread[call->thread];
	cull->tally.thread[thread->first].newest = event->addr;
	*entry = (struct live_entry){.addr = event->addr,
		.size = event->size,
		.birth_ns = call->now_ns,
		.note = at,
		.origin_flags = site << LIVE_ORIGIN_SHIFT | LIVE_IS_LIVE};
	return tally_birth(&cull->tally, site, event->size, call->now_ns);
}

/* --- reallocs ----------------------------------------------------------------------------------
 */

static struct ht_err *take_begin(struct cull *cull, struct lane *lane, uint32_t number,
	const struct cull_call *call, const struct event *event)
{
	lane->thread = call->thread;
	lane->hook = call->hook;
	lane->usable_bytes = event->size;
	lane->begin_is_written = false;
	lane->begin = 0;
	if (frees_nothing(cull, call, event->addr))
		return NULL;
	const struct live_entry *entry = live_leave(&cull->live, event->addr);
	lane->pending = entry ? LANE_BLOCK : LANE_BEFORE;
	if (entry) {
		lane->block = *entry;
		lane->temporary = is_newest(cull, entry);
		if (entry->note)
			held_get(&cull->held, entry->note)->lane = number + 1;
	}
	HT_TRY(delay_event(cull, call, event, 0, false, &lane->begin));
	held_get(&cull->held, lane->begin)->lane = number + 1;
	return NULL;
}

/* Call when the outcome of the lane's realloc is known: `listed` keeps its held REALLOC_BEGIN for
 * writing, otherwise removes it. */
static void close_begin(struct cull *cull, struct lane *lane, bool listed)
{
	if (!lane->begin)
		return;
	struct held *held = held_get(&cull->held, lane->begin);
	held->lane = 0;
	held->is_listed = true;
	if (!listed)
		held_remove(&cull->held, lane->begin);
	lane->begin = 0;
}

/* Ends the old block of the lane's successful realloc. `*ret_listed`: whether the events of that
 * block are written; `*ret_first_ns`: see take_alloc. */
static struct ht_err *end_pending(struct cull *cull, struct lane *lane,
	const struct cull_call *call, bool *ret_listed, uint64_t *ret_first_ns)
{
	const unsigned pending = lane->pending;
	struct cull_call gone = *call;
	struct ht_err *err = NULL;
	lane->pending = LANE_NONE;
	*ret_listed = pending == LANE_BEFORE;
	gone.thread = lane->thread;
	gone.hook = lane->hook;
	if (pending == LANE_BEFORE)
		tally_before(&cull->tally, lane->usable_bytes);
	if (pending == LANE_BLOCK) {
		if (lane->block.note) {
			struct held *held = held_get(&cull->held, lane->block.note);
			held->lane = 0;
			*ret_first_ns = held->first_ns;
		}
		err = end_block(cull, &gone, &lane->block, lane->temporary, ret_listed);
	}
	close_begin(cull, lane, *ret_listed);
	return err;
}

/* Takes the event that follows REALLOC_BEGIN, if it is not REALLOC_FAIL: the realloc succeeded.
 * `*ret_done`: the event is consumed. */
static struct ht_err *settle(struct cull *cull, struct lane *lane, const struct cull_call *call,
	const struct event *event, bool *ret_done)
{
	const bool goes_on = event->kind == ABI_EVENT_REALLOC_END && event->addr;
	uint64_t first_ns = call->now_ns;
	bool listed = false;
	struct event out = *event;
	*ret_done = goes_on;
	HT_TRY(end_pending(cull, lane, call, &listed, &first_ns));
	if (!goes_on && listed) {
		out = (struct event){.kind = ABI_EVENT_REALLOC_FREED, .tsc = event->tsc};
		return delay_listed(cull, call, &out);
	}
	if (!goes_on)
		return NULL;
	if (!listed)
		out.kind = ABI_EVENT_ALLOC;
	return take_alloc(cull, call, &out, first_ns, listed);
}

/* A realloc failed: its old block is live again. */
static struct ht_err *take_fail(struct cull *cull, struct lane *lane, const struct cull_call *call,
	const struct event *event)
{
	const unsigned pending = lane->pending;
	const bool was_written = lane->begin_is_written && !lane->begin;
	struct live_entry *entry;
	lane->pending = LANE_NONE;
	if (pending == LANE_NONE)
		return NULL;
	close_begin(cull, lane, false);
	if (was_written)
		HT_TRY(delay_listed(cull, call, event));
	if (pending == LANE_BEFORE)
		return NULL;
	if (lane->block.note)
		held_get(&cull->held, lane->block.note)->lane = 0;
	HT_TRY(enter_block(cull, call, lane->block.addr, &entry));
	*entry = lane->block;
	entry->origin_flags |= LIVE_IS_LIVE;
	return NULL;
}

/* --- events ------------------------------------------------------------------------------------
 */

static struct ht_err *take_call(struct cull *cull, struct lane *lane, uint32_t number,
	const struct cull_call *call, const struct event *event)
{
	struct event out = *event;
	if (event->kind == ABI_EVENT_REALLOC_FAIL)
		return take_fail(cull, lane, call, event);
	if (ht_unlikely(lane->pending != LANE_NONE)) {
		bool done;
		struct ht_err *err = settle(cull, lane, call, event, &done);
		if (err || done)
			return err;
	}
	switch (event->kind) {
	case ABI_EVENT_FREE:
		return take_free(cull, call, event);
	case ABI_EVENT_ALLOC:
		return take_alloc(cull, call, event, call->now_ns, false);
	case ABI_EVENT_REALLOC_END:
		out.kind = ABI_EVENT_ALLOC;
		return take_alloc(cull, call, &out, call->now_ns, false);
	case ABI_EVENT_REALLOC_BEGIN:
		return take_begin(cull, lane, number, call, event);
	case ABI_EVENT_REALLOC_FREED:
		return NULL;
	default:
		return delay_listed(cull, call, event);
	}
}

/* Updates lane->caller. */
static struct ht_err *find_thread(struct cull *cull, struct lane *lane, uint32_t tid, uint64_t tsc)
{
	if (lane->caller && lane->tid == tid && tsc < lane->until_tsc &&
		lane->names == cull->tally.names)
		return NULL;
	lane->tid = tid;
	lane->names = cull->tally.names;
	return tally_find_thread(&cull->tally, tid, tsc, &lane->caller, &lane->until_tsc);
}

static struct ht_err *take_event(struct cull *cull, uint32_t stream, const struct event *event)
{
	struct lane *lane = &cull->lane[stream];
	struct cull_call call = {
		.tsc = event->tsc, .stream = stream, .tid = event->tid, .hook = event->hook};
	const uint64_t time_ns = timebase_ns(&cull->timebase, event->tsc);
	/* The stamp of a mapping may be later than that of the next event. */
	if (event->kind == ABI_EVENT_MAPPING) {
		call.now_ns = cull->now_ns;
		return delay_listed(cull, &call, event);
	}
	HT_TRY(delay_enter_time(cull, event->tsc, time_ns));
	HT_TRY(find_thread(cull, lane, event->tid, event->tsc));
	call.thread = lane->caller;
	if (time_ns > cull->now_ns)
		cull->now_ns = time_ns;
	call.now_ns = cull->now_ns;
	cull->taken_events++;
	return take_call(cull, lane, stream, &call, event);
}

struct ht_err *decide_take(void *context, uint32_t stream, const struct event *event, size_t count)
{
	struct cull *cull = context;
	HT_TRY(ARRAY_RESERVE(cull->lane, cull->lane_capacity, (size_t)stream + 1, "event streams"));
	for (size_t i = 0; i < count; i++)
		HT_TRY(take_event(cull, stream, &event[i]));
	return NULL;
}
