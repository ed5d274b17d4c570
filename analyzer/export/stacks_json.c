/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/stacks_json.h"

#include <stdlib.h>

#include "analyzer/export/frame_numbers.h"
#include "analyzer/export/names.h"
#include "analyzer/views/parts.h"
#include "analyzer/views/stacks.h"
#include "analyzer/views/suspects.h"
#include "format/array.h"

#define FRAMES_MAX 16384u

/* Frames are numbered at their first use, so only frames of printed stacks get a number. */
struct stacks_writer {
	struct json_writer *json;
	const struct view *view;
	const struct report_options *options;
	bool *is_in; /* by node of the view's tree: --class keeps its row */
	struct frame_numbers frames;
};

/* The bounds, with the names of their figures. */
static json_t *bounds_json(const struct sums *sums)
{
	const struct {
		const char *name;
		int64_t bound;
	} list[] = {
		{"allocations", metric_bound(sums, METRIC_CALLS)},
		{"allocated_bytes", metric_bound(sums, METRIC_ALLOCATED)},
		{"freed_bytes", metric_bound(sums, METRIC_FREED)},
		{"outstanding_blocks", sums_outstanding_blocks_bound(sums)},
		{"outstanding_bytes", metric_bound(sums, METRIC_OUTSTANDING)},
		{"survivors_blocks", sums_surviving_blocks_bound(sums)},
		{"survivors_bytes", metric_bound(sums, METRIC_SURVIVORS)},
		{"growth_bytes", metric_bound(sums, METRIC_GROWTH)},
		{"live_bytes", metric_bound(sums, METRIC_LIVE)},
		{"peak_bytes", metric_bound(sums, METRIC_PEAK)},
	};
	json_t *object = json_object();
	for (size_t i = 0; i < HT_ARRAY_SIZE(list); i++)
		object = json_with(object, list[i].name, json_integer(list[i].bound));
	return object;
}

json_t *stacks_json_sums(const struct view *view, const struct sums *sums)
{
	const bool is_sample = view->analysis->cube.sample_bytes != 0;
	json_t *object = json_pack("{so so so so so so so so}", "samples",
		json_number(sums->samples), "allocations", json_number(sums->allocations),
		"allocated_bytes", json_number(sums->allocated_bytes), "frees",
		json_number(sums->frees), "freed_bytes", json_number(sums->freed_bytes),
		"temporary", is_sample ? json_null() : json_number(sums->temporary),
		"outstanding_blocks", json_number(sums_outstanding_blocks(sums)),
		"outstanding_bytes", json_number(sums_outstanding_bytes(sums)));
	object = json_with(object, "survivors_blocks", json_number(sums_surviving_blocks(sums)));
	object = json_with(object, "survivors_bytes", json_number(sums_surviving_bytes(sums)));
	object = json_with(object, "growth_bytes", json_integer(sums->growth_bytes));
	object = json_with(object, "live_bytes", json_integer(sums->live_bytes));
	object = json_with(object, "peak_bytes", json_number(sums->peak_bytes));
	if (is_sample)
		object = json_with(object, "bounds95", bounds_json(sums));
	return json_with(object, "mean_lifetime_ns",
		sums->frees ? json_integer(sums_mean_lifetime_ns(sums)) : json_null());
}

/* All frames of a stack, leaf first. No capture has more than FRAMES_MAX nodes in a stack; stacks
 * of a forged trace are cut there. */
static json_t *frames_of_stack(struct stacks_writer *writer, uint32_t leaf)
{
	const struct nodes *nodes = &writer->view->analysis->model.nodes;
	const struct node *node;
	uint32_t depth = 0;
	json_t *array = json_array();
	for (uint32_t id = leaf; depth < FRAMES_MAX && (node = nodes_get(nodes, id));
		id = node->parent, depth++) {
		const struct frames_place place =
			frames_of(&writer->view->frames, nodes_index(nodes, id));
		for (uint32_t i = 0; i < place.count; i++)
			array = json_plus(array,
				json_integer(frame_numbers_get(&writer->frames, place.first + i)));
	}
	return array;
}

