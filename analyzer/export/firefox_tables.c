/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/firefox_tables.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/names.h"
#include "format/array.h"

#define CATEGORY_NATIVE	    1
#define CATEGORY_JAVASCRIPT 2
#define BUILD_ID_DIGITS	    32u /* hexadecimal digits of a GUID */

#define FUNCTION_IS_SCRIPT 1u /* column "isJS" */

/* Titles of the tables and names of their columns. */
static const char *const titles[FIREFOX_TABLES] = {
	"stackTable", "frameTable", "funcTable", "resourceTable", "sources"};
static const char *const columns[FIREFOX_TABLES][FIREFOX_COLUMNS_MAX + 1] = {
	[FIREFOX_STACKS] = {"frame", "prefix"},
	[FIREFOX_FRAMES] = {"address", "inlineDepth", "category", "subcategory", "func",
		"nativeSymbol", "innerWindowID", "line", "column"},
	[FIREFOX_FUNCTIONS] = {"name", "isJS", "relevantForJS", "resource", "source", "lineNumber",
		"columnNumber"},
	[FIREFOX_RESOURCES] = {"name", "lib", "host", "type"},
	[FIREFOX_SOURCES] = {"uuid", "filename"},
};

/* --- one table ---------------------------------------------------------------------------------
 */

static size_t count_columns(const struct firefox_table *table)
{
	size_t count = 0;
	while (table->column[count])
		count++;
	return count;
}

struct ht_err *firefox_table_add(struct firefox_table *table, const int64_t *row)
{
	const size_t count = count_columns(table);
	HT_TRY(ARRAY_RESERVE(
		table->cell, table->capacity, (table->rows + 1) * count, "entries of a profile"));
	memcpy(table->cell + table->rows++ * count, row, count * sizeof(*row));
	return NULL;
}

void firefox_put_ms(FILE *out, uint64_t time_ns)
{
	fprintf(out, "%" PRIu64 ".%06u", time_ns / 1000000, (unsigned)(time_ns % 1000000));
}

static void put_cell(FILE *out, int64_t cell)
{
	if (cell == FIREFOX_NULL)
		fputs("null", out);
	else if (cell == FIREFOX_FALSE || cell == FIREFOX_TRUE)
		fputs(cell == FIREFOX_TRUE ? "true" : "false", out);
	else
		fprintf(out, "%" PRIi64, cell);
}

void firefox_table_put(FILE *out, const struct firefox_table *table)
{
	const size_t count = count_columns(table);
	fprintf(out, "\"length\":%zu", table->rows);
	for (size_t column = 0; column < count; column++) {
		fprintf(out, ",\n\"%s\":[", table->column[column]);
		for (size_t i = 0; i < table->rows; i++) {
			const int64_t cell = table->cell[i * count + column];
			if (i)
				putc(',', out);
			if (table->has_times && column == 0)
				firefox_put_ms(out, (uint64_t)cell);
			else
				put_cell(out, cell);
		}
		putc(']', out);
	}
	putc('}', out);
}

/* --- all tables --------------------------------------------------------------------------------
 */

struct ht_err *firefox_tables_init(struct firefox_tables *tables, const struct view *view)
{
	const size_t nodes = nodes_total(&view->analysis->model.nodes);
	*tables = (struct firefox_tables){.view = view};
	for (size_t i = 0; i < FIREFOX_TABLES; i++)
		tables->table[i].column = columns[i];
	tables->stack_of = calloc(nodes + 1, sizeof(*tables->stack_of));
	tables->scratch = calloc(nodes + 1, sizeof(*tables->scratch));
	if (!tables->stack_of || !tables->scratch)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", nodes);
	HT_TRY(numbers_init(&tables->frames, view->frames.count, "frames"));
	return numbers_init(&tables->libs, view->analysis->model.modules.count, "modules");
}

void firefox_tables_deinit(struct firefox_tables *tables)
{
	for (size_t i = 0; i < FIREFOX_TABLES; i++)
		free(tables->table[i].cell);
	pool_deinit(&tables->pool);
	numbers_deinit(&tables->frames);
	numbers_deinit(&tables->libs);
	map_deinit(&tables->by_name);
	map_deinit(&tables->by_lib);
	map_deinit(&tables->source_of);
	free(tables->stack_of);
	free(tables->scratch);
}

/* Adds a row, and maps `key` to its index. */
static struct ht_err *add_row(struct firefox_table *table, const int64_t *row, struct map *map,
	uint64_t key, uint32_t *ret)
{
	*ret = (uint32_t)table->rows;
	HT_TRY(firefox_table_add(table, row));
	return map_put(map, key, *ret);
}

int64_t firefox_cell(uint32_t index_plus_1)
{
	return index_plus_1 ? (int64_t)index_plus_1 - 1 : FIREFOX_NULL;
}

/* The index of a file in the table of sources, plus 1; 0 for none. */
static struct ht_err *number_source(struct firefox_tables *tables, const char *file, uint32_t *ret)
{
	char name[NAMES_BYTES];
	uint32_t string, source;
	*ret = 0;
	if (!file)
		return NULL;
	names_copy(name, file);
	HT_TRY(pool_number(&tables->pool, name, &string));
	const int64_t row[] = {FIREFOX_NULL, string};
	if (!map_get(&tables->source_of, string, &source))
		HT_TRY(add_row(
			&tables->table[FIREFOX_SOURCES], row, &tables->source_of, string, &source));
	*ret = source + 1;
	return NULL;
}

