/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/report_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/sites.h"
#include "analyzer/views/warnings.h"
#include "analyzer/export/memory_json.h"

#define DUMP_FLAGS (JSON_COMPACT | JSON_ENCODE_ANY)

/* The frames of a place are the same in every stack: built once. */
struct frame_cache {
	struct map by_place;
	json_t **frames; /* arrays */
	size_t count, capacity;
};

struct writer {
	FILE *out;
	struct analysis *analysis;
	struct frame_cache cache;
	struct sites sites;
	bool began;
};

static struct ht_err *no_memory(void)
{
	return ht_err_new(HT_ERR_NOMEM, "out of memory for the JSON report");
}

static json_t *number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* JSON strings are UTF-8: a byte that is not becomes a question mark. */
static json_t *text(const char *bytes)
{
	if (!bytes)
		return json_null();
	json_t *value = json_string(bytes);
	if (value)
		return value;
	char *copy = strdup(bytes);
	if (!copy)
		return NULL;
	for (char *at = copy; *at; at++)
		if ((unsigned char)*at >= 0x80)
			*at = '?';
	value = json_string(copy);
	free(copy);
	return value;
}

/* --- members of the report ------------------------------------------------------------------- */

static struct ht_err *dump(struct writer *writer, json_t *value)
{
	if (!value)
		return no_memory();
	int failed = json_dumpf(value, writer->out, DUMP_FLAGS);
	json_decref(value);
	return failed ? ht_err_sys(errno, "cannot write the report") : NULL;
}

static void begin_member(struct writer *writer, const char *name)
{
	fprintf(writer->out, "%s\"%s\":", writer->began ? ",\n" : "{", name);
	writer->began = true;
}

static struct ht_err *put(struct writer *writer, const char *name, json_t *value)
{
	begin_member(writer, name);
	return dump(writer, value);
}

