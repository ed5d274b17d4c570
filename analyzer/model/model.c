/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/model.h"

#include <stdlib.h>

#include "format/array.h"

struct model_reading {
	struct model *model;
	struct model_observer observer;
	struct trace_reader *reader;
	const char *name;
	struct replay *replay; /* NULL: events are not wanted */
	struct streams *streams;
	size_t heaps_begun,
		heaps_ended;	     /* number of readings whose beginning (or end) has passed */
	bool settles;		     /* the window has ended */
	struct replay_counts culled; /* of CULLED records */
};

void model_deinit(struct model *model)
{
	free(model->mark);
	free(model->pause);
	free(model->heap);
	threads_deinit(&model->threads);
	nodes_deinit(&model->nodes);
	modules_deinit(&model->modules);
	strings_deinit(&model->strings);
	*model = (struct model){0};
}

uint64_t model_missing_events(const struct model *model)
{
	const uint64_t *counter = model->counter;
	uint64_t accounted = model->counts.events + counter[REC_COUNTER_LOST_TIMEOUT] +
			     counter[REC_COUNTER_LOST_SOCKET] + counter[REC_COUNTER_DAEMON_DROPS];
	/* In a cut file the last counter records are older than the last events, so the difference
	 * is no loss. */
	if (model->how_ended != TRACE_COMPLETE || !model->has_events)
		return 0;
	return counter[REC_COUNTER_EVENTS] > accounted ? counter[REC_COUNTER_EVENTS] - accounted
						       : 0;
}

uint64_t model_dropped_events(const struct model *model)
{
	return model_missing_events(model) + model->counter[REC_COUNTER_LOST_TIMEOUT] +
	       model->counter[REC_COUNTER_LOST_SOCKET] +
	       model->counter[REC_COUNTER_LOST_SLOT_FULL] +
	       model->counter[REC_COUNTER_LOST_NESTED] + model->counter[REC_COUNTER_DAEMON_DROPS] +
	       model->counter[REC_COUNTER_SAMPLES_LOST];
}

uint64_t model_missing_mappings(const struct model *model)
{
	uint64_t recorded = model->counter[REC_COUNTER_MAPPINGS];
	if (model->how_ended != TRACE_COMPLETE || !model->has_events)
		return 0;
	return recorded > model->counts.mappings ? recorded - model->counts.mappings : 0;
}

uint64_t model_truncated_stacks(const struct model *model)
{
	return model->counter[REC_COUNTER_TRUNC_DEPTH] + model->counter[REC_COUNTER_TRUNC_NO_RULE] +
	       model->counter[REC_COUNTER_TRUNC_STACK] + model->counter[REC_COUNTER_TRUNC_NODES];
}

/* --- one record ------------------------------------------------------------------------------ */

static struct ht_err *take_target(struct model *model, const struct rec_target *rec)
{
	if (model->has_target)
		return NULL;
	model->has_target = true;
	model->target = *rec;
	struct strings *strings = &model->strings;
	HT_TRY(strings_intern(strings, rec->comm, &model->comm));
	HT_TRY(strings_intern(strings, rec->exe, &model->exe));
	HT_TRY(strings_intern(strings, rec->kernel, &model->kernel));
	return strings_intern(strings, rec->heaptap_version, &model->heaptap_version);
}

static void take_capture(struct model *model, const struct rec_capture *rec)
{
	if (model->has_capture)
		return;
	model->has_capture = true;
	model->capture = *rec;
	timebase_start(&model->timebase, rec->start_tsc, rec->start_mono_ns);
}

/* Notes that the trace reaches up to `time_ns`. */
static void note_end(struct model *model, uint64_t time_ns)
{
	uint64_t *end_ns = model->settle.is_there ? &model->settle.end_ns : &model->duration_ns;
	if (time_ns > *end_ns)
		*end_ns = time_ns;
}

static void note_time(struct model *model, uint64_t tsc, uint64_t mono_ns)
{
	timebase_add(&model->timebase, tsc, mono_ns);
	uint64_t time_ns = timebase_since_start(&model->timebase, mono_ns);
	note_end(model, time_ns);
}

