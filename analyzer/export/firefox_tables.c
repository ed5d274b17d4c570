/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/firefox_tables.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/names.h"
#include "format/array.h"

#define CATEGORY_NATIVE	    1u
#define CATEGORY_JAVASCRIPT 2u
#define BUILD_ID_DIGITS	    32u /* hexadecimal digits of a GUID */

struct ht_err *firefox_tables_init(struct firefox_tables *tables, const struct view *view)
{
	const size_t nodes = nodes_total(&view->analysis->model.nodes);
	const size_t frames = view->frames.count;
	const size_t modules = view->analysis->model.modules.count;
	*tables = (struct firefox_tables){.view = view};
	tables->stack_of = calloc(nodes + 1, sizeof(*tables->stack_of));
	tables->scratch = calloc(nodes + 1, sizeof(*tables->scratch));
	tables->number_of = calloc(frames + 1, sizeof(*tables->number_of));
	tables->frame = calloc(frames + 1, sizeof(*tables->frame));
	tables->function_of = calloc(frames + 1, sizeof(*tables->function_of));
	tables->lib_of = calloc(modules + 1, sizeof(*tables->lib_of));
	tables->lib = calloc(modules + 1, sizeof(*tables->lib));
	if (tables->stack_of && tables->scratch && tables->number_of && tables->frame &&
		tables->function_of && tables->lib_of && tables->lib)
		return NULL;
	return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", frames);
}

void firefox_tables_deinit(struct firefox_tables *tables)
{
	pool_deinit(&tables->pool);
	map_deinit(&tables->by_name);
	map_deinit(&tables->by_lib);
	map_deinit(&tables->source_of);
	free(tables->stack_of);
	free(tables->stack);
	free(tables->number_of);
	free(tables->frame);
	free(tables->function_of);
	free(tables->function);
	free(tables->source);
	free(tables->lib_of);
	free(tables->lib);
	free(tables->scratch);
}

/* --- numbers -----------------------------------------------------------------------------------
 */

static struct ht_err *number_source(struct firefox_tables *tables, const char *file, uint32_t *ret)
{
	char name[NAMES_BYTES];
	uint32_t string;
	*ret = 0;
	if (!file)
		return NULL;
	names_copy(name, file);
	struct ht_err *err = pool_number(&tables->pool, name, &string);
	if (err || map_get(&tables->source_of, string, ret))
		return err;
	HT_TRY(array_reserve(&tables->source, &tables->source_capacity, tables->source_count + 1,
		sizeof(*tables->source), "files"));
	tables->source[tables->source_count++] = string;
	*ret = (uint32_t)tables->source_count;
	return map_put(&tables->source_of, string, *ret);
}

static uint32_t number_lib(struct firefox_tables *tables, uint32_t module)
{
	if (module == MODULES_NONE)
		return 0;
	if (!tables->lib_of[module]) {
		tables->lib[tables->lib_count++] = module;
		tables->lib_of[module] = (uint32_t)tables->lib_count;
	}
	return tables->lib_of[module];
}

static struct ht_err *find_function(
	struct firefox_tables *tables, const struct firefox_function *wanted, uint32_t *ret)
{
	const uint64_t name = (uint64_t)wanted->name << 32 | wanted->source;
	uint32_t pair;
	struct ht_err *err = NULL;
	if (!map_get(&tables->by_name, name, &pair)) {
		pair = tables->pair_count++;
		err = map_put(&tables->by_name, name, pair);
	}
	const uint64_t key = (uint64_t)pair << 32 | wanted->lib;
	if (err || map_get(&tables->by_lib, key, ret))
		return err;
	HT_TRY(array_reserve(&tables->function, &tables->function_capacity,
		tables->function_count + 1, sizeof(*tables->function), "functions"));
	*ret = (uint32_t)tables->function_count++;
	tables->function[*ret] = *wanted;
	return map_put(&tables->by_lib, key, *ret);
}

static struct ht_err *number_function(
	struct firefox_tables *tables, const struct frame *frame, uint32_t *ret)
{
	struct firefox_function function = {
		.lib = number_lib(tables, frame->module),
		.is_script = frame->interpreted || frame->line_is_first,
	};
	char name[NAMES_BYTES];
	names_frame(tables->view, frame, name);
	HT_TRY(pool_number(&tables->pool, name, &function.name));
	HT_TRY(number_source(tables, frame->file, &function.source));
	return find_function(tables, &function, ret);
}