static json_t *target_json(const struct model *model)
{
	return json_pack("{so so so so so so}", "pid", number(model->target.pid), "comm",
		text(model->comm), "exe", text(model->exe), "uid", number(model->target.uid),
		"start_ticks", number(model->target.start_ticks), "kernel", text(model->kernel));
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

static json_t *capture_json(const struct model *model)
{
	return json_pack("{so so so so ss so so so so so so so sb ss}", "heaptap_version",
		text(model->heaptap_version), "sample_bytes", number(model->capture.sample_bytes),
		"start_unix_ns", number(model->capture.start_unix_ns), "duration_ns",
		number(model->duration_ns), "ended", model_ended(model), "events",
		number(model->counts.events), "dropped_events", number(model_dropped_events(model)),
		"nested_events", number(model->counter[REC_COUNTER_NESTED]), "truncated_stacks",
		number(model_truncated_stacks(model)), "untapped",
		number(model->counter[REC_COUNTER_UNTAPPED]), "failed_calls",
		number(model->counter[REC_COUNTER_FAILED_CALLS]), "slots_tapped",
		number(model->capture.slots_tapped), "complete", model->how_ended == TRACE_COMPLETE,
		"file", file_state(model));
}

/* The members that every set of blocks has. */
static json_t *metrics_json(const struct profile *profile, const struct metrics *metrics)
{
	json_t *temporary = profile->sample_bytes ? json_null() : number(metrics->temporary);
	return json_pack("{so so so so so so so so}", "samples", number(metrics->samples),
		"allocations", number(metrics->allocations), "allocated_bytes",
		number(metrics->allocated_bytes), "frees", number(metrics->frees), "freed_bytes",
		number(metrics->freed_bytes), "temporary", temporary, "outstanding_blocks",
		number(metrics_outstanding_blocks(metrics)), "outstanding_bytes",
		number(metrics_outstanding_bytes(metrics)));
}

/* Sets one more member; keeps NULL (out of memory) as it is. */
static json_t *with(json_t *object, const char *name, json_t *value)
{
	if (object && value && json_object_set_new(object, name, value) == 0)
		return object;
	if (!object)
		json_decref(value);
	json_decref(object);
	return NULL;
}

/* Appends one element; keeps NULL (out of memory) as it is. */
static json_t *plus(json_t *array, json_t *value)
{
	if (array && json_array_append_new(array, value) == 0)
		return array;
	if (!array)
		json_decref(value);
	json_decref(array);
	return NULL;
}

static json_t *totals_json(const struct profile *profile)
{
	json_t *totals = metrics_json(profile, &profile->total);
	totals = with(totals, "before_frees", number(profile->before_frees));
	totals = with(totals, "before_freed_bytes", number(profile->before_freed_bytes));
	totals = with(totals, "peak_bytes", number(profile->peak_bytes));
	return with(totals, "peak_time_ns", number(profile->peak_time_ns));
}

static json_t *signed_or_null(bool known, int64_t value)
{
	return known ? json_integer(value) : json_null();
}

static json_t *number_or_null(bool known, uint64_t value)
{
	return known ? number(value) : json_null();
}

static json_t *account_json(const struct model_account *account)
{
	bool known = account->known;
	return json_pack("{so sb so so so so so}", "allocator", text(account->allocator), "known",
		known, "held_bytes", number_or_null(known, account->held_bytes), "off_bytes",
		number_or_null(known, account->off_bytes), "system_bytes",
		number_or_null(known, account->system_bytes), "arenas",
		number_or_null(known, account->arenas), "reason", text(account->reason));
}

static json_t *accounts_json(const struct model *model)
{
	json_t *array = json_array();
	for (size_t i = 0; model->heap_count && i < model->heap[0].account_count; i++)
		array = plus(array, account_json(&model->heap[0].account[i]));
	return array;
}

/* The least and the most that a figure can be; null: the most is not known. */
static json_t *with_range(
	json_t *object, const char *least, const char *most, bool known, struct heap_range range)
{
	object = with(object, least, number_or_null(known, range.least_bytes));
	return with(object, most, number_or_null(known && range.is_known, range.most_bytes));
}

static json_t *heap_json(const struct analysis *analysis)
{
	const struct heap *heap = &analysis->heap;
	bool known = heap->known, curve = heap->has_curve, end = heap->end_known;
	bool growth = heap->growth_known;
	json_t *object = json_pack("{sb so so so so so so so so so}", "known", known, "start_bytes",
		number_or_null(known, heap->start_bytes), "off_bytes",
		number_or_null(known, heap->off_bytes), "peak_bytes",
		number_or_null(curve, heap->peak_bytes), "peak_time_ns",
		number_or_null(curve, heap->peak_time_ns), "end_bytes",
		number_or_null(end, heap->end_bytes), "end_off_bytes",
		number_or_null(end, heap->end_off_bytes), "growth_bytes",
		signed_or_null(growth, heap->growth_bytes), "explained_bytes",
		signed_or_null(growth && curve, heap->explained_bytes), "accounts",
		accounts_json(&analysis->model));
	object = with_range(object, "start_least_bytes", "start_most_bytes", known,
		heap_range_of(heap->start_bytes, heap->off_bytes));
	object = with_range(
		object, "peak_least_bytes", "peak_most_bytes", curve, heap_peak_range(heap));
	return with_range(object, "end_least_bytes", "end_most_bytes", end,
		heap_range_of(heap->end_bytes, heap->end_off_bytes));
}

/* The members of a set of mappings. */
static json_t *mapped_json(const struct mappings_bytes *live, uint64_t made_bytes)
{
	return json_pack("{so so so so}", "made_bytes", number(made_bytes), "anonymous_bytes",
		number(live->anonymous), "file_bytes", number(live->file), "reserved_bytes",
		number(live->reserved));
}

static json_t *mappings_json(const struct mappings *mappings)
{
	const uint64_t *calls = mappings->calls;
	json_t *object = mapped_json(&mappings->live, mappings->made_bytes);
	object = with(object, "peak_bytes", number(mappings->peak_bytes));
	object = with(object, "peak_time_ns", number(mappings->peak_time_ns));
	object = with(object, "before_bytes", number(mappings->before_bytes));
	object = with(object, "advised_bytes", number(mappings->advised_bytes));
	object = with(object, "maps", number(calls[ABI_CALL_MAP]));
	object = with(object, "unmaps", number(calls[ABI_CALL_UNMAP]));
	object = with(object, "remaps", number(calls[ABI_CALL_MOVE_TO]));
	object = with(object, "protects", number(calls[ABI_CALL_PROTECT]));
	return with(object, "advices", number(calls[ABI_CALL_ADVISE]));
}

static json_t *functions_json(const struct profile *profile)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < REPLAY_HOOKS; i++) {
		const struct profile_function *function = &profile->function[i];
		if (!function->allocations && !function->frees && !function->before_frees)
			continue;
		array = plus(array,
			json_pack("{ss so so so so so}", "name", profile_function_name(i),
				"allocations", number(function->allocations), "allocated_bytes",
				number(function->allocated_bytes), "frees", number(function->frees),
				"freed_bytes", number(function->freed_bytes), "before_frees",
				number(function->before_frees)));
	}
	return array;
}

