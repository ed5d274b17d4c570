/* SPDX-License-Identifier: Apache-2.0 */
#include "format/cull/cull.h"

#include <stdlib.h>

#include "format/cull/decide.h"

static void prefetch(void *context, const struct event *event, size_t count)
{
	const struct cull *cull = context;
	for (size_t i = 0; i < count; i++)
		live_prefetch(&cull->live, event[i].addr);
}

struct ht_err *cull_create(uint64_t cull_ns, emit_put *put, void *context, struct cull **ret)
{
	struct cull *cull = calloc(1, sizeof(*cull));
	if (!cull)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the filter");
	cull->cull_ns = cull_ns;
	cull->next_ns = TRACE_CULLED_NS;
	cull->emit.put = put;
	cull->emit.context = context;
	struct ht_err *err = streams_create(decide_take, prefetch, cull, &cull->streams);
	if (err)
		free(cull);
	else
		*ret = cull;
	return err;
}

void cull_destroy(struct cull *cull)
{
	if (!cull)
		return;
	streams_destroy(cull->streams);
	live_deinit(&cull->live);
	held_deinit(&cull->held);
	tally_deinit(&cull->tally);
	emit_deinit(&cull->emit);
	generations_deinit(&cull->generations);
	free(cull->lane);
	free(cull);
}

struct cull_sizes cull_sizes(const struct cull *cull)
{
	return (struct cull_sizes){.live_blocks = cull->live.count,
		.bytes = cull->live.capacity * sizeof(struct live_entry) +
			 cull->held.used * sizeof(struct held)};
}

/* --- readings of the heap ----------------------------------------------------------------------
 */

/* Marks the held events of live blocks to be written. While the allocators' counters are read, the
 * live bytes must be exact, so no block that is live then may be only a sum. */
static void list_all(struct cull *cull)
{
	for (uint32_t at = cull->held.first; at; at = held_get(&cull->held, at)->after) {
		struct held *held = held_get(&cull->held, at);
		if (held->event.kind != ABI_EVENT_REALLOC_BEGIN)
			held->is_listed = true;
	}
}

static struct ht_err *release(struct cull *cull, uint64_t tsc)
{
	while (cull->readings_ended < cull->reading_count) {
		const struct cull_reading *reading = &cull->reading[cull->readings_ended];
		const bool begun = cull->readings_begun > cull->readings_ended;
		const uint64_t next_tsc = begun ? reading->end_tsc : reading->begin_tsc;
		if (next_tsc > tsc)
			break;
		HT_TRY(streams_release(cull->streams, next_tsc));
		cull->is_reading = !begun;
		if (begun) {
			cull->readings_ended++;
			continue;
		}
		cull->readings_begun++;
		if (!cull->tally.header_bytes)
			cull->tally.header_bytes = reading->header_bytes;
		list_all(cull);
	}
	return streams_release(cull->streams, tsc);
}

static void take_heap(struct cull *cull, const struct rec_heap *rec)
{
	const uint64_t least_tsc =
		cull->reading_count ? cull->reading[cull->reading_count - 1].end_tsc : 0;
	struct cull_reading reading = {.begin_tsc = rec->begin_tsc, .end_tsc = rec->end_tsc};
	uint64_t most_bytes = 0;
	if (cull->reading_count == CULL_READINGS_MAX || rec->begin_tsc < least_tsc ||
		rec->end_tsc < rec->begin_tsc)
		return;
	for (uint64_t i = 0; i < rec->account_count; i++) {
		const struct rec_account *account = &rec->account[i];
		if (!(account->flags & REC_ACCOUNT_KNOWN) || account->held_bytes <= most_bytes)
			continue;
		most_bytes = account->held_bytes;
		reading.header_bytes = account->header_bytes;
	}
	cull->reading[cull->reading_count++] = reading;
}

/* --- records -----------------------------------------------------------------------------------
 */

static struct ht_err *take_nodes(struct cull *cull, const struct rec_nodes *rec)
{
	struct bytes body = rec->body;
	for (uint64_t i = 0; i < rec->count; i++) {
		struct rec_node node;
		const uint64_t id = rec->first_id + i;
		if (ht_err_drop(rec_node_next(&body, &node)))
			return NULL;
		if (id < 1u << 24 && node.parent < id)
			HT_TRY(generations_note(&cull->generations, (uint32_t)id, &node));
	}
	return NULL;
}