static struct ht_err *take_account(
	struct strings *strings, const struct rec_account *rec, struct model_account *ret)
{
	*ret = (struct model_account){.known = rec->flags & REC_ACCOUNT_KNOWN};
	if (ret->known) {
		ret->held_bytes = rec->held_bytes;
		ret->off_bytes = rec->off_bytes;
		ret->system_bytes = rec->system_bytes;
		ret->arenas = rec->arenas;
		ret->header_bytes = rec->header_bytes;
	}
	HT_TRY(strings_intern(strings, rec->allocator, &ret->allocator));
	return strings_intern(strings, rec->reason, &ret->reason);
}

static struct ht_err *take_heap(struct model *model, const struct rec_heap *rec)
{
	/* Readings are in the order of their times; ignore one that is not. */
	uint64_t least_tsc = model->heap_count ? model->heap[model->heap_count - 1].end_tsc : 0;
	if (model->heap_count == MODEL_HEAPS_MAX || rec->begin_tsc < least_tsc ||
		rec->end_tsc < rec->begin_tsc)
		return NULL;
	HT_TRY(ARRAY_RESERVE(model->heap, model->heap_capacity, model->heap_count + 1, "heaps"));
	struct model_heap *heap = &model->heap[model->heap_count++];
	*heap = (struct model_heap){.begin_tsc = rec->begin_tsc, .end_tsc = rec->end_tsc};
	for (size_t i = 0; i < rec->account_count; i++)
		HT_TRY(take_account(&model->strings, &rec->account[i], &heap->account[i]));
	heap->account_count = rec->account_count;
	return NULL;
}

static struct ht_err *pass_heap(struct model_reading *load, size_t index, bool ended, uint64_t tsc)
{
	HT_TRY(streams_release(load->streams, tsc));
	return load->observer.heap
		       ? load->observer.heap(load->observer.replay.context, index, ended)
		       : NULL;
}

/* Releases events up to `tsc`; stops at each beginning and end of a reading, in order. */
static struct ht_err *release_to(struct model_reading *load, uint64_t tsc)
{
	const struct model *model = load->model;
	while (load->heaps_ended < model->heap_count) {
		const struct model_heap *heap = &model->heap[load->heaps_ended];
		bool ended = load->heaps_begun > load->heaps_ended;
		uint64_t next_tsc = ended ? heap->end_tsc : heap->begin_tsc;
		if (next_tsc > tsc)
			break;
		HT_TRY(pass_heap(load, load->heaps_ended, ended, next_tsc));
		++*(ended ? &load->heaps_ended : &load->heaps_begun);
	}
	return streams_release(load->streams, tsc);
}

/* As release_to; if the window's end lies before `tsc`, tells the replay when the events reach it.
 */
static struct ht_err *release(struct model_reading *load, uint64_t tsc)
{
	const struct model_settle *settle = &load->model->settle;
	if (settle->is_there && !load->settles && tsc >= settle->begin_tsc) {
		HT_TRY(release_to(load, settle->begin_tsc));
		replay_settle(load->replay);
		load->settles = true;
	}
	return release_to(load, tsc);
}

static struct ht_err *take_sync(struct model_reading *load, const struct rec_sync *rec)
{
	struct model *model = load->model;
	/* Events that the filter of --cull still holds are written later. */
	if (model->capture.cull_ns) {
		timebase_add(&model->timebase, rec->tsc, rec->mono_ns);
		note_end(model, timebase_ns(&model->timebase, rec->complete_tsc));
	} else {
		note_time(model, rec->tsc, rec->mono_ns);
	}
	return load->replay ? release(load, rec->complete_tsc) : NULL;
}

static void take_value(struct model_memory *memory, const struct rec_value *value)
{
	if (!memory_kind_name(value->kind))
		return;
	enum memory_kind kind = (enum memory_kind)value->kind;
	if (!memory->count[kind]++)
		memory_set(&memory->first, kind, value->number);
	memory_set(&memory->last, kind, value->number);
}