static json_t *sizes_json(const struct profile *profile)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < PROFILE_SIZE_CLASSES; i++) {
		const struct metrics *metrics = &profile->size_class[i];
		if (!metrics->allocations)
			continue;
		uint64_t from = i ? 1ull << (i - 1) : 0, to = i ? from + (from - 1) : 0;
		json_t *class = metrics_json(profile, metrics);
		class = with(class, "from_bytes", number(from));
		array = plus(array, with(class, "to_bytes", number(to)));
	}
	return array;
}

/* All names of a thread, in the order in which it had them first. */
static json_t *names_json(const struct threads *threads, uint32_t first)
{
	json_t *array = json_array();
	uint32_t at = first;
	do {
		if (threads->thread[at].name)
			array = plus(array, text(threads->thread[at].name));
		at = threads->thread[at].next;
	} while (at);
	return array;
}

static json_t *threads_json(const struct analysis *analysis)
{
	json_t *array = json_array();
	const struct profile *profile = &analysis->profile;
	const struct model *model = &analysis->model;
	for (size_t i = 0; i < profile->thread_count; i++) {
		const struct profile_thread *thread = &profile->thread[i];
		const struct thread *who = &model->threads.thread[i];
		if (!thread->metrics.allocations && !thread->frees && !thread->before_frees)
			continue;
		json_t *object = metrics_json(profile, &thread->metrics);
		object = with(object, "frees", number(thread->frees));
		object = with(object, "freed_bytes", number(thread->freed_bytes));
		object = with(object, "before_frees", number(thread->before_frees));
		object = with(object, "tid", number(who->tid));
		bool is_assumed;
		const char *name =
			threads_shown_name(&model->threads, (uint32_t)i, model->comm, &is_assumed);
		object = with(object, "name", text(name));
		object = with(object, "name_is_assumed", json_boolean(is_assumed));
		object = with(object, "names", names_json(&model->threads, who->first));
		array = plus(array, object);
	}
	return array;
}

static json_t *timeline_json(const struct analysis *analysis)
{
	const struct timeline *timeline = &analysis->timeline;
	bool is_sample = analysis->model.capture.sample_bytes != 0;
	json_t *array = json_array();
	for (size_t i = 0; i < timeline->count; i++) {
		const struct timeline_step *step = &timeline->step[i];
		json_t *object = json_pack("{so so so so so so so so}", "time_ns",
			number((i + 1) * timeline->step_ns), "allocations",
			number(step->allocations), "allocated_bytes", number(step->allocated_bytes),
			"frees", number(step->frees), "freed_bytes", number(step->freed_bytes),
			"temporary", is_sample ? json_null() : number(step->temporary),
			"live_bytes", number(step->live_bytes), "live_max_bytes",
			number(step->live_max_bytes));
		if (analysis->heap.known && analysis->heap.has_curve)
			object = with(object, "heap_bytes",
				number(heap_bytes_at(
					&analysis->heap, step->live_bytes, step->before_bytes)));
		if (step->has_rss)
			object = with(object, "rss_bytes", number(step->rss_bytes));
		array = plus(array, object);
	}
	return array;
}

static json_t *marks_json(const struct model *model)
{
	json_t *array = json_array();
	for (size_t i = 0; i < model->mark_count; i++)
		array = plus(array, json_pack("{so so}", "time_ns", number(model->mark[i].time_ns),
					    "text", text(model->mark[i].text)));
	return array;
}

