/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/calls_json.h"

#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/export/csv_text.h"
#include "analyzer/export/names.h"
#include "analyzer/export/numbers.h"
#include "analyzer/views/function.h"
#include "format/foreign.h"

#define CSV_TEXT_BYTES 4096u

static const char *grouping_name(enum grouping grouping)
{
	static const char *const name[GROUPING_COUNT] = {
		[GROUPING_LINE] = "line",
		[GROUPING_FUNCTION] = "function",
		[GROUPING_ADDRESS] = "address",
		[GROUPING_MODULE] = "module",
		[GROUPING_NAMESPACE] = "namespace",
	};
	return name[grouping];
}

static const char *unit_name(enum metric metric)
{
	static const char *const name[] = {[METRIC_BYTES] = "bytes",
		[METRIC_COUNT_OF_BLOCKS] = "count",
		[METRIC_TIME_NS] = "ns"};
	return name[metric_info(metric)->unit];
}

/* --- groups ------------------------------------------------------------------------------------
 */

struct group_fields {
	const char *function, *file, *module, *name;
	bool has_line, has_offset;
	const struct frame *frame;
};

static struct group_fields fields_of(const struct calls *calls, uint32_t group)
{
	const struct view *view = calls->view;
	const struct frame *frame = &view->frames.frame[calls->groups.group[group].frame];
	const enum grouping grouping = calls->options.grouping;
	struct group_fields ret = {.name = calls->groups.group[group].name, .frame = frame};
	if (groups_are_coarse(&calls->groups))
		return ret;
	ret.function = frame->function;
	ret.file = frame->file;
	const struct module *module = names_module_of(view, frame->module);
	ret.module = module ? module->path : NULL;
	ret.has_line = frame->line && (grouping == GROUPING_LINE || grouping == GROUPING_ADDRESS);
	ret.has_offset = !frame->interpreted && (!frame->function || grouping == GROUPING_ADDRESS);
	return ret;
}

json_t *calls_json_group(const struct calls *calls, uint32_t group)
{
	const struct group_fields fields = fields_of(calls, group);
	return json_pack("{so so so so so so}", "function", json_text(fields.function), "file",
		json_text(fields.file), "line",
		json_number_or_null(fields.has_line, fields.frame->line), "module",
		json_text(fields.module), "offset",
		json_number_or_null(fields.has_offset, fields.frame->offset), "name",
		json_text(fields.name));
}

json_t *calls_json_sum(json_t *object, const struct calls *calls, const struct calls_sum *sum)
{
	object = json_with(object, "total", json_integer(sum->inclusive.value));
	object = json_with(object, "own", json_integer(sum->own.value));
	if (!calls->is_sample)
		return object;
	object = json_with(object, "total_bound95", json_integer(figure_bound(sum->inclusive)));
	return json_with(object, "own_bound95", json_integer(figure_bound(sum->own)));
}

void calls_csv_bounds(FILE *out, const struct calls *calls, const struct calls_sum *sum)
{
	if (calls->is_sample)
		fprintf(out, ",%" PRIi64 ",%" PRIi64, figure_bound(sum->inclusive),
			figure_bound(sum->own));
}

void calls_csv_bounds_head(FILE *out, const struct calls *calls)
{
	if (calls->is_sample)
		fputs(",total_bound95,own_bound95", out);
}

void calls_csv_text(FILE *out, const char *text)
{
	char copy[CSV_TEXT_BYTES];
	if (!text)
		return;
	foreign_copy(copy, sizeof(copy), text);
	csv_put_text(out, copy);
}

void calls_csv_number(FILE *out, bool is_known, uint64_t number)
{
	if (is_known)
		fprintf(out, "%" PRIu64, number);
}

void calls_csv_group(FILE *out, const struct calls *calls, uint32_t group)
{
	const struct group_fields fields = fields_of(calls, group);
	char name[FUNCTION_NAME_BYTES];
	function_name(calls->view, fields.frame, name);
	calls_csv_text(out, fields.name ? fields.name : name);
	putc(',', out);
	calls_csv_text(out, fields.file);
	putc(',', out);
	calls_csv_number(out, fields.has_line, fields.frame->line);
	putc(',', out);
	calls_csv_text(out, fields.module);
}

