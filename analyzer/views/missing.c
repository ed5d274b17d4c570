/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/missing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Report code in no file only if a tenth of the allocations pass through it: some of V8's own
 * frames never have names. */
#define MADE_PART 10u

/* Counts by module; the last module stands for code in no file. */
struct tally {
	uint64_t allocations, unnamed_allocations;
	uint64_t frames, unnamed_frames;
	uint32_t seen, seen_unnamed; /* number of the last stack that passed through it */
};

struct frame {
	uint32_t module; /* index in the tallies */
	bool is_unnamed;
};

struct search {
	struct model *model;
	struct frame *frame; /* by nodes_index */
	struct tally *tally;
	size_t modules;
};

/* Looks up the frame of each node once. */
static struct ht_err *read_frames(struct search *search, const struct symbols *symbols)
{
	const struct nodes *nodes = &search->model->nodes;
	for (uint32_t i = 0; i < nodes_total(nodes); i++) {
		const struct node *node = nodes_get(nodes, nodes_id(nodes, i));
		struct place place;
		uint32_t count;
		if (!node)
			continue;
		HT_TRY(place_of_node(&search->model->modules, node, &place));
		const struct symbol_frame *known = symbols_find(symbols, place, &count);
		struct frame *frame = &search->frame[i];
		frame->module =
			place.module == MODULES_NONE ? (uint32_t)search->modules : place.module;
		frame->is_unnamed = !known || !known[count - 1].function;
		search->tally[frame->module].frames++;
		search->tally[frame->module].unnamed_frames += frame->is_unnamed;
	}
	return NULL;
}

/* Counts a stack once per module, regardless of its number of frames there. */
static void add_stack(struct search *search, const struct cube *cube, uint32_t number)
{
	const struct nodes *nodes = &search->model->nodes;
	const struct cube_site *site = &cube->site[number];
	const struct node *node;
	uint64_t allocations = 0;
	for (uint32_t i = cube->first_cell[number]; i < cube->first_cell[number + 1]; i++)
		allocations += cube->cell[i].counts.allocations;
	number++;
	for (uint32_t id = site->node; (node = nodes_get(nodes, id)); id = node->parent) {
		const struct frame *frame = &search->frame[nodes_index(nodes, id)];
		struct tally *tally = &search->tally[frame->module];
		if (tally->seen != number)
			tally->allocations += allocations;
		tally->seen = number;
		if (frame->is_unnamed && tally->seen_unnamed != number) {
			tally->unnamed_allocations += allocations;
			tally->seen_unnamed = number;
		}
	}
}

/* The C library's start-up code is at the root of every stack, and has no name if libc6-dbg is not
 * installed. */
static bool is_c_library(const char *path)
{
	const char *name = strings_base_name(path);
	return !strncmp(name, "libc.so", 7) || !strncmp(name, "libc-", 5) ||
	       !strncmp(name, "libc.musl", 9) || !strncmp(name, "ld-", 3);
}

static uint64_t lacking(const struct search *search, size_t index, uint64_t total)
{
	const struct tally *tally = &search->tally[index];
	uint64_t unnamed = tally->unnamed_allocations;
	if (index == search->modules)
		return unnamed > total / MADE_PART ? unnamed : 0;
	const struct module *module = &search->model->modules.module[index];
	if (module->path[0] == '[' || module->names == REC_NAMES_WHOLE)
		return 0;
	if (module->names >= REC_NAMES_SPLIT)
		return tally->allocations;
	if (module->names == REC_NAMES_STRIPPED &&
		(is_c_library(module->path) || 2 * tally->unnamed_frames < tally->frames))
		return 0;
	return unnamed;
}

static void show(struct missing *missing, uint32_t module, uint64_t allocations)
{
	size_t at = missing->shown_count;
	while (at > 0 && missing->shown[at - 1].allocations < allocations)
		at--;
	if (missing->shown_count == MISSING_SHOWN_MAX)
		missing->others++;
	else
		missing->shown_count++;
	if (at == MISSING_SHOWN_MAX)
		return;
	memmove(&missing->shown[at + 1], &missing->shown[at],
		(missing->shown_count - 1 - at) * sizeof(missing->shown[0]));
	missing->shown[at] = (struct missing_module){module, allocations};
}

struct ht_err *missing_find(const struct analysis *analysis, struct missing *ret)
{
	/* Not const: the first lookup sorts the modules. */
	struct model *model = (struct model *)(uintptr_t)&analysis->model;
	const struct cube *cube = &analysis->cube;
	struct search search = {.model = model, .modules = model->modules.count};
	*ret = (struct missing){0};
	search.frame = calloc((size_t)nodes_total(&model->nodes) + 1, sizeof(*search.frame));
	search.tally = calloc(search.modules + 1, sizeof(*search.tally));
	struct ht_err *err = NULL;
	if (!search.frame || !search.tally)
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for the names of modules");
	HT_THEN(err, read_frames(&search, &analysis->symbols));
	for (uint32_t i = 0; i < cube->site_count && !err; i++)
		add_stack(&search, cube, i);
	for (size_t i = 0; i <= search.modules && !err; i++) {
		uint64_t allocations = lacking(&search, i, cube->total.allocations);
		if (allocations)
			show(ret, i == search.modules ? MODULES_NONE : (uint32_t)i, allocations);
	}
	free(search.frame);
	free(search.tally);
	return err;
}