static struct ht_err *put_warnings(struct writer *writer)
{
	struct warnings warnings;
	struct ht_err *err = warnings_collect(writer->analysis, &warnings);
	if (err)
		return err;
	json_t *array = json_array();
	for (size_t i = 0; i < warnings.count; i++)
		array = plus(array, text(warnings.text[i]));
	warnings_deinit(&warnings);
	return put(writer, "warnings", array);
}

/* --- stacks ------------------------------------------------------------------------------------
 */

static json_t *frame_json(const struct module *module, struct place place,
	const struct symbol_frame *frame, bool inlined)
{
	bool has_build_id = module && module->build_id[0];
	return json_pack("{so so so so so so sb sb}", "function", text(frame->function), "file",
		text(frame->file), "line", frame->line ? number(frame->line) : json_null(),
		"module", text(module ? module->path : NULL), "build_id",
		text(has_build_id ? module->build_id : NULL), "offset",
		place.interpreted ? json_null() : number(place.offset), "inlined", inlined,
		"line_is_first", symbols_line_is_first(place, frame));
}

static json_t *place_json(const struct analysis *analysis, struct place place)
{
	const struct module *module =
		place.module == MODULES_NONE ? NULL : &analysis->model.modules.module[place.module];
	static const struct symbol_frame unknown;
	uint32_t count;
	const struct symbol_frame *frame = symbols_find(&analysis->symbols, place, &count);
	if (count == 0) {
		frame = &unknown;
		count = 1;
	}
	json_t *array = json_array();
	for (uint32_t i = 0; i < count; i++)
		array = plus(array, frame_json(module, place, &frame[i], i + 1 < count));
	return array;
}

/* The frames of a place; borrowed from the cache. */
static struct ht_err *cached_frames(struct writer *writer, struct place place, const json_t **ret)
{
	struct frame_cache *cache = &writer->cache;
	uint64_t key;
	uint32_t index;
	bool has_key = place_key(place, &key);
	if (has_key && map_get(&cache->by_place, key, &index)) {
		*ret = cache->frames[index];
		return NULL;
	}
	struct ht_err *err = array_reserve(&cache->frames, &cache->capacity, cache->count + 1,
		sizeof(*cache->frames), "frames");
	if (err)
		return err;
	json_t *frames = place_json(writer->analysis, place);
	if (!frames)
		return no_memory();
	cache->frames[cache->count] = frames;
	if (has_key)
		err = map_put(&cache->by_place, key, (uint32_t)cache->count);
	cache->count++;
	*ret = frames;
	return err;
}

static struct ht_err *append_frames(struct writer *writer, uint32_t leaf, json_t *ret_frames)
{
	struct model *model = &writer->analysis->model;
	const struct node *node;
	for (uint32_t id = leaf; (node = nodes_get(&model->nodes, id)); id = node->parent) {
		struct place place;
		const json_t *frames = NULL;
		struct ht_err *err = place_of_node(&model->modules, node, &place);
		if (!err)
			err = cached_frames(writer, place, &frames);
		if (err)
			return err;
		for (size_t i = 0; i < json_array_size(frames); i++)
			if (json_array_append(ret_frames, json_array_get(frames, i)) != 0)
				return no_memory();
	}
	return NULL;
}

static json_t *calls_json(const struct profile_stack *stack)
{
	json_t *object = json_object();
	for (unsigned i = 0; i < REPLAY_HOOKS; i++)
		if (stack->calls[i])
			object = with(object, profile_function_name(i), number(stack->calls[i]));
	return object;
}

static struct ht_err *put_stack(struct writer *writer, const struct profile_stack *stack)
{
	struct site site;
	struct ht_err *err = sites_find(&writer->sites, stack->node, &site);
	if (err)
		return err;
	json_t *frames = json_array();
	err = append_frames(writer, stack->node, frames);
	if (err) {
		json_decref(frames);
		return err;
	}
	json_t *object = metrics_json(&writer->analysis->profile, &stack->metrics);
	object = with(object, "id", number(stack->node));
	object = with(object, "site", number(site.node));
	object = with(object, "wrappers", number(site.wrappers));
	object = with(object, "peak_bytes", number(stack->peak_bytes));
	object = with(object, "functions", calls_json(stack));
	return dump(writer, with(object, "frames", frames));
}