static json_t *frame_json(const struct view *view, const struct frame *frame)
{
	const struct module *module = names_module_of(view, frame->module);
	const bool has_build_id = module && module->build_id[0];
	return json_pack("{so so so so so so sb sb}", "function", json_text(frame->function),
		"file", json_text(frame->file), "line",
		json_number_or_null(frame->line, frame->line), "module",
		json_text(module ? module->path : NULL), "build_id",
		json_text(has_build_id ? module->build_id : NULL), "offset",
		json_number_or_null(!frame->interpreted, frame->offset), "inlined", frame->inlined,
		"line_is_first", frame->line_is_first);
}

static struct ht_err *put_frames(struct stacks_writer *writer)
{
	const struct view *view = writer->view;
	struct ht_err *err = NULL;
	json_begin_array(writer->json, "frames");
	for (uint32_t i = 0; i < writer->frames.count && !err; i++)
		err = json_put_element(
			writer->json, frame_json(view, &view->frames.frame[writer->frames.met[i]]));
	json_end_array(writer->json);
	return err;
}

static json_t *calls_json(const struct stack *stack)
{
	json_t *object = json_object();
	for (unsigned i = 0; i < REPLAY_HOOKS; i++)
		if (stack->calls[i])
			object = json_with(
				object, cube_function_name(i), json_number(stack->calls[i]));
	return object;
}

static struct ht_err *put_stack(struct stacks_writer *writer, const struct stack *stack)
{
	const struct view *view = writer->view;
	json_t *object = stacks_json_sums(view, &stack->sums);
	object = json_with(object, "id", json_number(stack->node));
	object = json_with(object, "site", json_number(stacks_site(view, stack)));
	object = json_with(object, "wrappers", json_number(stacks_wrappers(view, stack)));
	object = json_with(object, "functions", calls_json(stack));
	object = json_with(object, "frames", frames_of_stack(writer, stack->node));
	return json_put_element(writer->json, object);
}

/* Keeps the stacks whose rows --class keeps; returns their number. */
static size_t choose_stacks(const struct stacks_writer *writer, struct stack *stack, size_t count)
{
	const struct view *view = writer->view;
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (writer->is_in[tree_leaf(
			    &view->tree, &view->analysis->model.nodes, stack[i].node)])
			stack[kept++] = stack[i];
	return kept;
}

static struct ht_err *put_stacks(struct stacks_writer *writer)
{
	const size_t limit = writer->options->limit;
	HT_FREED struct stack *stack = NULL;
	size_t count;
	HT_TRY(stacks_find(writer->view, writer->options->order, &stack, &count));
	count = choose_stacks(writer, stack, count);
	struct ht_err *err = json_put(writer->json, "stacks_total", json_number(count));
	json_begin_array(writer->json, "stacks");
	for (size_t i = 0; i < count && (!limit || i < limit) && !err; i++)
		err = put_stack(writer, &stack[i]);
	json_end_array(writer->json);
	return err;
}

/* --- suspects ----------------------------------------------------------------------------------
 */

static json_t *suspect_json(struct stacks_writer *writer, const struct suspects_entry *entry)
{
	const struct view *view = writer->view;
	const struct row *row = &view->row[entry->row];
	const struct suspect *suspect = &entry->suspect;
	const uint32_t site = row->count ? view->row_site[row->first] : 0;
	const uint32_t leaf = suspects_leaf_frame(view, row);
	json_t *object = json_pack("{ss so so so so so so so so sf sf so ss so so so so}", "class",
		suspect_class_name(suspect->class), "survivors_blocks",
		json_number(sums_surviving_blocks(&entry->sums)), "survivors_bytes",
		json_number(sums_surviving_bytes(&entry->sums)), "outstanding_bytes",
		json_number(sums_outstanding_bytes(&entry->sums)), "chains",
		json_number(entry->chains), "judged_chains", json_number(entry->judged),
		"outstanding_blocks", json_number(sums_outstanding_blocks(&entry->sums)),
		"allocated_bytes", json_number(entry->sums.allocated_bytes), "growth_bytes",
		json_integer(entry->sums.growth_bytes), "slope_bytes_per_s",
		suspect->slope_bytes_per_s, "confidence", suspect->confidence, "oldest_ns",
		json_number(suspect->oldest_ns), "text", suspect->text, "function",
		json_text(leaf == UINT32_MAX ? NULL : view->frames.frame[leaf].function), "file",
		json_text(leaf == UINT32_MAX ? NULL : view->frames.frame[leaf].file), "line",
		json_number_or_null(leaf != UINT32_MAX && view->frames.frame[leaf].line,
			leaf == UINT32_MAX ? 0 : view->frames.frame[leaf].line),
		"stack", frames_of_stack(writer, view->analysis->cube.site[site].node));
	return view->analysis->cube.sample_bytes
		       ? json_with(object, "bounds95", bounds_json(&entry->sums))
		       : object;
}

