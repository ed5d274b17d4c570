/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/report_json.h"

#include <stdlib.h>

#include "analyzer/export/json.h"
#include "analyzer/export/memory_json.h"
#include "analyzer/export/stacks_json.h"
#include "analyzer/views/parts.h"
#include "analyzer/views/warnings.h"
#include "format/array.h"

/* --- members of the report ------------------------------------------------------------------- */

json_t *report_json_target(const struct model *model)
{
	return json_pack("{so so so so so so}", "pid", json_number(model->target.pid), "comm",
		json_text(model->comm), "exe", json_text(model->exe), "uid",
		json_number(model->target.uid), "start_ticks",
		json_number(model->target.start_ticks), "kernel", json_text(model->kernel));
}

static const char *file_state(const struct model *model)
{
	switch (model->how_ended) {
	case TRACE_COMPLETE:
		return "complete";
	case TRACE_TRUNCATED:
		return model->is_growing ? "growing" : "cut";
	case TRACE_MORE:
	case TRACE_DAMAGED:
		break;
	}
	return "damaged";
}

static json_t *left_json(const struct model *model)
{
	static const char *const results[] = {"unchanged", "page", "code", "differs", "ended"};
	char text[MODEL_LEFT_BYTES];
	model_left_text(model, text);
	if (!model->has_left)
		return json_pack("{sn sn sn ss}", "result", "checks", "why", "text", text);
	return json_pack("{ss so so so}", "result", results[model->left], "checks",
		json_number(model->left_checks), "why", json_text(model->left_why), "text",
		json_text(text));
}

json_t *report_json_capture(const struct model *model)
{
	return json_pack("{so so so so so so ss so so so so so so so sb ss so}", "heaptap_version",
		json_text(model->heaptap_version), "sample_bytes",
		json_number(model->capture.sample_bytes), "cull_ns",
		json_number(model->capture.cull_ns), "culled_events",
		json_number(model->culled_events), "start_unix_ns",
		json_number(model->capture.start_unix_ns), "duration_ns",
		json_number(model->duration_ns), "ended", model_ended(model), "events",
		json_number(model->counts.events), "dropped_events",
		json_number(model_dropped_events(model)), "nested_events",
		json_number(model->counter[REC_COUNTER_NESTED]), "truncated_stacks",
		json_number(model_truncated_stacks(model)), "untapped",
		json_number(model->counter[REC_COUNTER_UNTAPPED]), "failed_calls",
		json_number(model->counter[REC_COUNTER_FAILED_CALLS]), "slots_tapped",
		json_number(model->capture.slots_tapped), "complete",
		model->how_ended == TRACE_COMPLETE, "file", file_state(model), "left",
		left_json(model));
}

/* Number of blocks from before the window that were freed in it. */
static uint64_t before_frees(const struct view *view)
{
	uint64_t count = 0;
	for (unsigned class = 0; class < CUBE_SIZE_CLASSES; class ++)
		for (uint32_t i = view->window.from; i < view->window.to; i++)
			count += view->analysis->cube.before[class][i];
	return count;
}

json_t *report_json_window(const struct view *view)
{
	return json_pack("{so so so sb sb}", "from_ns", json_number(view->from_ns), "to_ns",
		json_number(view->to_ns), "bucket_ns", json_number(view->analysis->cube.step_ns),
		"is_whole", view->is_whole, "is_snapped", view->is_snapped);
}

json_t *report_json_totals(const struct view *view)
{
	const struct cube *cube = &view->analysis->cube;
	json_t *totals = stacks_json_sums(view, &view->total);
	totals = json_with(totals, "before_frees", json_number(before_frees(view)));
	totals = json_with(totals, "before_freed_bytes",
		json_number_or_null(view->is_whole, cube->before_freed_bytes));
	totals = json_with(totals, "peak_bytes", json_number(view->peak.bytes));
	totals = json_with(totals, "peak_time_ns", json_number(view->peak.time_ns));
	return json_with(totals, "peak_is_estimate",
		json_boolean(!view->is_whole || cube->is_peak_estimate));
}

