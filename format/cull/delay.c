/* SPDX-License-Identifier: Apache-2.0 */
#include "format/cull/delay.h"

#include <stdlib.h>

/* --- intervals ---------------------------------------------------------------------------------
 */

static struct ht_err *delay_record(void *context, const struct rec *rec)
{
	struct cull *cull = context;
	struct bytes_out *record = calloc(1, sizeof(*record));
	uint32_t at;
	if (!record)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for sums");
	struct ht_err *err = rec_encode(record, rec);
	const struct held held = {
		.time_ns = cull->now_ns, .event = {.tsc = cull->interval_tsc}, .record = record};
	HT_THEN(err, held_push(&cull->held, &held, &at));
	if (err) {
		bytes_out_deinit(record);
		free(record);
	}
	cull->held_records += !err;
	return err;
}

struct ht_err *delay_close_interval(struct cull *cull, uint64_t end_tsc, uint64_t next)
{
	const uint64_t shown = cull->emit.counted + cull->held.events + cull->told_events;
	const uint64_t events = cull->taken_events > shown ? cull->taken_events - shown : 0;
	const struct rec_culled head = {.end_tsc = end_tsc,
		.events = events,
		.inferred_frees = cull->inferred_frees,
		.absorbed_frees = cull->absorbed_frees};
	cull->told_events += events;
	cull->inferred_frees = cull->absorbed_frees = 0;
	cull->next_ns = (next + 1) * TRACE_CULLED_NS;
	HT_TRY(tally_close(&cull->tally, next, &head, delay_record, cull));
	cull->interval_tsc = end_tsc;
	if (!cull->held_records)
		cull->sums_tsc = end_tsc;
	return NULL;
}

/* --- held events -------------------------------------------------------------------------------
 */

struct ht_err *delay_event(struct cull *cull, const struct cull_call *call,
	const struct event *event, uint64_t first_ns, bool is_listed, uint32_t *ret)
{
	struct held held = {.stream = call->stream,
		.time_ns = call->now_ns,
		.first_ns = first_ns,
		.is_listed = is_listed,
		.event = *event};
	held.event.tid = call->tid;
	return held_push(&cull->held, &held, ret);
}

struct ht_err *delay_listed(
	struct cull *cull, const struct cull_call *call, const struct event *event)
{
	uint32_t at;
	return delay_event(cull, call, event, 0, true, &at);
}

static void forget_block(struct cull *cull, uint32_t at)
{
	const struct held *held = held_get(&cull->held, at);
	if (held->lane) {
		struct lane *lane = &cull->lane[held->lane - 1];
		if (lane->block.note == at)
			lane->block.note = 0;
	}
	if (!cull->live.capacity)
		return;
	struct live_entry *entry = live_place(&cull->live, held->event.addr);
	if (live_is_live(entry) && entry->note == at)
		entry->note = 0;
}

static void forget_begin(struct cull *cull, uint32_t at)
{
	const struct held *held = held_get(&cull->held, at);
	if (!held->lane)
		return;
	struct lane *lane = &cull->lane[held->lane - 1];
	lane->begin = 0;
	lane->begin_is_written = true;
}

static struct ht_err *put_record(struct cull *cull, const struct bytes_out *record)
{
	struct bytes in = bytes_of(record->data, record->length);
	struct rec rec;
	HT_TRY(emit_flush(&cull->emit));
	HT_TRY(rec_decode(&in, &rec));
	return cull->emit.put(cull->emit.context, &rec, rec.culled.events);
}

struct ht_err *delay_write_first(struct cull *cull)
{
	const uint32_t at = cull->held.first;
	const struct held *held = held_get(&cull->held, at);
	struct ht_err *err;
	if (held->record) {
		err = put_record(cull, held->record);
		/* An interval can have several records: its sums are complete only after the last.
		 */
		cull->held_records--;
		cull->sums_tsc = cull->held_records ? held->event.tsc : cull->interval_tsc;
	} else {
		if (held->event.kind == ABI_EVENT_REALLOC_BEGIN)
			forget_begin(cull, at);
		else if (held->event.addr)
			forget_block(cull, at);
		err = emit_add(&cull->emit, held->stream, &held->event);
	}
	held_remove(&cull->held, at);
	return err;
}

struct ht_err *delay_write_old(struct cull *cull, uint64_t now_ns)
{
	while (cull->held.first) {
		const uint64_t time_ns = held_get(&cull->held, cull->held.first)->time_ns;
		if (now_ns < time_ns || now_ns - time_ns < cull->cull_ns)
			break;
		HT_TRY(delay_write_first(cull));
	}
	return emit_flush(&cull->emit);
}