static struct ht_err *mapping_stack(
	struct writer *writer, const struct mappings_stack *stack, json_t **ret)
{
	json_t *frames = json_array();
	struct ht_err *err = append_frames(writer, stack->node, frames);
	if (err) {
		json_decref(frames);
		return err;
	}
	json_t *object = mapped_json(&stack->live, stack->made_bytes);
	object = with(object, "id", number(stack->node));
	object = with(object, "calls", number(stack->calls));
	object = with(object, "peak_bytes", number(stack->peak_bytes));
	*ret = with(object, "frames", frames);
	return NULL;
}

static struct ht_err *put_mappings(struct writer *writer, size_t limit)
{
	const struct mappings *mappings = &writer->analysis->mappings;
	size_t count = mappings->stack_count;
	uint32_t *order;
	if (!analysis_has_mappings(writer->analysis))
		return put(writer, "mappings", json_null());
	struct ht_err *err = mappings_order(mappings, &order);
	if (err)
		return err;
	json_t *stacks = json_array();
	for (size_t i = 0; i < count && !err && (!limit || i < limit); i++) {
		json_t *stack = NULL;
		err = mapping_stack(writer, &mappings->stack[order[i]], &stack);
		if (!err)
			stacks = plus(stacks, stack);
	}
	free(order);
	if (err) {
		json_decref(stacks);
		return err;
	}
	json_t *object = with(mappings_json(mappings), "stacks_total", number(count));
	return put(writer, "mappings", with(object, "stacks", stacks));
}

static struct ht_err *put_stacks(struct writer *writer, size_t limit)
{
	const struct profile *profile = &writer->analysis->profile;
	size_t count = profile->stack_count;
	struct ht_err *err = put(writer, "stacks_total", number(count));
	if (err)
		return err;
	uint32_t *order;
	err = profile_order(profile->stack, count, PROFILE_OUTSTANDING, &order);
	if (err)
		return err;
	if (limit && limit < count)
		count = limit;
	begin_member(writer, "stacks");
	fputc('[', writer->out);
	for (size_t i = 0; i < count && !err; i++) {
		fputs(i ? ",\n" : "\n", writer->out);
		err = put_stack(writer, &profile->stack[order[i]]);
	}
	fputc(']', writer->out);
	free(order);
	return err;
}

static struct ht_err *put_all(struct writer *writer, size_t limit)
{
	const struct analysis *analysis = writer->analysis;
	const struct model *model = &analysis->model;
	struct ht_err *err = put(writer, "schema", json_string("heaptap.report/1"));
	if (!err)
		err = put(writer, "target", target_json(model));
	if (!err)
		err = put(writer, "capture", capture_json(model));
	if (!err)
		err = put(writer, "totals", totals_json(&analysis->profile));
	if (!err)
		err = put(writer, "rss", memory_json_rss(analysis));
	if (!err)
		err = put(writer, "memory", memory_json_figures(analysis));
	if (!err)
		err = put(writer, "heap", heap_json(analysis));
	if (!err)
		err = put(writer, "functions", functions_json(&analysis->profile));
	if (!err)
		err = put(writer, "sizes", sizes_json(&analysis->profile));
	if (!err)
		err = put(writer, "threads", threads_json(analysis));
	if (!err)
		err = put(writer, "timeline", timeline_json(analysis));
	if (!err)
		err = put(writer, "marks", marks_json(model));
	if (!err)
		err = put_warnings(writer);
	if (!err)
		err = put_mappings(writer, limit);
	if (!err)
		err = put_stacks(writer, limit);
	fputs("}\n", writer->out);
	return err;
}

struct ht_err *report_json_write(
	FILE *out, struct analysis *analysis, size_t limit, bool shows_wrappers)
{
	struct writer writer = {.out = out, .analysis = analysis};
	struct ht_err *err = sites_init(&writer.sites, analysis, shows_wrappers);
	if (!err)
		err = put_all(&writer, limit);
	for (size_t i = 0; i < writer.cache.count; i++)
		json_decref(writer.cache.frames[i]);
	free(writer.cache.frames);
	map_deinit(&writer.cache.by_place);
	sites_deinit(&writer.sites);
	return err;
}