static struct ht_err *take_memory(struct model_reading *load, const struct rec_memory *rec)
{
	struct model *model = load->model;
	struct memory sample = {0};
	/* Figures after the window's end do not count: they are of the settle time. */
	if (model->settle.is_there)
		return NULL;
	for (uint64_t i = 0; i < rec->value_count; i++) {
		take_value(&model->memory, &rec->value[i]);
		if (rec->value[i].kind < MEMORY_KIND_COUNT)
			memory_set(&sample, (enum memory_kind)rec->value[i].kind,
				rec->value[i].number);
	}
	if (sample.number[MEMORY_RSS] > model->rss_max_bytes)
		model->rss_max_bytes = sample.number[MEMORY_RSS];
	if (!load->observer.memory)
		return NULL;
	return load->observer.memory(load->observer.replay.context,
		timebase_since_start(&model->timebase, rec->mono_ns), &sample);
}

/* Old traces record 0 bytes for a process that is ending: ignore these. */
static struct ht_err *take_old_rss(struct model_reading *load, const struct rec_rss *rec)
{
	struct rec_memory memory = {
		.mono_ns = rec->mono_ns, .value_count = 1, .value = {{MEMORY_RSS, rec->rss_bytes}}};
	return rec->rss_bytes ? take_memory(load, &memory) : NULL;
}

static struct ht_err *take_mark(struct model *model, const struct rec_mark *rec)
{
	if (model->mark_count == MODEL_MARKS_MAX)
		return NULL;
	HT_TRY(ARRAY_RESERVE(model->mark, model->mark_capacity, model->mark_count + 1, "marks"));
	struct model_mark *mark = &model->mark[model->mark_count++];
	mark->time_ns = timebase_since_start(&model->timebase, rec->mono_ns);
	return strings_intern(&model->strings, rec->text, &mark->text);
}

#define PAUSE_OPEN UINT64_MAX

static struct ht_err *take_pause(struct model *model, const struct rec_pause *rec)
{
	if (model->settle.is_there)
		return NULL;
	uint64_t now_ns = timebase_since_start(&model->timebase, rec->mono_ns);
	struct model_pause *last =
		model->pause_count ? &model->pause[model->pause_count - 1] : NULL;
	bool is_open = last && last->end_ns == PAUSE_OPEN;
	if (is_open && !rec->paused)
		last->end_ns = now_ns > last->begin_ns ? now_ns : last->begin_ns;
	if (is_open || !rec->paused || model->pause_count == MODEL_PAUSES_MAX)
		return NULL;
	/* A forged trace may have times that decrease. */
	if (last && now_ns < last->end_ns)
		now_ns = last->end_ns;
	HT_TRY(ARRAY_RESERVE(
		model->pause, model->pause_capacity, model->pause_count + 1, "pauses"));
	model->pause[model->pause_count++] = (struct model_pause){now_ns, PAUSE_OPEN};
	return NULL;
}

/* Ignores results that only later versions know. */
static struct ht_err *take_left(struct model *model, const struct rec_left *rec)
{
	if (rec->result > REC_LEFT_ENDED)
		return NULL;
	model->has_left = true;
	model->left = (enum rec_left_result)rec->result;
	model->left_checks = rec->checks;
	model->left_why = NULL;
	return rec->why.length ? strings_intern(&model->strings, rec->why, &model->left_why) : NULL;
}

/* If the last pause has no end, it ends with the window. */
static void end_pause(struct model *model)
{
	struct model_pause *last =
		model->pause_count ? &model->pause[model->pause_count - 1] : NULL;
	if (last && last->end_ns == PAUSE_OPEN)
		last->end_ns =
			model->duration_ns > last->begin_ns ? model->duration_ns : last->begin_ns;
}

static struct ht_err *take_mapped(struct model_reading *load, const struct rec_mapped *rec)
{
	const struct model_observer *observer = &load->observer;
	for (uint64_t i = 0; observer->mapped_before && i < rec->range_count; i++)
		HT_TRY(observer->mapped_before(observer->replay.context, &rec->range[i]));
	return NULL;
}