static struct ht_err *number_frame(struct firefox_tables *tables, uint32_t frame, uint32_t *ret)
{
	struct ht_err *err = NULL;
	if (!tables->number_of[frame]) {
		const size_t at = tables->frame_count;
		err = number_function(
			tables, &tables->view->frames.frame[frame], &tables->function_of[at]);
		tables->frame[at] = frame;
		tables->number_of[frame] = (uint32_t)++tables->frame_count;
	}
	*ret = tables->number_of[frame] - 1;
	return err;
}

/* One stack for each frame of a node, the outermost first. */
static struct ht_err *add_node(struct firefox_tables *tables, uint32_t id, uint32_t prefix)
{
	const uint32_t index = nodes_index(&tables->view->analysis->model.nodes, id);
	const struct frames_place place = frames_of(&tables->view->frames, index);
	struct ht_err *err = NULL;
	for (uint32_t i = place.count; i-- > 0 && !err;) {
		struct firefox_stack stack = {.prefix = prefix};
		err = number_frame(tables, place.first + i, &stack.frame);
		HT_THEN(err, array_reserve(&tables->stack, &tables->stack_capacity,
				     tables->stack_count + 1, sizeof(*tables->stack), "stacks"));
		if (err)
			break;
		tables->stack[tables->stack_count++] = stack;
		prefix = (uint32_t)tables->stack_count;
	}
	tables->stack_of[index] = prefix;
	return err;
}

struct ht_err *firefox_tables_stack(struct firefox_tables *tables, uint32_t leaf, uint32_t *ret)
{
	const struct nodes *nodes = &tables->view->analysis->model.nodes;
	const struct node *node = nodes_get(nodes, leaf);
	struct ht_err *err = NULL;
	size_t depth = 0;
	*ret = 0;
	if (!node)
		return NULL;
	for (uint32_t id = leaf; node && !tables->stack_of[nodes_index(nodes, id)];
		node = nodes_get(nodes, id)) {
		tables->scratch[depth++] = id;
		id = node->parent;
	}
	while (depth-- > 0 && !err) {
		const uint32_t id = tables->scratch[depth];
		const uint32_t parent = nodes_get(nodes, id)->parent;
		const bool has_parent = nodes_get(nodes, parent) != NULL;
		err = add_node(
			tables, id, has_parent ? tables->stack_of[nodes_index(nodes, parent)] : 0);
	}
	*ret = tables->stack_of[nodes_index(nodes, leaf)];
	return err;
}

/* --- columns -----------------------------------------------------------------------------------
 */

/* Writes `count` values as a column; `put` writes the value `at`. */
static void put_column(FILE *out, const char *name, const struct firefox_tables *tables,
	size_t count, void (*put)(FILE *out, const struct firefox_tables *tables, size_t at))
{
	fprintf(out, ",\n\"%s\":[", name);
	for (size_t i = 0; i < count; i++) {
		if (i)
			putc(',', out);
		put(out, tables, i);
	}
	putc(']', out);
}

static void put_index(FILE *out, uint32_t index_plus_1)
{
	if (index_plus_1)
		fprintf(out, "%" PRIu32, index_plus_1 - 1);
	else
		fputs("null", out);
}

static void put_null(FILE *out, const struct firefox_tables *tables, size_t at)
{
	(void)tables;
	(void)at;
	fputs("null", out);
}

static void put_stack_frame(FILE *out, const struct firefox_tables *tables, size_t at)
{
	fprintf(out, "%" PRIu32, tables->stack[at].frame);
}

static void put_stack_prefix(FILE *out, const struct firefox_tables *tables, size_t at)
{
	put_index(out, tables->stack[at].prefix);
}

static const struct frame *frame_at(const struct firefox_tables *tables, size_t at)
{
	return &tables->view->frames.frame[tables->frame[at]];
}

/* The address relative to the library; -1 for code in no library, whose addresses mean nothing in
 * another run. */
