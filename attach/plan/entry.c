/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/entry.h"

#include <string.h>

#include "attach/memory/proc_maps.h"
#include "attach/plan/callees.h"
#include "attach/plan/clobbers.h"
#include "attach/plan/comeback.h"

/* Returns how many bytes of the file follow `addr` in its segment. */
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

/* The code must be private: a write to a shared mapping would reach the file. */
static bool is_private_code(const struct proc_map *map)
{
	return map && map->exec && !map->write && !map->shared && map->inode;
}

static size_t read_code(void *context, raddr_t addr, uint8_t *buffer, size_t bytes)
{
	size_t got;
	ht_err_free(memory_read_some(context, addr, buffer, bytes, &got));
	return got;
}

/* The code must equal the file's: other bytes are a debugger's breakpoint or a probe. */
static const char *read_own_code(const struct survey *survey, struct entry_code *code,
	const struct entry *entry, size_t *ret_bytes)
{
	const struct module *module = modules_find(&survey->modules, entry->addr);
	raddr_t word = ht_align_down(entry->addr, sizeof(uint64_t));
	const struct proc_map *map = proc_maps_find(&survey->maps, word);
	size_t want = entry->addr - word + entry->bytes + BRIDGE_LOOK_BYTES, got = 0;
	uint64_t offset = 0, left = module ? file_bytes(module, word, &offset) : 0;

	if (!module || !is_private_code(map) || map->inode != module->inode ||
		map->offset + (word - map->lo) != offset)
		return "its code is not mapped from its file";
	if (want > left)
		want = left;
	if (want > map->hi - word)
		want = map->hi - word;
	if (want > ENTRY_CODE_MAX)
		return "it is too long";
	ht_err_free(memory_read_some(&survey->proc, word, code->memory, want, &got));
	if (got < want || memory_read_file(&survey->proc, map, offset, code->file, want) < want)
		return "its code, or its file, cannot be read";
	if (memcmp(code->memory, code->file, want) != 0)
		return "its code differs from its file (a debugger's breakpoint or a probe?)";
	*ret_bytes = want;
	return NULL;
}

/* Calls from glibc's function that frees cached blocks again bypass the hook of free: the program
 * has freed these blocks before. */
static void pass_again(const struct survey *survey, struct entry *entry)
{
	const struct module *module = modules_find(&survey->modules, entry->addr);
	const struct natives *natives = &module->natives;
	if (entry->hook != ABI_HOOK_FREE || !natives->frees_again ||
		natives->frees_again_bytes > INT32_MAX ||
		survey->coverage.function[entry->function].native->family->prefix[0] ||
		survey->coverage.function[entry->function].native->family->given)
		return;
	for (size_t i = 0; i < entry->place_count; i++) {
		entry->place[i].passed = natives->frees_again;
		entry->place[i].passed_bytes = (uint32_t)natives->frees_again_bytes;
	}
}

/* Adds places at later instructions: the bridge repeats the instructions before them. */
static void read_later(const struct survey *survey, const struct entry_code *code, size_t bytes,
	struct entry *entry)
{
	struct bridge *later = &entry->place[entry->place_count];
	size_t count = bridge_read_later(code->memory, bytes, entry->addr, entry->bytes,
		abi_is_allocator(entry->hook) ? abi_arity_of(entry->hook) : BRIDGE_ARITY_MAX,
		entry->hook == ABI_HOOK_FREE, later);
	if (!count)
		return;
	size_t first = later[count - 1].entry + later[count - 1].bytes - entry->addr;
	if (!comeback_to(read_code, (void *)&survey->proc, entry->addr, entry->bytes, first))
		entry->place_count += count;
}

const char *entry_read(const struct survey *survey, struct entry_code *code, struct entry *entry)
{
	size_t bytes;
	bool same;
	const char *why = read_own_code(survey, code, entry, &bytes);
	if (why)
		return why;
	why = bridge_read(code->memory, bytes, entry->addr, entry->bytes, &entry->place[0]);
	entry->place_count = !why;
	read_later(survey, code, bytes, entry);
	entry->leads_to = callees_sole(code->memory + entry->addr % sizeof(uint64_t), entry->addr,
		entry->bytes, abi_is_allocator(entry->hook) ? abi_arity_of(entry->hook) : 0, &same);
	/* The function that it leads to would see other blocks or sizes (a header before each
	 * block), or not all calls (a cache of the thread's). reallocarray may multiply, and set
	 * errno. */
	if (!same && entry->hook != ABI_HOOK_REALLOCARRAY)
		entry->leads_to = 0;
	if (!entry->place_count)
		return why;
	pass_again(survey, entry);
	/* A guard changes no register, so its callers need not expect any change. */
	if (abi_is_allocator(entry->hook) &&
		!clobbers_all(read_code, (void *)&survey->proc, entry->addr))
		return "its callers may rely on registers that it does not use";
	return NULL;
}
