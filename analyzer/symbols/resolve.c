/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/resolve.h"

#include <stdlib.h>
#include <string.h>

#include "format/array.h"
#include "analyzer/symbols/cache.h"
#include "analyzer/symbols/demangle.h"
#include "analyzer/symbols/dwarf.h"
#include "analyzer/symbols/elf_file.h"
#include "analyzer/symbols/perf_map.h"
#include "analyzer/symbols/separate.h"
#include "analyzer/symbols/symtab.h"
#include "format/abi_control.h"

struct places {
	struct place *place;
	size_t count, capacity;
};

/* The files of the module whose places are being resolved. */
struct source {
	struct elf_file file, debug, packed;
	struct symtab symtab;
	struct dwarf *dwarf; /* NULL: no DWARF */
	struct dwarf_note note;
	enum rec_names_state missing; /* why the module's file was not found */
	struct cache_names cached;
};

static int compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Collects the distinct places of the trace's nodes that have no name yet, with `improves` also
 * those in a module that have no source file. Sorted; places in no module last. */
static struct ht_err *collect(
	struct model *model, const struct symbols *known, bool improves, struct places *ret)
{
	for (uint32_t id = 1; id < model->nodes.count; id++) {
		const struct node *node = nodes_get(&model->nodes, id);
		struct place place;
		uint32_t frame_count;
		if (!node || node->flags & ABI_NODE_INTERPRETED)
			continue;
		HT_TRY(place_of_node(&model->modules, node, &place));
		const struct symbol_frame *frame = symbols_find(known, place, &frame_count);
		if (frame && place.module != MODULES_NONE)
			model->modules.module[place.module].is_named = true;
		if (frame &&
			(!improves || place.module == MODULES_NONE || frame[frame_count - 1].file))
			continue;
		HT_TRY(ARRAY_RESERVE(ret->place, ret->capacity, ret->count + 1, "places"));
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
	cache_names_deinit(&source->cached);
	dwarf_destroy(source->dwarf);
	symtab_deinit(&source->symtab);
	elf_file_close(&source->packed);
	elf_file_close(&source->debug);
	elf_file_close(&source->file);
}

/* Reads the symbols of the file and of its debug file; if both are stripped, those of
 * MiniDebugInfo. */
static struct ht_err *read_symbols(struct source *source)
{
	const struct elf_file *file = &source->file, *debug = &source->debug;
	bool is_stripped =
		!elf_file_has_section(file, ".symtab") && !elf_file_has_section(debug, ".symtab");
	if (file->elf)
		HT_TRY(symtab_add(&source->symtab, file->elf));
	if (debug->elf)
		HT_TRY(symtab_add(&source->symtab, debug->elf));
	if (is_stripped && file->elf)
		separate_open_packed(&source->packed, file);
	if (source->packed.elf)
		HT_TRY(symtab_add(&source->symtab, source->packed.elf));
	symtab_sort(&source->symtab);
	if (!source->note.state && is_stripped && !source->packed.elf)
		source->note.state =
			source->symtab.count ? REC_NAMES_STRIPPED : REC_NAMES_NO_SYMBOLS;
	return NULL;
}

/* Finds the files and reads only their identity. */
static void source_find(
	struct source *source, const struct finder *finder, const struct module *module)
{
	struct dwarf_note *note = &source->note;
	source->missing = elf_file_open_module(&source->file, finder, module);
	if (!elf_file_has_section(&source->file, ".debug_info"))
		separate_open(&source->debug, finder, &source->file, module, note->detail,
			sizeof(note->detail));
}

static struct ht_err *source_read(
	struct source *source, const struct finder *finder, const struct module *module)
{
	struct dwarf_note *note = &source->note;
	bool is_whole = elf_file_has_section(&source->file, ".debug_info");
	if (!source->file.elf && !source->debug.elf) {
		note->state = source->missing;
		return NULL;
	}
	if (note->detail[0] && !source->debug.elf)
		note->state = REC_NAMES_DEBUG_FILE;
	HT_TRY(read_symbols(source));
	const struct elf_file *with_dwarf = is_whole ? &source->file : &source->debug;
	if (!elf_file_has_section(with_dwarf, ".debug_info"))
		return NULL;
	note->state = REC_NAMES_WHOLE;
	return dwarf_create(with_dwarf, finder, module->path, note, &source->dwarf);
}

/* Gives `frame` the name of a symbol: demangled, or without its version. */
static struct ht_err *name_function(
	const char *name, struct strings *strings, struct rec_frame *frame)
{
	HT_FREED char *readable = demangle(name);
	const char *stored;
	/* Cut the version off "name@VERSION". */
	struct rec_string text = {.data = name, .length = strcspn(name, "@")};
	if (readable)
		text = (struct rec_string){.data = readable, .length = strlen(readable)};
	HT_TRY(strings_intern(strings, text, &stored));
	frame->function = (struct rec_string){.data = stored, .length = strlen(stored)};
	return NULL;
}

/* For a function that is local to its file, DWARF has no linkage name, only the name without its
 * scopes: a mangled symbol is more complete. */
static bool says_more(const char *symbol, struct rec_string name)
{
	static const char call[] = "operator()"; /* name of a lambda's call operator: these
						    parentheses are not parameters */
	bool mangled = !strncmp(symbol, "_Z", 2) || !strncmp(symbol, "_R", 2);
	bool is_call = name.length == sizeof(call) - 1 && !memcmp(name.data, call, name.length);
	return !name.length ||
	       (mangled && (is_call || (!memchr(name.data, ':', name.length) &&
					       !memchr(name.data, '(', name.length))));
}

static struct ht_err *resolve_place(struct source *source, struct strings *strings, uint64_t offset,
	struct rec_frame *ret, uint64_t *ret_count)
{
	*ret_count = 0;
	if (source->dwarf)
		HT_TRY(dwarf_frames(
			source->dwarf, &source->symtab, strings, offset, ret, ret_count));
	if (*ret_count == 0)
		ret[0] = (struct rec_frame){0};
	struct rec_frame *real = &ret[*ret_count ? *ret_count - 1 : 0];
	const char *name = symtab_find(&source->symtab, offset);
	if (!name || !says_more(name, real->function))
		return NULL;
	*ret_count = *ret_count ? *ret_count : 1;
	return name_function(name, strings, real);
}

static bool is_file_missing(uint64_t state)
{
	return state >= REC_NAMES_NO_FILE && state <= REC_NAMES_UNIDENTIFIED;
}

/* Keeps the reason that the capture noted if the file is missing here: the capture saw the file, so
 * its reason says more. */
static struct ht_err *note_module(
	struct model *model, struct module *module, const struct dwarf_note *note, bool improves)
{
	const struct rec_string detail = {note->detail, strlen(note->detail)};
	bool was_seen = module->is_named || module->names;
	if (was_seen &&
		(is_file_missing(note->state) || (module->names >= REC_NAMES_SPLIT && !improves)))
		return NULL;
	module->names = note->state;
	return strings_intern(&model->strings, detail, &module->names_detail);
}

/* Arguments that the functions below resolve_all share. */
struct search {
	const struct finder *finder;
	struct cache cache;
	resolve_sink *sink;
	void *context;
};

static bool are_cached(const struct source *source, const struct place *place, size_t count)
{
	uint32_t at;
	for (size_t i = 0; i < count; i++)
		if (!map_get(&source->cached.by_offset, place[i].offset, &at))
			return false;
	return count;
}

static struct ht_err *give_cached(const struct search *search, const struct source *source,
	const struct place *place, size_t count)
{
	struct rec_symbol symbol;
	for (size_t i = 0; i < count; i++)
		if (cache_find(&source->cached, place[i].offset, &symbol) && symbol.frame_count)
			HT_TRY(search->sink(
				search->context, place[i], symbol.frame, symbol.frame_count));
	return NULL;
}

static struct ht_err *give_read(const struct search *search, struct source *source,
	const struct module *module, const struct place *place, size_t count)
{
	struct strings strings = {0};
	struct rec_frame frame[TRACE_INLINE_MAX];
	struct ht_err *err = source_read(source, search->finder, module);
	for (size_t i = 0; i < count && !err; i++) {
		uint64_t frame_count;
		err = resolve_place(source, &strings, place[i].offset, frame, &frame_count);
		if (!err && search->cache.directory >= 0)
			err = cache_add(&source->cached, place[i].offset, frame, frame_count);
		if (!err && frame_count)
			err = search->sink(search->context, place[i], frame, frame_count);
	}
	strings_deinit(&strings);
	source->cached.state = source->note.state;
	if (!err)
		cache_store(&search->cache, module->build_id, &source->file, &source->debug,
			&source->cached);
	return err;
}

static struct ht_err *resolve_module(
	struct model *model, const struct place *place, size_t count, const struct search *search)
{
	struct module *module = &model->modules.module[place->module];
	struct source source = {.file.fd = -1, .debug.fd = -1, .packed.fd = -1};
	struct ht_err *err;
	source_find(&source, search->finder, module);
	if (source.file.elf || source.debug.elf)
		cache_load(&search->cache, module->build_id, &source.file, &source.debug,
			&source.cached);
	if (are_cached(&source, place, count)) {
		source.note.state = (enum rec_names_state)source.cached.state;
		source.note.detail[0] = '\0';
		err = give_cached(search, &source, place, count);
	} else {
		err = give_read(search, &source, module, place, count);
	}
	HT_THEN(err, note_module(model, module, &source.note, finder_is_named(search->finder)));
	source_close(&source);
	return err;
}

/* Names code that the program generated, which is in no module. */
static struct ht_err *resolve_made(const struct perf_map *map, const struct place *place,
	size_t count, resolve_sink *sink, void *context)
{
	HT_FREED uint64_t *address = malloc((count + 1) * sizeof(*address));
	HT_FREED struct rec_string *name = malloc((count + 1) * sizeof(*name));
	if (!address || !name)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu addresses", count);
	for (size_t i = 0; i < count; i++)
		address[i] = place[i].offset;
	HT_TRY(perf_map_find(map, address, count, name));
	for (size_t i = 0; i < count; i++) {
		const struct rec_frame frame = {.function = name[i]};
		if (name[i].length)
			HT_TRY(sink(context, place[i], &frame, 1));
	}
	return NULL;
}

static struct ht_err *open_finder(struct finder *finder, const struct resolve_files *files)
{
	struct ht_err *err = finder_init(finder, files->sysroot);
	finder->debug_dir_count = files->debug_dir_count;
	memcpy(finder->debug_dir, files->debug_dir, sizeof(finder->debug_dir));
	if (!err && files->has_handover)
		err = finder_take(finder, files->handover);
	return err;
}

static struct ht_err *read_map(
	struct perf_map *map, const struct finder *finder, const struct resolve_files *files)
{
	if (files->perf_map)
		return perf_map_read(map, files->perf_map);
	if (files->own_map)
		perf_map_take_own(map, finder_open_own(finder, files->own_map), files->own_map,
			files->own_since);
	return NULL;
}

static struct ht_err *resolve_all(struct model *model, const struct places *places,
	const struct perf_map *map, const struct search *search)
{
	for (size_t first = 0, end; first < places->count; first = end) {
		const struct place *place = &places->place[first];
		for (end = first;
			end < places->count && places->place[end].module == place->module;)
			end++;
		if (place->module == MODULES_NONE)
			HT_TRY(resolve_made(
				map, place, end - first, search->sink, search->context));
		else
			HT_TRY(resolve_module(model, place, end - first, search));
	}
	return NULL;
}

struct ht_err *resolve_places(struct model *model, const struct symbols *known,
	const struct resolve_files *files, resolve_sink *sink, void *context)
{
	struct places places = {0};
	struct perf_map map = {0};
	struct finder finder;
	struct search search = {
		.finder = &finder, .cache.directory = -1, .sink = sink, .context = context};
	struct ht_err *err = open_finder(&finder, files);
	if (!err && files->uses_cache)
		cache_open(&search.cache);
	HT_THEN(err, read_map(&map, &finder, files));
	HT_THEN(err, collect(model, known, finder_is_named(&finder), &places));
	HT_THEN(err, resolve_all(model, &places, &map, &search));
	cache_close(&search.cache);
	perf_map_deinit(&map);
	finder_deinit(&finder);
	free(places.place);
	return err;
}