static bool is_chosen(const struct stacks_writer *writer, const struct suspect *suspect)
{
	return !writer->options->has_class || suspect->class == writer->options->of_class;
}

static void choose_rows(struct stacks_writer *writer, const struct suspects *suspects)
{
	const struct view *view = writer->view;
	for (size_t i = 0; i < view->tree.count; i++)
		writer->is_in[i] = !writer->options->has_class;
	for (size_t i = 0; i < suspects->count; i++)
		for (size_t k = 0; k < suspects->entry[i].chains; k++) {
			const uint32_t row = suspects->member[suspects->entry[i].first + k];
			writer->is_in[view->row[row].node] =
				is_chosen(writer, suspects_row_suspect(&suspects->entry[i], k));
		}
}

static struct ht_err *put_suspects(struct stacks_writer *writer)
{
	struct suspects suspects;
	HT_TRY(suspects_find(writer->view, &suspects));
	json_t *array = json_array();
	choose_rows(writer, &suspects);
	for (size_t i = 0; i < suspects.count; i++)
		if (is_chosen(writer, &suspects.entry[i].suspect))
			array = json_plus(array, suspect_json(writer, &suspects.entry[i]));
	suspects_deinit(&suspects);
	return json_put(writer->json, "suspects", array);
}

/* --- mappings ----------------------------------------------------------------------------------
 */

static json_t *mapped_json(const struct mappings_bytes *live, uint64_t made_bytes)
{
	return json_pack("{so so so so}", "made_bytes", json_number(made_bytes), "anonymous_bytes",
		json_number(live->anonymous), "file_bytes", json_number(live->file),
		"reserved_bytes", json_number(live->reserved));
}

static json_t *mappings_json(const struct mappings *mappings)
{
	const uint64_t *calls = mappings->calls;
	json_t *object = mapped_json(&mappings->live, mappings->made_bytes);
	object = json_with(object, "peak_bytes", json_number(mappings->peak_bytes));
	object = json_with(object, "peak_time_ns", json_number(mappings->peak_time_ns));
	object = json_with(object, "before_bytes", json_number(mappings->before_bytes));
	object = json_with(object, "advised_bytes", json_number(mappings->advised_bytes));
	object = json_with(object, "maps", json_number(calls[ABI_CALL_MAP]));
	object = json_with(object, "unmaps", json_number(calls[ABI_CALL_UNMAP]));
	object = json_with(object, "remaps", json_number(calls[ABI_CALL_MOVE_TO]));
	object = json_with(object, "protects", json_number(calls[ABI_CALL_PROTECT]));
	return json_with(object, "advices", json_number(calls[ABI_CALL_ADVISE]));
}

static json_t *mapping_stack(struct stacks_writer *writer, const struct mappings_stack *stack)
{
	json_t *object = mapped_json(&stack->live, stack->made_bytes);
	object = json_with(object, "id", json_number(stack->node));
	object = json_with(object, "calls", json_number(stack->calls));
	object = json_with(object, "peak_bytes", json_number(stack->peak_bytes));
	return json_with(object, "frames", frames_of_stack(writer, stack->node));
}

static struct ht_err *put_mappings(struct stacks_writer *writer)
{
	const size_t limit = writer->options->limit;
	const struct mappings *mappings = &writer->view->analysis->mappings;
	const size_t count = mappings->stack_count;
	HT_FREED uint32_t *order = NULL;
	if (!analysis_has_mappings(writer->view->analysis))
		return json_put(writer->json, "mappings", json_null());
	HT_TRY(mappings_order(mappings, &order));
	json_t *stacks = json_array();
	for (size_t i = 0; i < count && (!limit || i < limit); i++)
		stacks = json_plus(stacks, mapping_stack(writer, &mappings->stack[order[i]]));
	json_t *object = json_with(mappings_json(mappings), "stacks_total", json_number(count));
	return json_put(writer->json, "mappings", json_with(object, "stacks", stacks));
}

