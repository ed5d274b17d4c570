/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/entries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/inject/choose.h"
#include "attach/inject/clobbers.h"
#include "attach/inject/stub.h"
#include "attach/target/memory.h"

#define CODE_MAX (1u << 20)

static struct ht_err *no_memory(void)
{
	return ht_err_new(HT_ERR_NOMEM, "no memory for the functions to be hooked at their entry");
}

/* --- which --- */

static bool is_wanted(const struct coverage_function *function, enum entries_mode mode)
{
	return function->native->role == FAMILY_HOOKED &&
	       (mode == ENTRIES_ALL || (mode == ENTRIES_AUTO && function->places));
}

static struct ht_err *collect(
	const struct survey *survey, enum entries_mode mode, struct entries *entries)
{
	const struct coverage *coverage = &survey->coverage;
	entries->entry = calloc(coverage->count + 1, sizeof(*entries->entry));
	if (!entries->entry)
		return no_memory();
	for (size_t i = 0; i < coverage->count; i++) {
		const struct coverage_function *function = &coverage->function[i];
		if (!is_wanted(function, mode))
			continue;
		struct entry *entry = &entries->entry[entries->count++];
		snprintf(entry->name, sizeof(entry->name), "%s", function->native->name);
		entry->hook = function->native->hook;
		entry->usable_size = function->native->usable_size;
		entry->text_lo = function->module->text_lo;
		entry->text_hi = function->module->text_hi;
		entry->function = i;
	}
	return NULL;
}

/* --- their code --- */

/* Of the segment that holds `addr`: how many bytes of the file follow it there. */
static uint64_t file_bytes(const struct module *module, raddr_t addr, uint64_t *ret_offset)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segment[i];
		uint64_t at = addr - module->bias - segment->vaddr;
		if (addr - module->bias < segment->vaddr || at >= segment->filesz ||
			!(segment->flags & PF_X) || segment->flags & PF_W)
			continue;
		*ret_offset = segment->offset + at;
		return segment->filesz - at;
	}
	return 0;
}

/* A shared mapping would be written through to the file. */
static bool is_private_code(const struct proc_map *map)
{
	return map && map->exec && !map->write && !map->shared && map->inode;
}

struct code {
	uint8_t memory[CODE_MAX], file[CODE_MAX];
};

static size_t read_code(void *context, raddr_t addr, uint8_t *buffer, size_t bytes)
{
	size_t got;
	ht_err_free(memory_read_some(context, addr, buffer, bytes, &got));
	return got;
}

/* What is there must be what its file has: anything else is another's breakpoint, or probe. */
static const char *read_entry(const struct survey *survey, struct code *code, struct entry *entry,
	raddr_t addr, uint64_t length)
{
	const struct module *module = survey->coverage.function[entry->function].module;
	raddr_t word = ht_align_down(addr, sizeof(uint64_t));
	const struct proc_map *map = proc_maps_find(&survey->maps, word);
	size_t want = addr - word + length + BRIDGE_LOOK_BYTES, got = 0;
	uint64_t offset = 0, left = file_bytes(module, word, &offset);

	if (!is_private_code(map) || map->inode != module->inode ||
		map->offset + (word - map->lo) != offset)
		return "its code is not mapped from its file";
	if (want > left)
		want = left;
	if (want > map->hi - word)
		want = map->hi - word;
	if (want > CODE_MAX)
		return "it is too long";
	ht_err_free(memory_read_some(&survey->proc, word, code->memory, want, &got));
	if (got < want || memory_read_file(&survey->proc, map, offset, code->file, want) < want)
		return "its code, or its file, cannot be read";
	if (memcmp(code->memory, code->file, want) != 0)
		return "its code differs from its file: a debugger's breakpoint, a probe?";
	entry->file = patch_place_of(map, word);
	const char *why = bridge_read(code->memory, want, addr, length, &entry->bridge);
	if (!why && !clobbers_all(read_code, (void *)&survey->proc, addr))
		why = "its callers may know which registers it leaves alone";
	return why;
}

/* Each changes what the other's jump, or its word, is made of. */
static bool is_beside(const struct entries *entries, const struct entry *entry)
{
	for (const struct entry *other = entries->entry; other < entry; other++) {
		raddr_t here = entry->bridge.entry, there = other->bridge.entry;
		raddr_t apart = here > there ? here - there : there - here;
		if (!other->why &&
			(other->bridge.word == entry->bridge.word || apart < BRIDGE_JUMP_BYTES))
			return true;
	}
	return false;
}

static struct ht_err *read_all(const struct survey *survey, struct entries *entries)
{
	struct code *code = malloc(sizeof(*code));
	if (!code)
		return no_memory();
	for (size_t i = 0; i < entries->count; i++) {
		struct entry *entry = &entries->entry[i];
		const struct native *native = survey->coverage.function[entry->function].native;
		entry->why = bridge_is_supported()
				     ? read_entry(survey, code, entry, native->addr, native->bytes)
				     : "this heaptap was built without the decoder (Zydis)";
		if (!entry->why && is_beside(entries, entry))
			entry->why = "its first bytes, or their word, are another's, too";
	}
	free(code);
	return NULL;
}

/* --- where --- */