static json_t *account_json(const struct model_account *account)
{
	bool known = account->known;
	return json_pack("{so sb so so so so so}", "allocator", json_text(account->allocator),
		"known", known, "held_bytes", json_number_or_null(known, account->held_bytes),
		"off_bytes", json_number_or_null(known, account->off_bytes), "system_bytes",
		json_number_or_null(known, account->system_bytes), "arenas",
		json_number_or_null(known, account->arenas), "reason", json_text(account->reason));
}

static json_t *accounts_json(const struct model *model)
{
	json_t *array = json_array();
	for (size_t i = 0; model->heap_count && i < model->heap[0].account_count; i++)
		array = json_plus(array, account_json(&model->heap[0].account[i]));
	return array;
}

/* Adds the lower and the upper bound of a figure; the upper bound is null if unknown. */
static json_t *with_range(
	json_t *object, const char *least, const char *most, bool known, struct heap_range range)
{
	object = json_with(object, least, json_number_or_null(known, range.least_bytes));
	return json_with(
		object, most, json_number_or_null(known && range.is_known, range.most_bytes));
}

json_t *report_json_heap(const struct analysis *analysis)
{
	const struct heap *heap = &analysis->heap;
	bool known = heap->known, curve = heap->has_curve, end = heap->end_known;
	bool growth = heap->growth_known;
	json_t *object = json_pack("{sb so so so so so so so so so}", "known", known, "start_bytes",
		json_number_or_null(known, heap->start_bytes), "off_bytes",
		json_number_or_null(known, heap->off_bytes), "peak_bytes",
		json_number_or_null(curve, heap->peak_bytes), "peak_time_ns",
		json_number_or_null(curve, heap->peak_time_ns), "end_bytes",
		json_number_or_null(end, heap->end_bytes), "end_off_bytes",
		json_number_or_null(end, heap->end_off_bytes), "growth_bytes",
		json_signed_or_null(growth, heap->growth_bytes), "explained_bytes",
		json_signed_or_null(growth && curve, heap->explained_bytes), "accounts",
		accounts_json(&analysis->model));
	object = with_range(object, "start_least_bytes", "start_most_bytes", known,
		heap_range_of(heap->start_bytes, heap->off_bytes));
	object = with_range(
		object, "peak_least_bytes", "peak_most_bytes", curve, heap_peak_range(heap));
	return with_range(object, "end_least_bytes", "end_most_bytes", end, heap_end_range(heap));
}

/* `hook` PARTS_FOLDED: of folded stacks, whose function is unknown. */
static json_t *function_json(const struct view *view, unsigned hook, const struct sums *sums)
{
	static const struct cube_calls none;
	const bool is_folded = hook == PARTS_FOLDED, known = view->is_whole && !is_folded;
	const struct cube_calls *calls = is_folded ? &none : &view->analysis->cube.function[hook];
	return json_pack("{ss so so so so so}", "name",
		is_folded ? "(folded)" : cube_function_name(hook), "allocations",
		json_number(sums->allocations), "allocated_bytes",
		json_number(sums->allocated_bytes), "frees",
		json_number_or_null(known, calls->frees), "freed_bytes",
		json_number_or_null(known, calls->freed_bytes), "before_frees",
		json_number_or_null(known, calls->before_frees));
}

/* `frees` counts calls of this function. */
static struct ht_err *put_functions(struct json_writer *writer, const struct view *view)
{
	static const struct sums none;
	HT_FREED struct part *part = NULL;
	size_t count, next = 0;
	HT_TRY(parts_find(view, PARTS_FUNCTION, &part, &count));
	json_t *array = json_array();
	for (unsigned i = 0; i < REPLAY_HOOKS; i++) {
		const struct cube_calls *calls = &view->analysis->cube.function[i];
		const bool has_part = next < count && part[next].key == i;
		if (has_part || (view->is_whole && (calls->frees || calls->before_frees)))
			array = json_plus(
				array, function_json(view, i, has_part ? &part[next].sums : &none));
		next += has_part;
	}
	if (next < count)
		array = json_plus(array, function_json(view, PARTS_FOLDED, &part[next].sums));
	return json_put(writer, "functions", array);
}