struct ht_err *calls_json_head(
	struct json_writer *json, const char *schema, const struct calls *calls)
{
	const struct view *view = calls->view;
	const enum metric metric = calls->options.metric;
	struct ht_err *err = json_put(json, "schema", json_text(schema));
	HT_THEN(err, json_put(json, "metric", json_text(metric_info(metric)->name)));
	HT_THEN(err, json_put(json, "unit", json_text(unit_name(metric))));
	HT_THEN(err, json_put(json, "is_exact",
			     json_boolean(metric_is_exact(metric, view->is_whole) &&
					  !view->analysis->cube.sample_bytes)));
	HT_THEN(err, json_put(json, "window",
			     json_pack("{so so}", "from_ns", json_number(view->from_ns), "to_ns",
				     json_number(view->to_ns))));
	HT_THEN(err, json_put(json, "total", json_integer(calls->total[0].value)));
	return err || !calls->is_sample ? err
					: json_put(json, "total_bound95",
						  json_integer(figure_bound(calls->total[0])));
}

/* --- the walk ----------------------------------------------------------------------------------
 */

/* One entry of the output: a node, or the sum of children that were left out. */
struct entry {
	uint32_t node; /* 0 if `more` is not 0: the entry is a sum of `more` nodes */
	uint64_t parent, more;
	uint32_t depth;
	struct figure total;
};

struct walk {
	const struct calls *calls;
	size_t limit;
	uint32_t *next;	  /* by node: the child to visit next */
	uint64_t *number; /* by node: its number in the output */
	uint64_t count;
	struct ht_err *(*put)(void *context, const struct entry *entry);
	void *context;
};

static struct ht_err *put_more(struct walk *walk, uint32_t node, uint32_t depth)
{
	const struct calls *calls = walk->calls;
	const struct calls_children *children = &calls->children[node];
	struct entry entry = {.parent = walk->number[node], .depth = depth + 1};
	for (uint32_t i = walk->next[node]; i < children->count; i++) {
		const uint32_t child = calls->child[children->first + i];
		figure_add(&entry.total, calls->total[child]);
		entry.more++;
	}
	walk->next[node] = children->count;
	walk->count++;
	return walk->put(walk->context, &entry);
}

static struct ht_err *put_node(struct walk *walk, uint32_t node, uint32_t depth)
{
	const struct calls *calls = walk->calls;
	const struct entry entry = {.node = node,
		.parent = walk->number[calls->tree.node[node].parent],
		.depth = depth,
		.total = calls->total[node]};
	walk->number[node] = walk->count++;
	return walk->put(walk->context, &entry);
}

static struct ht_err *walk_all(struct walk *walk)
{
	const struct calls *calls = walk->calls;
	uint32_t at = 0, depth = 0;
	struct ht_err *err = put_node(walk, 0, 0);
	while (!err) {
		const struct calls_children *children = &calls->children[at];
		if (walk->next[at] >= children->count) {
			if (!at)
				break;
			at = calls->tree.node[at].parent;
			depth--;
		} else if (walk->limit && walk->next[at] == walk->limit) {
			err = put_more(walk, at, depth);
		} else {
			at = calls->child[children->first + walk->next[at]++];
			err = put_node(walk, at, ++depth);
		}
	}
	return err;
}

static struct ht_err *walk_begin(struct walk *walk)
{
	const size_t nodes = walk->calls->tree.count;
	walk->next = calloc(nodes, sizeof(*walk->next));
	walk->number = calloc(nodes, sizeof(*walk->number));
	return walk->next && walk->number
		       ? NULL
		       : ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", nodes);
}

static void walk_end(struct walk *walk)
{
	free(walk->next);
	free(walk->number);
}

/* --- JSON --------------------------------------------------------------------------------------
 */

struct json_tree {
	struct json_writer json;
	const struct calls *calls;
	struct numbers frames; /* by group */
};

static json_t *frame_number(struct json_tree *tree, uint32_t node)
{
	const uint32_t group = tree->calls->tree.node[node].group;
	return group == UINT32_MAX ? json_null() : json_number(numbers_get(&tree->frames, group));
}