static struct ht_err *number_function(
	struct firefox_tables *tables, const struct frame *frame, uint32_t *ret)
{
	char text[NAMES_BYTES];
	uint32_t name, source, pair;
	const int64_t lib = frame->module == MODULES_NONE
				    ? -1
				    : (int64_t)numbers_get(&tables->libs, frame->module);
	const int64_t is_script =
		frame->interpreted || frame->line_is_first ? FIREFOX_TRUE : FIREFOX_FALSE;
	names_frame(tables->view, frame, text);
	HT_TRY(pool_number(&tables->pool, text, &name));
	HT_TRY(number_source(tables, frame->file, &source));
	const uint64_t named = (uint64_t)name << 32 | source;
	if (!map_get(&tables->by_name, named, &pair)) {
		pair = (uint32_t)tables->by_name.count;
		HT_TRY(map_put(&tables->by_name, named, pair));
	}
	const uint64_t key = (uint64_t)pair << 32 | (uint32_t)lib;
	if (map_get(&tables->by_lib, key, ret))
		return NULL;
	const int64_t row[] = {
		name, is_script, is_script, lib, firefox_cell(source), FIREFOX_NULL, FIREFOX_NULL};
	return add_row(&tables->table[FIREFOX_FUNCTIONS], row, &tables->by_lib, key, ret);
}

/* The address relative to the library; -1 for code in no library, whose addresses mean nothing in
 * another run. */
static int64_t address_of(const struct firefox_tables *tables, const struct frame *frame)
{
	const struct module *module = names_module_of(tables->view, frame->module);
	if (!module)
		return -1;
	const uint64_t address = names_address(tables->view, frame);
	return address > module->lo && address - module->lo < INT32_MAX
		       ? (int64_t)(address - module->lo)
		       : 0;
}

/* Inline depth: 0 for the outermost frame of an address, which is the last of its place. */
static int64_t depth_of(const struct frame *frame)
{
	int64_t depth = 0;
	while (frame[depth].inlined && depth < UINT8_MAX)
		depth++;
	return depth;
}

static struct ht_err *number_frame(struct firefox_tables *tables, uint32_t index, uint32_t *ret)
{
	const struct frame *frame = &tables->view->frames.frame[index];
	const struct firefox_table *functions = &tables->table[FIREFOX_FUNCTIONS];
	struct firefox_table *frames = &tables->table[FIREFOX_FRAMES];
	uint32_t function;
	*ret = numbers_get(&tables->frames, index);
	if (*ret < frames->rows)
		return NULL;
	HT_TRY(number_function(tables, frame, &function));
	const int64_t is_script =
		functions->cell[function * count_columns(functions) + FUNCTION_IS_SCRIPT];
	const int64_t row[] = {address_of(tables, frame), depth_of(frame),
		is_script == FIREFOX_TRUE ? CATEGORY_JAVASCRIPT : CATEGORY_NATIVE, 0, function,
		FIREFOX_NULL, FIREFOX_NULL, frame->line ? frame->line : FIREFOX_NULL, FIREFOX_NULL};
	return firefox_table_add(frames, row);
}

/* One stack for each frame of a node, the outermost first. */
static struct ht_err *add_node(struct firefox_tables *tables, uint32_t id, uint32_t prefix)
{
	const uint32_t index = nodes_index(&tables->view->analysis->model.nodes, id);
	const struct frames_place place = frames_of(&tables->view->frames, index);
	struct firefox_table *stacks = &tables->table[FIREFOX_STACKS];
	uint32_t frame;
	for (uint32_t i = place.count; i-- > 0;) {
		HT_TRY(number_frame(tables, place.first + i, &frame));
		HT_TRY(firefox_table_add(stacks, (const int64_t[]){frame, firefox_cell(prefix)}));
		prefix = (uint32_t)stacks->rows;
	}
	tables->stack_of[index] = prefix;
	return NULL;
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

static void put_lib(FILE *out, const struct firefox_tables *tables, uint32_t index)
{
	const struct module *module = names_module_of(tables->view, index);
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
static struct ht_err *add_resources(struct firefox_tables *tables)
{
	char path[NAMES_BYTES];
	uint32_t name;
	for (uint32_t i = 0; i < tables->libs.count; i++) {
		names_module(tables->view, tables->libs.index[i], path);
		HT_TRY(pool_number(&tables->pool, names_base(path), &name));
		HT_TRY(firefox_table_add(&tables->table[FIREFOX_RESOURCES],
			(const int64_t[]){name, i, FIREFOX_NULL, 1}));
	}
	return NULL;
}

struct ht_err *firefox_tables_put(FILE *out, struct firefox_tables *tables)
{
	HT_TRY(add_resources(tables));
	fputs("\"libs\":[", out);
	for (uint32_t i = 0; i < tables->libs.count; i++) {
		fputs(i ? "," : "", out);
		put_lib(out, tables, tables->libs.index[i]);
	}
	fputs("],\n\"shared\":{", out);
	for (size_t i = 0; i < FIREFOX_TABLES; i++) {
		if (i == FIREFOX_SOURCES)
			fputs("\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],"
			      "\"name\":[],\"functionSize\":[]},\n",
				out);
		fprintf(out, "\"%s\":{", titles[i]);
		firefox_table_put(out, &tables->table[i]);
		fputs(",\n", out);
	}
	fputs("\"stringArray\":[", out);
	for (size_t i = 0; i < tables->pool.count; i++) {
		fputs(i ? ",\n" : "", out);
		names_put_json(out, tables->pool.text[i]);
	}
	fputs("]}", out);
	return NULL;
}