/* --- words --- */

#define SYMBOLS_REMEDY                                                                             \
	"install its debug symbols (on Debian find-dbgsym-packages of debian-goodies names the "   \
	"package), or give heaptap report --debug-dir DIR"

static const struct {
	const char *what, *remedy;
} words[] = {
	[REC_NAMES_NO_FILE] = {"functions have no names: its file is gone and could not be read "
			       "through /proc",
		"capture as root (CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE), or give heaptap report "
		"--sysroot DIR with the same file below it"},
	[REC_NAMES_OTHER_FILE] = {"functions have no names: the file at its path is another build",
		"give heaptap report --sysroot DIR with the build that was running below it, or "
		"--debug-dir DIR with its debug file"},
	[REC_NAMES_UNREADABLE] = {"functions have no names: its file cannot be opened",
		"make it readable, or capture as root"},
	[REC_NAMES_UNIDENTIFIED] = {"functions have no names: it has no build-id, and the file at "
				    "its path may be another one",
		"link it with -Wl,--build-id, capture as root, or give heaptap report --sysroot "
		"DIR with the same file below it"},
	[REC_NAMES_NO_SYMBOLS] = {"functions have no names: it is stripped", SYMBOLS_REMEDY},
	[REC_NAMES_STRIPPED] = {"functions that are not exported, and lines, have no names: it "
				"is stripped",
		SYMBOLS_REMEDY},
	[REC_NAMES_SPLIT] = {"lines and inlined functions are missing: split debug information was "
			     "not found",
		"give heaptap report --debug-dir DIR with it, or compile without -gsplit-dwarf"},
	[REC_NAMES_COMPRESSED] = {"lines are missing: its debug information is compressed in a way "
				  "that the installed elfutils cannot read (zstd)",
		"compile with -gz=zlib, or run objcopy --decompress-debug-sections on it"},
	[REC_NAMES_DEBUG_FILE] = {"lines are missing: its debug file belongs to another build",
		"install the debug symbols of this very version, or give heaptap report "
		"--debug-dir DIR"},
	[REC_NAMES_ALTERNATE] = {"lines are missing: its debug information refers to a file that "
				 "was not found",
		"install the package of that file, or give heaptap report --debug-dir DIR"},
	[REC_NAMES_DAMAGED] = {"lines are missing: its debug information is damaged",
		"install it anew, or compile again with -g"},
};

/* Length of the path without " (deleted)", which the kernel appends. */
static int path_length(const char *path)
{
	static const char deleted[] = " (deleted)";
	size_t length = strlen(path), end = sizeof(deleted) - 1;
	if (length > end && !strcmp(path + length - end, deleted))
		length -= end;
	return (int)length;
}

#define MADE_REMARK                                                                                \
	"If a JIT compiler made it, let the runtime write a map for perf "                         \
	"(node --perf-basic-prof, java -XX:+DumpPerfMapAtExit) before the capture "                \
	"ends, or give heaptap report --perf-map MAP"

char *missing_remark(const struct analysis *analysis, uint32_t index)
{
	char *text = NULL;
	if (index == MODULES_NONE)
		return strdup("code in no file. " MADE_REMARK);
	const struct module *module = &analysis->model.modules.module[index];
	if (module->names == REC_NAMES_WHOLE || module->path[0] == '[')
		return NULL;
	bool known = module->names < HT_ARRAY_SIZE(words) && words[module->names].what;
	const char *what = known ? words[module->names].what : "names may be missing";
	const char *remedy = known ? words[module->names].remedy : "use a newer heaptap report";
	const char *detail = module->names_detail ? module->names_detail : "";
	if (!strcmp(detail, module->path))
		detail = "";
	/* The build-id helps the user to find the right file. */
	const char *id = module->names < REC_NAMES_NO_SYMBOLS ? module->build_id : "";
	int length = asprintf(&text, "%s%s%s%s; %s%s%s%s", what, detail[0] ? " (" : "", detail,
		detail[0] ? ")" : "", remedy, id[0] ? " (build-id " : "", id, id[0] ? ")" : "");
	return length < 0 ? NULL : text;
}

char *missing_sentence(const struct analysis *analysis, const struct missing_module *of)
{
	char *text = NULL;
	int length;
	if (of->module == MODULES_NONE) {
		length = asprintf(&text,
			"%" PRIu64 " allocations pass through code that is in no file and has no "
			"name. " MADE_REMARK,
			of->allocations);
		return length < 0 ? NULL : text;
	}
	char *remark = missing_remark(analysis, of->module);
	if (!remark)
		return NULL;
	const char *path = analysis->model.modules.module[of->module].path;
	length = asprintf(&text, "%.*s (%" PRIu64 " allocations): %s", path_length(path), path,
		of->allocations, remark);
	free(remark);
	return length < 0 ? NULL : text;
}