static void put_frame_address(FILE *out, const struct firefox_tables *tables, size_t at)
{
	const struct frame *frame = frame_at(tables, at);
	const struct modules *modules = &tables->view->analysis->model.modules;
	if (frame->module == MODULES_NONE) {
		fputs("-1", out);
		return;
	}
	const uint64_t address = names_address(tables->view, frame);
	const uint64_t lo = modules->module[frame->module].lo;
	fprintf(out, "%" PRIu64, address > lo && address - lo < INT32_MAX ? address - lo : 0);
}

/* Inline depth: 0 for the outermost frame of an address, which is the last of its place. */
static void put_frame_depth(FILE *out, const struct firefox_tables *tables, size_t at)
{
	const struct frames *frames = &tables->view->frames;
	uint32_t depth = 0;
	for (uint32_t i = tables->frame[at]; frames->frame[i].inlined && depth < UINT8_MAX; i++)
		depth++;
	fprintf(out, "%" PRIu32, depth);
}

static void put_frame_category(FILE *out, const struct firefox_tables *tables, size_t at)
{
	const bool is_script = tables->function[tables->function_of[at]].is_script;
	fprintf(out, "%u", is_script ? CATEGORY_JAVASCRIPT : CATEGORY_NATIVE);
}

static void put_zero(FILE *out, const struct firefox_tables *tables, size_t at)
{
	(void)tables;
	(void)at;
	putc('0', out);
}

static void put_frame_function(FILE *out, const struct firefox_tables *tables, size_t at)
{
	fprintf(out, "%" PRIu32, tables->function_of[at]);
}

static void put_frame_line(FILE *out, const struct firefox_tables *tables, size_t at)
{
	const uint32_t line = frame_at(tables, at)->line;
	put_index(out, line ? line + 1 : 0);
}

static void put_function_name(FILE *out, const struct firefox_tables *tables, size_t at)
{
	fprintf(out, "%" PRIu32, tables->function[at].name);
}

static void put_function_is_script(FILE *out, const struct firefox_tables *tables, size_t at)
{
	fputs(tables->function[at].is_script ? "true" : "false", out);
}

static void put_function_resource(FILE *out, const struct firefox_tables *tables, size_t at)
{
	fprintf(out, "%" PRIi64, (int64_t)tables->function[at].lib - 1);
}

static void put_function_source(FILE *out, const struct firefox_tables *tables, size_t at)
{
	put_index(out, tables->function[at].source);
}

static void put_resource_lib(FILE *out, const struct firefox_tables *tables, size_t at)
{
	(void)tables;
	fprintf(out, "%zu", at);
}

static void put_source_name(FILE *out, const struct firefox_tables *tables, size_t at)
{
	fprintf(out, "%" PRIu32, tables->source[at]);
}

static void put_one(FILE *out, const struct firefox_tables *tables, size_t at)
{
	(void)tables;
	(void)at;
	putc('1', out);
}

static void put_string(FILE *out, const struct firefox_tables *tables, size_t at)
{
	names_put_json(out, tables->pool.text[at]);
}

/* --- libraries ---------------------------------------------------------------------------------
 */

/* Breakpad takes the first 16 bytes of a build-id for a GUID, whose first three numbers are little-
 * endian, and appends an age. */
static void breakpad_id(char to[BUILD_ID_DIGITS + 2], const char *build_id)
{
	static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
	const size_t length = strlen(build_id);
	for (size_t i = 0; i < BUILD_ID_DIGITS; i++) {
		const size_t from = 2u * order[i / 2] + i % 2;
		to[i] = (char)(from < length && isxdigit((unsigned char)build_id[from])
				       ? toupper((unsigned char)build_id[from])
				       : '0');
	}
	memcpy(to + BUILD_ID_DIGITS, "0", 2);
}

static void put_lib(FILE *out, const struct firefox_tables *tables, size_t at)
{
	const struct module *module =
		&tables->view->analysis->model.modules.module[tables->lib[at]];
	char path[NAMES_BYTES], id[BUILD_ID_DIGITS + 2];
	names_copy(path, module->path);
	breakpad_id(id, module->build_id);
	fputs("\n{\"arch\":\"x86_64\",\"name\":", out);
	names_put_json(out, names_base(path));
	fputs(",\"debugName\":", out);
	names_put_json(out, names_base(path));
	fputs(",\"path\":", out);
	names_put_json(out, path);
	fputs(",\"debugPath\":", out);
	names_put_json(out, path);
	fprintf(out, ",\"breakpadId\":\"%s\",\"codeId\":", id);
	names_copy(path, module->build_id);
	if (*path)
		names_put_json(out, path);
	else
		fputs("null", out);
	putc('}', out);
}

