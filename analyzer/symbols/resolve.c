/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/resolve.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/model/array.h"
#include "analyzer/symbols/demangle.h"
#include "analyzer/symbols/dwarf.h"
#include "analyzer/symbols/elf_file.h"
#include "analyzer/symbols/perf_map.h"
#include "analyzer/symbols/symtab.h"
#include "format/abi_control.h"

struct places {
	struct place *place;
	size_t count, capacity;
};

/* What is open while one module's places are resolved. */
struct source {
	struct elf_file file, debug;
	struct symtab symtab;
	struct dwarf *dwarf; /* NULL: there is none */
};

static int compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The distinct places of the trace's nodes that are not known, in order: those in no module last.
 */
static struct ht_err *collect(struct model *model, const struct symbols *known, struct places *ret)
{
	for (uint32_t id = 1; id < model->nodes.count; id++) {
		const struct node *node = nodes_get(&model->nodes, id);
		struct place place;
		uint32_t frame_count;
		if (!node || node->flags & ABI_NODE_INTERPRETED)
			continue;
		struct ht_err *err = place_of_node(&model->modules, node, &place);
		if (err)
			return err;
		if (symbols_find(known, place, &frame_count))
			continue;
		err = array_reserve(
			&ret->place, &ret->capacity, ret->count + 1, sizeof(*ret->place), "places");
		if (err)
			return err;
		ret->place[ret->count++] = place;
	}
	if (ret->count == 0)
		return NULL;
	qsort(ret->place, ret->count, sizeof(*ret->place), compare);
	size_t kept = 1;
	for (size_t i = 1; i < ret->count; i++)
		if (compare(&ret->place[i], &ret->place[kept - 1]) != 0)
			ret->place[kept++] = ret->place[i];
	ret->count = kept;
	return NULL;
}

static void source_close(struct source *source)
{
	dwarf_destroy(source->dwarf);
	symtab_deinit(&source->symtab);
	elf_file_close(&source->debug);
	elf_file_close(&source->file);
}

static struct ht_err *source_open(
	struct source *source, const char *sysroot, const struct module *module)
{
	elf_file_open_module(&source->file, sysroot, module);
	bool is_whole = elf_file_has_section(&source->file, ".debug_info");
	if (!is_whole)
		elf_file_open_debug(&source->debug, sysroot, module->build_id);
	if (!is_whole && !source->debug.elf && sysroot[0])
		elf_file_open_debug(&source->debug, "", module->build_id);
	struct ht_err *err = NULL;
	if (source->file.elf)
		err = symtab_add(&source->symtab, source->file.elf);
	if (!err && source->debug.elf)
		err = symtab_add(&source->symtab, source->debug.elf);
	symtab_sort(&source->symtab);
	const struct elf_file *with_dwarf = is_whole ? &source->file : &source->debug;
	if (!err && with_dwarf->elf)
		err = dwarf_create(with_dwarf, sysroot, &source->dwarf);
	return err;
}

/* The last frame is the real function: where DWARF does not name it, the symbol table may. */
static struct ht_err *name_function(
	const char *name, struct strings *strings, struct rec_frame *frame)
{
	char *readable = demangle(name);
	const char *stored;
	/* "name@VERSION": the version is the linker's business. */
	struct rec_string text = {.data = name, .length = strcspn(name, "@")};
	if (readable)
		text = (struct rec_string){.data = readable, .length = strlen(readable)};
	struct ht_err *err = strings_intern(strings, text, &stored);
	if (!err)
		frame->function = (struct rec_string){.data = stored, .length = strlen(stored)};
	free(readable);
	return err;
}

/* DWARF gives no linkage name to a function that no other file sees, only its last word: a mangled
 * symbol says more. */
static bool says_more(const char *symbol, struct rec_string name)
{
	bool mangled = !strncmp(symbol, "_Z", 2) || !strncmp(symbol, "_R", 2);
	return !name.length || (mangled && !memchr(name.data, ':', name.length) &&
				       !memchr(name.data, '(', name.length));
}

static struct ht_err *resolve_place(struct source *source, struct strings *strings, uint64_t offset,
	struct rec_frame *ret, uint64_t *ret_count)
{
	struct ht_err *err = NULL;
	uint64_t count = 0;
	if (source->dwarf)
		err = dwarf_frames(source->dwarf, &source->symtab, strings, offset, ret, &count);
	if (err)
		return err;
	if (count == 0)
		ret[0] = (struct rec_frame){0};
	struct rec_frame *real = &ret[count ? count - 1 : 0];
	const char *name = symtab_find(&source->symtab, offset);
	if (name && says_more(name, real->function)) {
		err = name_function(name, strings, real);
		count = count ? count : 1;
	}
	*ret_count = count;
	return err;
}

static struct ht_err *resolve_module(const struct module *module, const struct place *place,
	size_t count, const char *sysroot, resolve_sink *sink, void *context)
{
	struct source source = {.file.fd = -1, .debug.fd = -1};
	struct strings strings = {0};
	struct rec_frame frame[TRACE_INLINE_MAX];
	struct ht_err *err = source_open(&source, sysroot, module);
	for (size_t i = 0; i < count && !err; i++) {
		uint64_t frame_count;
		err = resolve_place(&source, &strings, place[i].offset, frame, &frame_count);
		if (!err && frame_count)
			err = sink(context, place[i], frame, frame_count);
	}
	strings_deinit(&strings);
	source_close(&source);
	return err;
}

/* Code that the program made: in no module. */
static struct ht_err *resolve_made(const struct perf_map *map, const struct place *place,
	size_t count, resolve_sink *sink, void *context)
{
	uint64_t *address = malloc((count + 1) * sizeof(*address));
	struct rec_string *name = malloc((count + 1) * sizeof(*name));
	struct ht_err *err = NULL;
	if (!address || !name)
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for %zu addresses", count);
	for (size_t i = 0; i < count && !err; i++)
		address[i] = place[i].offset;
	if (!err)
		err = perf_map_find(map, address, count, name);
	for (size_t i = 0; i < count && !err; i++) {
		const struct rec_frame frame = {.function = name[i]};
		if (name[i].length)
			err = sink(context, place[i], &frame, 1);
	}
	free(address);
	free(name);
	return err;
}

struct ht_err *resolve_places(struct model *model, const struct symbols *known,
	const struct resolve_files *files, resolve_sink *sink, void *context)
{
	struct places places = {0};
	struct perf_map map = {0};
	struct ht_err *err = NULL;
	if (files->perf_map)
		err = perf_map_read(&map, files->perf_map);
	else if (files->own_map)
		perf_map_read_own(&map, files->own_map, files->own_since);
	if (!err)
		err = collect(model, known, &places);
	for (size_t first = 0, end; first < places.count && !err; first = end) {
		const struct place *place = &places.place[first];
		for (end = first; end < places.count && places.place[end].module == place->module;)
			end++;
		if (place->module == MODULES_NONE)
			err = resolve_made(&map, place, end - first, sink, context);
		else
			err = resolve_module(&model->modules.module[place->module], place,
				end - first, files->sysroot, sink, context);
	}
	perf_map_deinit(&map);
	free(places.place);
	return err;
}