static struct ht_err *put_json(void *context, const struct entry *entry)
{
	struct json_tree *tree = context;
	const bool is_node = !entry->more, is_root = is_node && !entry->node;
	json_t *object = json_pack("{so so so so so}", "parent",
		json_number_or_null(!is_root, entry->parent), "frame",
		is_node ? frame_number(tree, entry->node) : json_null(), "total",
		json_integer(entry->total.value), "own",
		json_signed_or_null(is_node, tree->calls->own[entry->node].value), "more",
		json_number(entry->more));
	if (tree->calls->is_sample)
		object = json_with(
			object, "total_bound95", json_integer(figure_bound(entry->total)));
	if (tree->calls->is_sample)
		object = json_with(object, "own_bound95",
			json_signed_or_null(is_node, figure_bound(tree->calls->own[entry->node])));
	return json_put_element(&tree->json, object);
}

static struct ht_err *put_frames(struct json_tree *tree)
{
	struct ht_err *err = NULL;
	json_begin_array(&tree->json, "frames");
	for (uint32_t i = 0; i < tree->frames.count && !err; i++)
		err = json_put_element(
			&tree->json, calls_json_group(tree->calls, tree->frames.index[i]));
	json_end_array(&tree->json);
	return err;
}

static struct ht_err *write_json(struct json_tree *tree, struct walk *walk)
{
	const struct calls *calls = tree->calls;
	HT_TRY(calls_json_head(&tree->json, "heaptap.tree/1", calls));
	HT_TRY(json_put(&tree->json, "bottom_up", json_boolean(calls->options.is_bottom_up)));
	HT_TRY(json_put(&tree->json, "by", json_text(grouping_name(calls->options.grouping))));
	HT_TRY(json_put(&tree->json, "cut_chains", json_number(calls->cut)));
	json_begin_array(&tree->json, "nodes");
	struct ht_err *err = walk_all(walk);
	json_end_array(&tree->json);
	HT_THEN(err, put_frames(tree));
	fputs("}\n", tree->json.out);
	return err;
}

struct ht_err *calls_json_write(FILE *out, const struct calls *calls, size_t limit)
{
	struct json_tree tree = {.json = {.out = out}, .calls = calls};
	struct walk walk = {.calls = calls, .limit = limit, .put = put_json, .context = &tree};
	struct ht_err *err = walk_begin(&walk);
	HT_THEN(err, numbers_init(&tree.frames, calls->groups.count, "functions"));
	HT_THEN(err, write_json(&tree, &walk));
	numbers_deinit(&tree.frames);
	walk_end(&walk);
	return err;
}

/* --- comma-separated values --------------------------------------------------------------------
 */

struct csv_tree {
	FILE *out;
	const struct calls *calls;
	uint64_t count;
};

static struct ht_err *put_csv(void *context, const struct entry *entry)
{
	struct csv_tree *tree = context;
	const bool is_node = !entry->more, is_root = is_node && !entry->node;
	const uint32_t group = tree->calls->tree.node[entry->node].group;
	FILE *out = tree->out;
	fprintf(out, "%" PRIu64 ",", tree->count++);
	calls_csv_number(out, !is_root, entry->parent);
	fprintf(out, ",%" PRIu32 ",%" PRIi64 ",", entry->depth, entry->total.value);
	if (is_node)
		fprintf(out, "%" PRIi64, tree->calls->own[entry->node].value);
	fprintf(out, ",%" PRIu64 ",", entry->more);
	if (is_node && group != UINT32_MAX)
		calls_csv_group(out, tree->calls, group);
	else
		fputs(is_root ? "all,,," : is_node ? "other,,," : "more,,,", out);
	if (tree->calls->is_sample)
		fprintf(out, ",%" PRIi64, figure_bound(entry->total));
	if (tree->calls->is_sample && is_node)
		fprintf(out, ",%" PRIi64, figure_bound(tree->calls->own[entry->node]));
	else if (tree->calls->is_sample)
		fputc(',', out);
	fputs("\n", out);
	return NULL;
}

struct ht_err *calls_csv_write(FILE *out, const struct calls *calls, size_t limit)
{
	struct csv_tree tree = {.out = out, .calls = calls};
	struct walk walk = {.calls = calls, .limit = limit, .put = put_csv, .context = &tree};
	struct ht_err *err = walk_begin(&walk);
	fprintf(out, "node,parent,depth,total,own,more,function,file,line,module%s\n",
		calls->is_sample ? ",total_bound95,own_bound95" : "");
	HT_THEN(err, walk_all(&walk));
	walk_end(&walk);
	return err;
}