static struct ht_err *put_sizes(struct json_writer *writer, const struct view *view)
{
	HT_FREED struct part *part = NULL;
	size_t count;
	HT_TRY(parts_find(view, PARTS_SIZE, &part, &count));
	json_t *array = json_array();
	for (size_t i = 0; i < count; i++) {
		json_t *class = stacks_json_sums(view, &part[i].sums);
		const bool is_known = part[i].key != PARTS_FOLDED;
		class = json_with(class, "from_bytes",
			json_number_or_null(is_known, is_known ? parts_size_from(part[i].key) : 0));
		class = json_with(class, "to_bytes",
			json_number_or_null(is_known, is_known ? parts_size_to(part[i].key) : 0));
		array = json_plus(array, class);
	}
	return json_put(writer, "sizes", array);
}

/* All names of a thread, in the order in which it first had them. */
static json_t *names_json(const struct threads *threads, uint32_t first)
{
	json_t *array = json_array();
	uint32_t at = first;
	do {
		if (threads->thread[at].name)
			array = json_plus(array, json_text(threads->thread[at].name));
		at = threads->thread[at].next;
	} while (at);
	return array;
}

/* `index` PARTS_FOLDED: of folded stacks, which have no frees of their own: each free counts for
 * its calling thread. */
static json_t *thread_json(const struct view *view, uint32_t index, const struct sums *sums)
{
	static const struct cube_calls none;
	const struct model *model = &view->analysis->model;
	const struct cube *cube = &view->analysis->cube;
	const struct cube_calls *calls = index < cube->thread_count ? &cube->thread[index] : &none;
	const struct thread *who = index == PARTS_FOLDED ? NULL : &model->threads.thread[index];
	const bool known = view->is_whole && who;
	bool is_assumed = false;
	const char *name =
		who ? threads_shown_name(&model->threads, index, model->comm, &is_assumed)
		    : "(folded)";
	json_t *object = stacks_json_sums(view, sums);
	object = json_with(object, "frees", json_number_or_null(known, calls->frees));
	object = json_with(object, "freed_bytes", json_number_or_null(known, calls->freed_bytes));
	object = json_with(object, "before_frees", json_number_or_null(known, calls->before_frees));
	object = json_with(object, "tid", json_number_or_null(who, who ? who->tid : 0));
	object = json_with(object, "name", json_text(name));
	object = json_with(object, "name_is_assumed", json_boolean(is_assumed));
	return json_with(
		object, "names", who ? names_json(&model->threads, who->first) : json_array());
}

/* `frees` counts calls by this thread. */
static struct ht_err *put_threads(struct json_writer *writer, const struct view *view)
{
	static const struct sums none;
	const struct cube *cube = &view->analysis->cube;
	HT_FREED struct part *part = NULL;
	size_t count, next = 0;
	HT_TRY(parts_find(view, PARTS_THREAD, &part, &count));
	json_t *array = json_array();
	for (uint32_t i = 0; i < view->analysis->model.threads.count; i++) {
		const bool has_part = next < count && part[next].key == i;
		const bool has_calls = view->is_whole && i < cube->thread_count &&
				       (cube->thread[i].frees || cube->thread[i].before_frees);
		if (has_part || has_calls)
			array = json_plus(
				array, thread_json(view, i, has_part ? &part[next].sums : &none));
		next += has_part;
	}
	if (next < count && part[next].key == PARTS_FOLDED)
		array = json_plus(array, thread_json(view, PARTS_FOLDED, &part[next].sums));
	return json_put(writer, "threads", array);
}

/* Adds the known figures of a process's memory, by the names of their kinds. */
static json_t *with_memory(json_t *object, const struct timeline_memory *memory)
{
	for (size_t kind = 0; kind < TIMELINE_MEMORY_KINDS; kind++)
		if (memory->is_known[kind])
			object = json_with(object, memory_kind_name(kind),
				kind == MEMORY_CGROUP_LIMIT &&
						memory->number[kind] == MEMORY_NO_LIMIT
					? json_null()
					: json_number(memory->number[kind]));
	return object;
}