/* --- a table -----------------------------------------------------------------------------------
 */

static json_t *key_json(struct stacks_writer *writer, enum breakdown_by by,
	const struct breakdown_row *row, json_t *object)
{
	const struct view *view = writer->view;
	const struct threads *threads = &view->analysis->model.threads;
	bool is_assumed;
	switch (by) {
	case BREAKDOWN_SIZE: {
		const bool is_known = row->key != BREAKDOWN_OTHER;
		object = json_with(object, "least_bytes",
			json_number_or_null(is_known, is_known ? parts_size_from(row->key) : 0));
		return json_with(object, "most_bytes",
			json_number_or_null(is_known, is_known ? parts_size_to(row->key) : 0));
	}
	case BREAKDOWN_LIFETIME: {
		const bool is_freed = row->key != BREAKDOWN_LIFETIME_NEVER;
		object = json_with(object, "least_ns",
			json_number_or_null(is_freed, breakdown_life_from(row->key)));
		return json_with(object, "most_ns",
			json_number_or_null(is_freed, breakdown_life_to(row->key)));
	}
	case BREAKDOWN_THREAD: {
		const bool is_known = row->key < threads->count;
		object = json_with(object, "tid",
			json_number_or_null(
				is_known, is_known ? threads->thread[row->key].tid : 0));
		return json_with(object, "name",
			json_text(is_known ? threads_shown_name(threads, row->key,
						     view->analysis->model.comm, &is_assumed)
				  : row->key == BREAKDOWN_OTHER ? "(folded)"
								: NULL));
	}
	case BREAKDOWN_MODULE:
	case BREAKDOWN_NAMESPACE:
		return json_with(object, "name", json_text(row->name));
	case BREAKDOWN_FUNCTION:
	case BREAKDOWN_LINE:
	case BREAKDOWN_ADDRESS:
		break;
	}
	return json_with(object, "frame",
		row->key < view->frames.count
			? json_integer(frame_numbers_get(&writer->frames, row->key))
			: json_null());
}

static struct ht_err *put_breakdown(struct stacks_writer *writer)
{
	const struct report_options *options = writer->options;
	struct breakdown breakdown;
	if (!options->has_by)
		return NULL;
	HT_TRY(breakdown_find(writer->view, options->by, options->order, false, &breakdown));
	json_t *rows = json_array();
	for (size_t i = 0; i < breakdown.count && (!options->limit || i < options->limit); i++) {
		const struct breakdown_row *row = &breakdown.row[i];
		json_t *object = json_pack("{so so}", "own",
			stacks_json_sums(writer->view, &row->own), "inclusive",
			breakdown.has_inclusive ? stacks_json_sums(writer->view, &row->inclusive)
						: json_null());
		rows = json_plus(rows, key_json(writer, options->by, row, object));
	}
	json_t *object = json_pack("{so sb so}", "rows_total", json_number(breakdown.count),
		"is_estimate", breakdown.is_estimate, "rows", rows);
	breakdown_deinit(&breakdown);
	return json_put(writer->json, "breakdown", object);
}

struct ht_err *stacks_json_write(
	struct json_writer *json, const struct view *view, const struct report_options *options)
{
	struct stacks_writer writer = {.json = json, .view = view, .options = options};
	struct ht_err *err = NULL;
	writer.is_in = calloc(view->tree.count + 1, sizeof(*writer.is_in));
	if (!writer.is_in)
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", view->frames.count);
	HT_THEN(err, frame_numbers_init(&writer.frames, view));
	HT_THEN(err, put_suspects(&writer));
	HT_THEN(err, put_mappings(&writer));
	HT_THEN(err, put_stacks(&writer));
	HT_THEN(err, put_breakdown(&writer));
	HT_THEN(err, put_frames(&writer));
	frame_numbers_deinit(&writer.frames);
	free(writer.is_in);
	return err;
}