static bool gives_back(enum abi_hook hook)
{
	static const enum abi_shape shapes[ABI_HOOK_COUNT] = {
#define X(id, name, shape, arity) ABI_SHAPE_##shape,
		ABI_HOOKS(X)
#undef X
	};
	return shapes[hook] == ABI_SHAPE_FREE || shapes[hook] == ABI_SHAPE_REALLOC ||
	       shapes[hook] == ABI_SHAPE_RESIZE;
}

/* Each area makes the stub longer that maps them. */
static size_t areas_max(const struct survey *survey)
{
	for (size_t count = ABI_NEAR_MAX; count > 0; count--) {
		struct choose_slack place;
		struct ht_err *err = choose_slack(
			&survey->modules, &survey->maps, stub_map_bytes(count), &place);
		if (!err)
			return count;
		ht_err_free(err);
	}
	return 0;
}

static struct ht_err *place_all(const struct survey *survey, struct entries *entries)
{
	struct near_hook *hook = calloc(entries->count + 1, sizeof(*hook));
	size_t count = 0;
	if (!hook)
		return no_memory();
	for (size_t i = 0; i < entries->count; i++)
		if (!entries->entry[i].why)
			hook[count++] = (struct near_hook){.bridge = &entries->entry[i].bridge,
				.needed = gives_back(entries->entry[i].hook)};
	struct ht_err *err = near_place(
		&survey->maps, areas_max(survey), hook, count, entries->near, &entries->near_count);
	for (size_t i = 0, n = 0; !err && i < entries->count; i++) {
		struct entry *entry = &entries->entry[i];
		if (entry->why)
			continue;
		entry->at = hook[n++].at;
		if (!entry->at)
			entry->why = "nothing can be mapped where its first bytes would jump to";
	}
	free(hook);
	return err;
}

/* --- an allocator as a whole --- */

static const struct coverage_function *function_of(
	const struct survey *survey, const struct entry *entry)
{
	return &survey->coverage.function[entry->function];
}

/* A trace without its frees misleads: what gives back and cannot be hooked keeps all of its
 * allocator from being hooked. */
static const struct entry *unhooked_free(
	const struct survey *survey, const struct entries *entries, const struct entry *entry)
{
	const struct coverage_function *function = function_of(survey, entry);
	for (size_t i = 0; i < entries->count; i++) {
		const struct entry *other = &entries->entry[i];
		const struct coverage_function *its = function_of(survey, other);
		if (other->why && gives_back(other->hook) && its->places &&
			its->module == function->module &&
			its->native->family == function->native->family)
			return other;
	}
	return NULL;
}

static void settle(struct survey *survey, struct entries *entries)
{
	for (size_t i = 0; i < entries->count; i++) {
		struct entry *entry = &entries->entry[i];
		if (!entry->why && unhooked_free(survey, entries, entry))
			entry->why = "its allocator has one that frees and cannot be hooked";
	}
	for (size_t i = 0; i < entries->count; i++) {
		struct entry *entry = &entries->entry[i];
		struct coverage_function *function = &survey->coverage.function[entry->function];
		if (entry->why) {
			entry->at = 0;
			continue;
		}
		entries->hooked++;
		survey->coverage.places -= function->places;
		function->places = 0;
		function->at_entry = true;
	}
	if (!entries->hooked) {
		memset(entries->near, 0, sizeof(entries->near));
		entries->near_count = 0;
	}
}

struct ht_err *entries_plan(struct survey *survey, enum entries_mode mode, struct entries *ret)
{
	*ret = (struct entries){0};
	struct ht_err *err = collect(survey, mode, ret);
	if (!err && ret->count)
		err = read_all(survey, ret);
	if (!err && ret->count)
		err = place_all(survey, ret);
	if (err) {
		entries_deinit(ret);
		return err;
	}
	settle(survey, ret);
	return NULL;
}

void entries_deinit(struct entries *entries)
{
	free(entries->entry);
	*entries = (struct entries){0};
}

bool entries_has(const struct entries *entries, raddr_t addr)
{
	for (size_t i = 0; i < entries->count; i++)
		if (entries->entry[i].at && entries->entry[i].bridge.entry == addr)
			return true;
	return false;
}

void entries_write_bridges(const struct entries *entries, const struct image *image)
{
	for (size_t i = 0; i < entries->count; i++) {
		const struct entry *entry = &entries->entry[i];
		struct abi_bridge made;
		uint8_t *at = near_local(image, entries->near, entry->at);
		if (entry->at && at && bridge_make(&entry->bridge, entry->at, &made))
			memcpy(at, &made, sizeof(made));
	}
}

void entries_write_pad(const struct entries *entries, const struct entry *entry,
	const struct image *image, raddr_t thunk)
{
	bridge_make_pad(thunk, near_local(image, entries->near, entry->bridge.pad));
}

char *entries_refused(const struct entries *entries)
{
	char *text = NULL;
	size_t bytes, count = 0;
	FILE *out = open_memstream(&text, &bytes);
	for (size_t i = 0; out && i < entries->count; i++)
		if (entries->entry[i].why)
			fprintf(out, "%s%s (%s)", count++ ? ", " : "", entries->entry[i].name,
				entries->entry[i].why);
	if (!out || fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}