static json_t *timeline_json(const struct view *view)
{
	const struct analysis *analysis = view->analysis;
	const struct timeline *timeline = &analysis->cube.timeline;
	/* Figures of the heap need all blocks, not only those that the query selects. */
	const struct timeline *whole = &analysis_whole(analysis)->timeline;
	bool has_heap = analysis->heap.known && analysis->heap.has_curve &&
			whole->step_ns == timeline->step_ns;
	bool is_sample = analysis->model.capture.sample_bytes != 0;
	json_t *array = json_array();
	for (uint32_t i = view->window.from; i < view->window.to; i++) {
		const struct timeline_step *step = &timeline->step[i];
		json_t *object = json_pack("{so so so so so so so so}", "time_ns",
			json_number((i + 1) * timeline->step_ns), "allocations",
			json_number(step->allocations), "allocated_bytes",
			json_number(step->allocated_bytes), "frees", json_number(step->frees),
			"freed_bytes", json_number(step->freed_bytes), "temporary",
			is_sample ? json_null() : json_number(step->temporary), "live_bytes",
			json_number(step->live_bytes), "live_max_bytes",
			json_number(step->live_max_bytes));
		if (has_heap)
			object = json_with(object, "heap_bytes",
				json_number(heap_bytes_at(&analysis->heap,
					whole->step[i].live_bytes, whole->step[i].before_bytes)));
		object = with_memory(object, &timeline->memory[i]);
		array = json_plus(array, object);
	}
	return array;
}

json_t *report_json_marks(const struct model *model)
{
	json_t *array = json_array();
	for (size_t i = 0; i < model->mark_count; i++)
		array = json_plus(
			array, json_pack("{so so}", "time_ns", json_number(model->mark[i].time_ns),
				       "text", json_text(model->mark[i].text)));
	return array;
}

json_t *report_json_pauses(const struct model *model)
{
	json_t *array = json_array();
	for (size_t i = 0; i < model->pause_count; i++)
		array = json_plus(array,
			json_pack("{so so}", "begin_ns", json_number(model->pause[i].begin_ns),
				"end_ns", json_number(model->pause[i].end_ns)));
	return array;
}

json_t *report_json_settle(const struct model *model)
{
	const struct model_settle *settle = &model->settle;
	if (!settle->is_there)
		return json_null();
	return json_pack("{so so so}", "begin_ns", json_number(settle->begin_ns), "end_ns",
		json_number(settle->end_ns), "wanted_ns", json_number(settle->wanted_ns));
}

struct ht_err *report_json_warnings(const struct view *view, json_t **ret)
{
	struct warnings warnings;
	HT_TRY(warnings_collect(view->analysis, &warnings));
	*ret = json_array();
	for (size_t i = 0; i < warnings.count; i++)
		*ret = json_plus(*ret, json_text(warnings.text[i]));
	warnings_deinit(&warnings);
	return NULL;
}

static struct ht_err *put_warnings(struct json_writer *writer, const struct view *view)
{
	json_t *warnings;
	HT_TRY(report_json_warnings(view, &warnings));
	return json_put(writer, "warnings", warnings);
}

static struct ht_err *put_facts(struct json_writer *writer, const struct view *view)
{
	const struct analysis *analysis = view->analysis;
	const struct model *model = &analysis->model;
	const struct {
		const char *name;
		json_t *value;
	} member[] = {
		{"schema", json_string("heaptap.report/2")},
		{"target", report_json_target(model)},
		{"capture", report_json_capture(model)},
		{"window", report_json_window(view)},
		{"totals", report_json_totals(view)},
		{"rss", memory_json_rss(analysis)},
		{"memory", memory_json_figures(analysis)},
		{"heap", report_json_heap(analysis)},
		{"timeline", timeline_json(view)},
		{"marks", report_json_marks(model)},
		{"pauses", report_json_pauses(model)},
		{"settle", report_json_settle(model)},
	};
	struct ht_err *err = NULL;
	for (size_t i = 0; i < HT_ARRAY_SIZE(member); i++) {
		if (err)
			json_decref(member[i].value);
		else
			err = json_put(writer, member[i].name, member[i].value);
	}
	return err;
}

struct ht_err *report_json_write(
	FILE *out, const struct view *view, const struct report_options *options)
{
	struct json_writer writer = {.out = out};
	struct ht_err *err = json_restrict(&writer, options->member);
	HT_THEN(err, put_facts(&writer, view));
	HT_THEN(err, put_functions(&writer, view));
	HT_THEN(err, put_sizes(&writer, view));
	HT_THEN(err, put_threads(&writer, view));
	HT_THEN(err, put_warnings(&writer, view));
	HT_THEN(err, stacks_json_write(&writer, view, options));
	json_restore(&writer);
	fputs("}\n", out);
	return err;
}
