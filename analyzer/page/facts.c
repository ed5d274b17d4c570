/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/facts.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/export/json.h"
#include "analyzer/export/memory_json.h"
#include "analyzer/export/names.h"
#include "analyzer/export/report_json.h"
#include "analyzer/symbols/namespace.h"

static struct ht_err *out_of_memory(void)
{
	return ht_err_new(HT_ERR_NOMEM, "out of memory for the names of the page");
}

void page_facts_deinit(struct page_facts *facts)
{
	map_deinit(&facts->names.by_pointer);
	json_decref(facts->names.array);
	json_decref(facts->object);
	numbers_deinit(&facts->frames);
	free(facts->name);
	free(facts->file);
	free(facts->space);
	*facts = (struct page_facts){0};
}

/* --- names -------------------------------------------------------------------------------------
 */

static struct ht_err *add_name(struct page_names *names, const char *text, uint32_t *ret)
{
	*ret = names->count++;
	names->array = json_plus(names->array, json_text(text));
	return names->array ? NULL : out_of_memory();
}

/* The number + 1 of an interned string; NULL: 0. */
static struct ht_err *add_once(struct page_names *names, const char *text, uint32_t *ret)
{
	const uint64_t key = (uint64_t)(uintptr_t)text;
	char safe[NAMES_BYTES];
	*ret = 0;
	if (!text || map_get(&names->by_pointer, key, ret))
		return NULL;
	names_copy(safe, text);
	HT_TRY(add_name(names, safe, ret));
	return map_put(&names->by_pointer, key, ++*ret);
}

static struct ht_err *add_space(
	struct page_facts *facts, const struct view *view, const struct frame *frame, uint32_t *ret)
{
	char space[NAMESPACE_BYTES];
	const char *text = NULL;
	struct ht_err *err = NULL;
	if (namespace_of(frame->function, frame->file, space))
		err = strings_intern(&view->analysis->model.strings,
			(struct rec_string){.data = space, .length = strlen(space)}, &text);
	return err ? err : add_once(&facts->names, text, ret);
}

static struct ht_err *add_frame(struct page_facts *facts, const struct view *view, uint32_t node)
{
	const uint32_t group = view->tree.node[node].group, known = facts->frames.count;
	char text[NAMES_BYTES];
	if (group == UINT32_MAX)
		return NULL;
	const uint32_t number = numbers_get(&facts->frames, group);
	if (number < known)
		return NULL;
	names_node(view, node, text);
	const struct frame *frame = names_frame_of(view, node);
	HT_TRY(add_name(&facts->names, text, &facts->name[number]));
	HT_TRY(add_once(&facts->names, frame->file, &facts->file[number]));
	return add_space(facts, view, frame, &facts->space[number]);
}

static struct ht_err *add_frames(
	struct page_facts *facts, const struct view *view, const struct fold *fold)
{
	const size_t count = view->groups.count + 1;
	struct ht_err *err = NULL;
	facts->names.array = json_array();
	facts->name = calloc(count, sizeof(*facts->name));
	facts->file = calloc(count, sizeof(*facts->file));
	facts->space = calloc(count, sizeof(*facts->space));
	if (!facts->name || !facts->file || !facts->space)
		return out_of_memory();
	HT_TRY(numbers_init(&facts->frames, count, "frames"));
	for (uint32_t i = 0; i < fold->count && !err; i++)
		err = add_frame(facts, view, fold->node[i]);
	return err;
}

/* --- members -----------------------------------------------------------------------------------
 */

static json_t *functions_json(void)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < REPLAY_HOOKS; i++)
		array = json_plus(array, json_string(cube_function_name(i)));
	return array;
}

static json_t *threads_json(const struct view *view)
{
	const struct threads *threads = &view->analysis->model.threads;
	json_t *array = json_array();
	for (uint32_t i = 0; i < threads->count; i++) {
		char name[NAMES_BYTES];
		names_thread(view, i, name);
		array = json_plus(array,
			json_pack("[oo]", json_number(threads->thread[i].tid), json_text(name)));
	}
	return array;
}

static json_t *modules_json(const struct view *view)
{
	const struct modules *modules = &view->analysis->model.modules;
	json_t *array = json_array();
	for (uint32_t i = 0; i < modules->count; i++) {
		char name[NAMES_BYTES];
		names_module(view, i, name);
		array = json_plus(array,
			json_pack("[oo]", json_text(name), json_text(modules->module[i].build_id)));
	}
	return array;
}

/* The nodes of a suspect's chains that are on the page. */
static json_t *nodes_json(const struct view *view, const struct fold *fold,
	const struct suspects *suspects, const struct suspects_entry *entry)
{
	json_t *array = json_array();
	for (size_t i = 0; i < entry->chains; i++) {
		const uint32_t node = view->row[suspects->member[entry->first + i]].node;
		if (fold->node[fold->page_of[node]] == node)
			array = json_plus(array, json_number(fold->page_of[node]));
	}
	return array;
}