/* Resources are numbered as libraries. */
static struct ht_err *number_resources(struct firefox_tables *tables, uint32_t *ret)
{
	struct ht_err *err = NULL;
	char name[NAMES_BYTES];
	for (size_t i = 0; i < tables->lib_count && !err; i++) {
		names_module(tables->view, tables->lib[i], name);
		err = pool_number(&tables->pool, names_base(name), &ret[i]);
	}
	return err;
}

static void put_stacks(FILE *out, const struct firefox_tables *tables)
{
	const size_t count = tables->stack_count;
	fprintf(out, "\"stackTable\":{\"length\":%zu", count);
	put_column(out, "frame", tables, count, put_stack_frame);
	put_column(out, "prefix", tables, count, put_stack_prefix);
}

static void put_frames(FILE *out, const struct firefox_tables *tables)
{
	const size_t count = tables->frame_count;
	fprintf(out, "},\n\"frameTable\":{\"length\":%zu", count);
	put_column(out, "address", tables, count, put_frame_address);
	put_column(out, "inlineDepth", tables, count, put_frame_depth);
	put_column(out, "category", tables, count, put_frame_category);
	put_column(out, "subcategory", tables, count, put_zero);
	put_column(out, "func", tables, count, put_frame_function);
	put_column(out, "nativeSymbol", tables, count, put_null);
	put_column(out, "innerWindowID", tables, count, put_null);
	put_column(out, "line", tables, count, put_frame_line);
	put_column(out, "column", tables, count, put_null);
}

static void put_functions(FILE *out, const struct firefox_tables *tables)
{
	const size_t count = tables->function_count;
	fprintf(out, "},\n\"funcTable\":{\"length\":%zu", count);
	put_column(out, "name", tables, count, put_function_name);
	put_column(out, "isJS", tables, count, put_function_is_script);
	put_column(out, "relevantForJS", tables, count, put_function_is_script);
	put_column(out, "resource", tables, count, put_function_resource);
	put_column(out, "source", tables, count, put_function_source);
	put_column(out, "lineNumber", tables, count, put_null);
	put_column(out, "columnNumber", tables, count, put_null);
}

static void put_resources(FILE *out, const struct firefox_tables *tables, const uint32_t *name)
{
	const size_t count = tables->lib_count;
	fprintf(out, "},\n\"resourceTable\":{\"length\":%zu,\n\"name\":[", count);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s%" PRIu32, i ? "," : "", name[i]);
	putc(']', out);
	put_column(out, "lib", tables, count, put_resource_lib);
	put_column(out, "host", tables, count, put_null);
	put_column(out, "type", tables, count, put_one);
}

struct ht_err *firefox_tables_put(FILE *out, struct firefox_tables *tables)
{
	uint32_t *name = calloc(tables->lib_count + 1, sizeof(*name));
	if (!name)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu modules", tables->lib_count);
	struct ht_err *err = number_resources(tables, name);
	fputs("\"libs\":[", out);
	for (size_t i = 0; i < tables->lib_count; i++) {
		fputs(i ? "," : "", out);
		put_lib(out, tables, i);
	}
	fputs("],\n\"shared\":{", out);
	put_stacks(out, tables);
	put_frames(out, tables);
	put_functions(out, tables);
	put_resources(out, tables, name);
	fputs("},\n\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],\"name\":[],"
	      "\"functionSize\":[]},\n",
		out);
	fprintf(out, "\"sources\":{\"length\":%zu", tables->source_count);
	put_column(out, "uuid", tables, tables->source_count, put_null);
	put_column(out, "filename", tables, tables->source_count, put_source_name);
	fputs("},\n\"stringArray\":[", out);
	for (size_t i = 0; i < tables->pool.count; i++) {
		fputs(i ? ",\n" : "", out);
		put_string(out, tables, i);
	}
	fputs("]}", out);
	free(name);
	return err;
}