static void take_end(struct model *model, const struct rec_end *rec)
{
	model->has_end = true;
	model->end = *rec;
	timebase_add(&model->timebase, rec->tsc, rec->mono_ns);
	uint64_t end_ns = timebase_since_start(&model->timebase, rec->mono_ns);
	/* The END record gives the end of the window even if later clock pairs follow. */
	if (!model->settle.is_there)
		model->duration_ns = end_ns;
	else if (end_ns > model->settle.begin_ns)
		model->settle.end_ns = end_ns;
}

static void take_settle(struct model *model, const struct rec_settle *rec)
{
	if (model->settle.is_there || model->has_end)
		return;
	timebase_add(&model->timebase, rec->tsc, rec->mono_ns);
	uint64_t begin_ns = timebase_since_start(&model->timebase, rec->mono_ns);
	model->duration_ns = begin_ns;
	model->settle = (struct model_settle){true, rec->tsc, begin_ns, begin_ns, rec->wanted_ns};
}

static struct ht_err *take_culled(struct model_reading *load, const struct rec_culled *rec)
{
	struct model *model = load->model;
	if (!load->replay)
		return NULL;
	HT_TRY(release(load, rec->end_tsc));
	load->culled.events += rec->events;
	load->culled.inferred_frees += rec->inferred_frees;
	load->culled.absorbed_frees += rec->absorbed_frees;
	return load->observer.culled
		       ? culled_read(&model->threads, &model->nodes, rec, load->observer.culled,
				 load->observer.replay.context, &load->culled.unknown_stacks)
		       : NULL;
}

static struct ht_err *take(struct model_reading *load, const struct rec *rec)
{
	struct model *model = load->model;
	switch (rec->kind) {
	case REC_TARGET:
		return take_target(model, &rec->target);
	case REC_CAPTURE:
		take_capture(model, &rec->capture);
		if (load->replay)
			replay_sample(load->replay, model->capture.sample_bytes);
		return load->observer.captured
			       ? load->observer.captured(load->observer.replay.context)
			       : NULL;
	case REC_MODULE:
		return modules_add(&model->modules, &model->strings, &rec->module);
	case REC_MODULE_GONE:
		modules_gone(&model->modules, &rec->module_gone);
		return NULL;
	case REC_THREAD:
		return threads_name(&model->threads, &model->strings, &rec->thread);
	case REC_NODES:
		return nodes_add(&model->nodes, &rec->nodes);
	case REC_EVENTS:
	case REC_COLUMNS:
		return load->replay ? streams_add(load->streams, rec) : NULL;
	case REC_SYNC:
		return take_sync(load, &rec->sync);
	case REC_RSS:
		return take_old_rss(load, &rec->rss);
	case REC_LOSS:
		if (rec->loss.counter < REC_COUNTER_COUNT)
			model->counter[rec->loss.counter] = rec->loss.total;
		return NULL;
	case REC_SYMBOL:
		if (!load->observer.symbol)
			return NULL;
		return load->observer.symbol(load->observer.replay.context, &rec->symbol);
	case REC_MARK:
		return take_mark(model, &rec->mark);
	case REC_END:
		take_end(model, &rec->end);
		return NULL;
	case REC_HEAP:
		return take_heap(model, &rec->heap);
	case REC_MAPPED:
		return take_mapped(load, &rec->mapped);
	case REC_SCRIPTS:
		return generations_take(&model->nodes.generations, &rec->scripts);
	case REC_NAMES:
		return modules_note(&model->modules, &model->strings, &rec->names);
	case REC_MEMORY:
		return take_memory(load, &rec->memory);
	case REC_LEFT:
		return take_left(model, &rec->left);
	case REC_PAUSE:
		return take_pause(model, &rec->pause);
	case REC_SETTLE:
		take_settle(model, &rec->settle);
		return NULL;
	case REC_CULLED:
		return take_culled(load, &rec->culled);
	}
	return NULL;
}