static json_t *suspects_json(
	const struct view *view, const struct fold *fold, const struct suspects *suspects)
{
	json_t *array = json_array();
	for (size_t i = 0; i < suspects->count; i++) {
		const struct suspect *suspect = &suspects->entry[i].suspect;
		array = json_plus(
			array, json_pack("{so ss sf sf so ss}", "nodes",
				       nodes_json(view, fold, suspects, &suspects->entry[i]),
				       "class", suspect_class_name(suspect->class),
				       "slope_bytes_per_s", suspect->slope_bytes_per_s,
				       "confidence", suspect->confidence, "oldest_ns",
				       json_number(suspect->oldest_ns), "text", suspect->text));
	}
	return array;
}

static json_t *metrics_json(void)
{
	json_t *array = json_array();
	for (enum metric i = 0; i < METRIC_COUNT; i++) {
		const struct metric_info *info = metric_info(i);
		array = json_plus(
			array, json_pack("[sis]", info->name, (int)info->unit, info->title));
	}
	return array;
}

/* Freed blocks and bytes of the whole trace, by the power of two of their life in ns; exact. */
static json_t *lifetimes_json(const struct cube *cube)
{
	json_t *blocks = json_array(), *bytes = json_array();
	for (unsigned i = 0; i < CUBE_SIZE_CLASSES; i++) {
		blocks = json_plus(blocks, json_number(cube->lifetime_blocks[i]));
		bytes = json_plus(bytes, json_number(cube->lifetime_bytes[i]));
	}
	return json_pack("{so so}", "blocks", blocks, "bytes", bytes);
}

static json_t *folded_json(const struct fold *fold)
{
	return json_pack("{so so so}", "nodes", json_number(fold->folded), "least_bytes",
		json_number(fold->least_bytes), "kept", json_number(fold->count));
}

/* The number of a source file's name + 1; 0: no frame on the page is in that file. */
static struct ht_err *number_of_file(
	struct page_facts *facts, const struct view *view, const json_t *source, uint32_t *ret)
{
	const char *path = json_string_value(json_object_get(source, "path")), *text = NULL;
	*ret = 0;
	if (!path)
		return NULL;
	HT_TRY(strings_intern(&view->analysis->model.strings,
		(struct rec_string){.data = path, .length = strlen(path)}, &text));
	map_get(&facts->names.by_pointer, (uint64_t)(uintptr_t)text, ret);
	return NULL;
}

/* Adds the text of files that have frames on the page. */
static struct ht_err *add_sources(
	struct page_facts *facts, const struct view *view, const json_t *sources)
{
	json_t *array = json_array(), *source;
	struct ht_err *err = NULL;
	size_t i;
	json_array_foreach(sources, i, source)
	{
		uint32_t file = 0;
		HT_THEN(err, number_of_file(facts, view, source, &file));
		if (!err && file)
			array = json_plus(
				array, json_with(json_copy(source), "file", json_number(file)));
	}
	facts->object = json_with(facts->object, "sources", array);
	return err;
}

static struct ht_err *add_more(
	struct page_facts *facts, const struct view *view, const struct page_more *more)
{
	if (more->diff)
		facts->object = json_with(facts->object, "diff", json_incref(more->diff));
	return more->sources ? add_sources(facts, view, more->sources) : NULL;
}

struct ht_err *page_facts_init(struct page_facts *facts, const struct view *view,
	const struct fold *fold, const struct suspects *suspects, const struct page_more *more)
{
	const struct analysis *analysis = view->analysis;
	const struct model *model = &analysis->model;
	json_t *warnings = NULL;
	*facts = (struct page_facts){0};
	struct ht_err *err = report_json_warnings(view, &warnings);
	HT_THEN(err, add_frames(facts, view, fold));
	if (err) {
		json_decref(warnings);
		return err;
	}
	facts->object = json_pack("{ss so so so so so so so so so so so so so so so so so sO}",
		"schema", "heaptap.page/1", "target", report_json_target(model), "capture",
		report_json_capture(model), "window", report_json_window(view), "totals",
		report_json_totals(view), "rss", memory_json_rss(analysis), "heap",
		report_json_heap(analysis), "marks", report_json_marks(model), "pauses",
		report_json_pauses(model), "settle", report_json_settle(model), "warnings",
		warnings, "functions", functions_json(), "threads", threads_json(view), "modules",
		modules_json(view), "suspects", suspects_json(view, fold, suspects), "metrics",
		metrics_json(), "lifetimes", lifetimes_json(&analysis->cube), "folded",
		folded_json(fold), "strings", facts->names.array);
	err = add_more(facts, view, more);
	return err || facts->object ? err : out_of_memory();
}