/* The SYNC precedes the events that are written after it: the reader needs its clock pair to
 * convert their stamps. */
static struct ht_err *put_sync(struct cull *cull, const struct rec *rec)
{
	struct rec out = *rec;
	const struct held_queue *held = &cull->held;
	/* Held events are written after this record, so complete_tsc must not pass the first of
	 * them. */
	if (held->first && held_get(held, held->first)->event.tsc < out.sync.complete_tsc)
		out.sync.complete_tsc = held_get(held, held->first)->event.tsc;
	if (cull->sums_tsc < out.sync.complete_tsc)
		out.sync.complete_tsc = cull->sums_tsc;
	if (out.sync.complete_tsc < cull->complete_tsc)
		out.sync.complete_tsc = cull->complete_tsc;
	cull->complete_tsc = out.sync.complete_tsc;
	return cull->emit.put(cull->emit.context, &out, 0);
}

static struct ht_err *take_sync(struct cull *cull, const struct rec *rec)
{
	const struct rec_sync *sync = &rec->sync;
	timebase_add(&cull->timebase, sync->tsc, sync->mono_ns);
	HT_TRY(release(cull, sync->complete_tsc));
	const uint64_t time_ns = timebase_ns(
		&cull->timebase, sync->complete_tsc < sync->tsc ? sync->complete_tsc : sync->tsc);
	HT_TRY(delay_enter_time(cull, sync->complete_tsc, time_ns));
	HT_TRY(put_sync(cull, rec));
	return delay_write_old(cull, time_ns);
}

static struct ht_err *take_capture(struct cull *cull, struct rec *rec)
{
	if (rec->capture.sample_bytes)
		return ht_err_new(HT_ERR_USAGE, "a sample cannot be culled");
	timebase_start(&cull->timebase, rec->capture.start_tsc, rec->capture.start_mono_ns);
	cull->interval_tsc = cull->sums_tsc = rec->capture.start_tsc;
	rec->capture.cull_ns = cull->cull_ns;
	return NULL;
}

struct ht_err *cull_finish(struct cull *cull)
{
	if (cull->is_finished)
		return NULL;
	cull->is_finished = true;
	HT_TRY(release(cull, UINT64_MAX));
	HT_TRY(streams_finish(cull->streams));
	HT_TRY(delay_close_interval(cull, UINT64_MAX, cull->tally.interval + 1));
	while (cull->held.first)
		HT_TRY(delay_write_first(cull));
	return emit_flush(&cull->emit);
}

struct ht_err *cull_take(struct cull *cull, const struct rec *rec)
{
	struct rec changed;
	const struct rec *out = rec;
	struct ht_err *err = NULL;
	switch (rec->kind) {
	case REC_EVENTS:
		return cull->is_finished ? NULL : streams_add(cull->streams, rec);
	case REC_CAPTURE:
		changed = *rec;
		out = &changed;
		err = take_capture(cull, &changed);
		break;
	case REC_SYNC:
		return cull->is_finished ? NULL : take_sync(cull, rec);
	case REC_HEAP:
		take_heap(cull, &rec->heap);
		break;
	case REC_THREAD:
		err = tally_name(&cull->tally, &rec->thread);
		break;
	case REC_NODES:
		err = take_nodes(cull, &rec->nodes);
		break;
	case REC_SCRIPTS:
		err = generations_take(&cull->generations, &rec->scripts);
		break;
	case REC_END:
		err = cull_finish(cull);
		break;
	case REC_TARGET:
	case REC_MODULE:
	case REC_MODULE_GONE:
	case REC_RSS:
	case REC_LOSS:
	case REC_SYMBOL:
	case REC_MARK:
	case REC_MAPPED:
	case REC_COLUMNS:
	case REC_NAMES:
	case REC_MEMORY:
	case REC_PAUSE:
	case REC_LEFT:
	case REC_SETTLE:
	case REC_CULLED:
		break;
	}
	return err ? err : cull->emit.put(cull->emit.context, out, 0);
}