/* --- the whole file -------------------------------------------------------------------------- */

struct ht_err *model_reading_continue(struct model_reading *load, uint64_t bytes)
{
	struct model *model = load->model;
	struct trace_reader *reader = load->reader;
	const uint64_t from = trace_reader_offset(reader);
	struct ht_err *err = trace_reader_continue(reader);
	while (!err && trace_reader_offset(reader) - from <= bytes) {
		struct rec rec;
		err = trace_reader_next(reader, &rec, &model->how_ended);
		if (err || model->how_ended != TRACE_MORE)
			break;
		err = take(load, &rec);
	}
	model->seen_bytes = trace_reader_seen(reader);
	model->is_growing = model->how_ended == TRACE_TRUNCATED && trace_reader_is_growing(reader);
	return err;
}

static struct ht_err *pass_rest(struct model_reading *load)
{
	struct model *model = load->model;
	/* Release what waited for the end of the window, or of an unfinished heap reading. */
	bool waits =
		load->heaps_ended < model->heap_count || (model->settle.is_there && !load->settles);
	if (!load->replay)
		return NULL;
	if (waits)
		HT_TRY(release(load, UINT64_MAX));
	return streams_finish(load->streams);
}

struct ht_err *model_reading_finish(struct model_reading *load)
{
	struct model *model = load->model;
	const char *problem = trace_reader_problem(load->reader);
	HT_TRY(pass_rest(load));
	if (trace_reader_records(load->reader) == 0)
		return ht_err_new(HT_ERR_FORMAT, "%s; no record of it can be read",
			problem ? problem : load->name);
	if (problem)
		HT_TRY(strings_intern(&model->strings,
			(struct rec_string){.data = problem, .length = __builtin_strlen(problem)},
			&model->problem));
	if (load->replay) {
		model->has_events = true;
		model->counts = *replay_counts(load->replay);
		model->counts.events += load->culled.events;
		model->culled_events = load->culled.events;
		model->counts.inferred_frees += load->culled.inferred_frees;
		model->counts.absorbed_frees += load->culled.absorbed_frees;
		model->counts.unknown_stacks += load->culled.unknown_stacks;
		model->damage = *streams_damage(load->streams);
	}
	end_pause(model);
	return load->replay ? replay_finish(load->replay) : NULL;
}

static struct ht_err *begin(struct model_reading *load, int fd)
{
	struct model *model = load->model;
	HT_TRY(trace_reader_create(fd, load->name, &load->reader));
	trace_reader_keep_columns(load->reader);
	if (model->limit_bytes)
		trace_reader_limit(load->reader, model->limit_bytes);
	if (load->observer.replay.allocated)
		HT_TRY(replay_create(&load->observer.replay, &model->threads, &model->nodes,
			&model->timebase, &load->replay));
	return streams_create(replay_events, replay_scout, load->replay, &load->streams);
}

struct ht_err *model_reading_create(struct model *model, int fd, const char *name,
	const struct model_observer *observer, struct model_reading **ret)
{
	struct model_reading *load = calloc(1, sizeof(*load));
	if (!load)
		return ht_err_new(HT_ERR_NOMEM, "out of memory to read %s", name);
	*load = (struct model_reading){.model = model, .observer = *observer, .name = name};
	struct ht_err *err = begin(load, fd);
	if (err)
		model_reading_destroy(load);
	else
		*ret = load;
	return err;
}

void model_reading_destroy(struct model_reading *load)
{
	if (!load)
		return;
	streams_destroy(load->streams);
	replay_destroy(load->replay);
	trace_reader_destroy(load->reader);
	free(load);
}

struct ht_err *model_load(
	struct model *model, int fd, const char *name, const struct model_observer *observer)
{
	struct model_reading *load = NULL;
	struct ht_err *err = model_reading_create(model, fd, name, observer, &load);
	HT_THEN(err, model_reading_continue(load, UINT64_MAX));
	HT_THEN(err, model_reading_finish(load));
	model_reading_destroy(load);
	return err;
}
