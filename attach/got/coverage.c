/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/got/coverage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/elf/distance.h"
#include "attach/elf/elf_symbols.h"
#include "attach/elf/modules.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/fd.h"
#include "format/array.h"

#define CHUNK_BYTES (1u << 20)
#define OVERLAP	    5u	       /* a two-byte opcode and three bytes of its displacement */
#define PLACES_MAX  65536u     /* places whose surroundings are examined */
#define STEPS_MAX   (1u << 27) /* reads, calls looked up, places compared with a function */
#define NAMED_MAX   3u

/* An instruction that refers to a function. `at`: address of its displacement. */
struct place {
	raddr_t at;
	uint32_t function;
	bool inner; /* within the allocator itself */
};

struct look {
	const struct module *module;
	struct coverage *coverage;
	size_t first; /* of the module's functions */
	raddr_t lo, hi;
	struct place *place; /* ascending */
	size_t count;
	struct budget *budget;
	bool partial; /* the file has more than heaptap reads */
};

static struct ht_err *no_memory(void)
{
	return ht_err_new(HT_ERR_NOMEM, "no memory to look for calls of an allocator");
}

/* --- code --- */

/* call and jmp rel32, jcc rel32, lea disp32(%rip). Other bytes that look like them are no
 * reference. */
static bool refers(const uint8_t *disp)
{
	return disp[-1] == 0xe8 || disp[-1] == 0xe9 || (disp[-2] == 0x0f && disp[-1] >> 4 == 8) ||
	       (disp[-2] == 0x8d && (disp[-1] & 0xc7) == 5);
}

static bool step(struct look *look)
{
	bool may = budget_step(look->budget);
	look->partial |= !may;
	return may;
}

static void place_add(struct look *look, raddr_t at, raddr_t function)
{
	struct coverage_function *functions = look->coverage->function;
	size_t lo = look->first, hi = look->coverage->count;
	while (lo < hi) {
		size_t middle = lo + (hi - lo) / 2;
		if (functions[middle].native->addr < function)
			lo = middle + 1;
		else
			hi = middle;
	}
	if (lo == look->coverage->count || functions[lo].native->addr != function)
		return;
	functions[lo].places++;
	if (look->count < PLACES_MAX)
		look->place[look->count++] = (struct place){at, (uint32_t)lo, false};
}

static void code_scan(struct look *look, const uint8_t *code, size_t bytes, raddr_t at)
{
	for (size_t i = 2; i + sizeof(int32_t) <= bytes; i++) {
		raddr_t to = distance_target(code + i, at + i + sizeof(int32_t));
		if (to >= look->lo && to <= look->hi && refers(code + i) && step(look))
			place_add(look, at + i, to);
	}
}

static void segment_scan(struct look *look, struct elf_file *file,
	const struct module_segment *segment, uint8_t *buffer)
{
	for (uint64_t done = 0; done < segment->filesz;) {
		uint64_t left = segment->filesz - done;
		size_t want = left < CHUNK_BYTES ? left : CHUNK_BYTES;
		size_t got = elf_file_bytes(file, segment->offset + done, buffer, want);
		code_scan(look, buffer, got, look->module->bias + segment->vaddr + done);
		if (got < want || done + got == segment->filesz)
			return;
		done += got - OVERLAP;
	}
}

/* Withdraws places within a function of the allocator itself. */
static struct ht_err *inner_take(void *context, const Elf64_Sym *symbol, const char *name)
{
	struct look *look = context;
	raddr_t at = look->module->bias + symbol->st_value;
	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
		return NULL;
	for (size_t i = array_from(look->place, look->count, sizeof(*look->place), at);
		i < look->count; i++) {
		struct place *place = &look->place[i];
		struct coverage_function *function = &look->coverage->function[place->function];
		if (place->at - at >= symbol->st_size || !step(look))
			break;
		if (place->inner || !family_is_inner(function->native->family, name))
			continue;
		place->inner = true;
		function->places--;
	}
	return NULL;
}

static struct ht_err *file_scan(struct look *look, int fd)
{
	const struct module *module = look->module;
	HT_FREED uint8_t *buffer = malloc(CHUNK_BYTES);
	HT_FREED struct place *place = calloc(PLACES_MAX, sizeof(*place));
	struct elf_file file;
	if (!buffer || !place)
		return no_memory();
	look->place = place;
	HT_TRY(elf_file_open(fd, module->build_id, module->build_id_bytes, look->budget, &file));
	for (size_t i = 0; i < module->segment_count; i++)
		if (module->segment[i].flags & PF_X)
			segment_scan(look, &file, &module->segment[i], buffer);
	struct ht_err *err = elf_symbols_each(&file, inner_take, look);
	look->partial |= file.partial;
	elf_file_close(&file);
	return err;
}

static struct ht_err *code_read(
	const struct proc *proc, const struct proc_maps *maps, struct look *look)
{
	const struct proc_map *map = proc_maps_find(maps, look->module->lo);
	FD_GUARD int fd = -1;
	struct ht_err *err = map ? memory_open_file(proc, map, &fd) : NULL;
	return err || fd < 0 ? err : file_scan(look, fd);
}

/* --- functions --- */

static size_t slots_of(const struct slots *slots, const struct native *native)
{
	size_t count = 0;
	for (size_t i = 0; i < slots->count; i++)
		count += slots->slot[i].real == native->addr;
	return count;
}

static bool has_slots(const struct slots *slots)
{
	for (size_t i = 0; i < slots->count; i++)
		if (slots->slot[i].real && abi_is_allocator(slots->slot[i].hook))
			return true;
	return false;
}

static bool is_asked_for(const struct module *module, const struct family *family, bool any_slots)
{
	if (family->everywhere && any_slots)
		return false;
	return module->executable || family->prefix[0] || family->given;
}

/* The number of words that lead to the native, if it has no hook; otherwise 0. */
static size_t unseen_words(const struct natives *natives, size_t index)
{
	size_t count = 0;
	for (size_t i = 0; i < natives->word_count; i++)
		count += natives->word[i].index == index;
	return natives->native[index].role == FAMILY_UNSEEN ? count : 0;
}

/* The number of modules that call the native by its name, if it has no hook; otherwise 0. */
static size_t unseen_needs(const struct modules *modules, const struct native *native)
{
	size_t count = 0;
	for (size_t i = 0; native->role == FAMILY_UNSEEN && i < modules->count; i++)
		count += natives_need(&modules->module[i].natives, native->name);
	return count;
}

static struct ht_err *functions_add(struct coverage *coverage, const struct modules *modules,
	const struct module *module, const struct slots *slots)
{
	const struct natives *natives = &module->natives;
	struct coverage_function *grown = reallocarray(
		coverage->function, coverage->count + natives->count, sizeof(*coverage->function));
	if (!grown)
		return no_memory();
	coverage->function = grown;
	for (size_t i = 0; i < natives->count; i++)
		if (is_asked_for(module, natives->native[i].family, has_slots(slots)))
			coverage->function[coverage->count++] =
				(struct coverage_function){.native = &natives->native[i],
					.module = module,
					.slots = slots_of(slots, &natives->native[i]),
					.places = unseen_words(natives, i) +
						  unseen_needs(modules, &natives->native[i])};
	return NULL;
}

/* Is it one that the user has named, which may be called through a table or dlsym? */
static bool is_given(const struct native *native)
{
	return native->family->given && native->role == FAMILY_HOOKED;
}

static void drop_unused(struct coverage *coverage, size_t first)
{
	size_t kept = first;
	for (size_t i = first; i < coverage->count; i++) {
		struct coverage_function *function = &coverage->function[i];
		if (!function->slots && !function->places && !function->native->pointers &&
			!is_given(function->native))
			continue;
		coverage->places += function->places;
		coverage->function[kept++] = *function;
	}
	coverage->count = kept;
}

static void note_partial(struct coverage *coverage, const struct module *module)
{
	if (!module)
		return;
	coverage->partial = module;
	coverage->places++;
}

static struct ht_err *module_read(const struct proc *proc, const struct proc_maps *maps,
	const struct modules *modules, const struct module *module, const struct slots *slots,
	struct budget *budget, struct coverage *coverage)
{
	struct look look = {.module = module,
		.coverage = coverage,
		.first = coverage->count,
		.budget = budget,
		.partial = module->natives.partial};
	struct ht_err *err =
		module->natives.count ? functions_add(coverage, modules, module, slots) : NULL;
	if (!err && coverage->count > look.first) {
		/* Natives ascend. */
		look.lo = coverage->function[look.first].native->addr;
		look.hi = coverage->function[coverage->count - 1].native->addr;
		err = code_read(proc, maps, &look);
		drop_unused(coverage, look.first);
	}
	note_partial(coverage, look.partial ? module : NULL);
	return err;
}

/* --- operators of C++ --- */

static bool comes_first(const struct module *module, const struct module *than)
{
	return !module->space && module->order && (!than || module->order < than->order);
}

/* Finds the module whose operator new the program's references are bound to. The operator new of
 * the C++ library calls malloc, as does one that a program brings; an allocator's does not. */
static struct ht_err *operators_read(const struct proc *proc, const struct modules *modules,
	struct budget *budget, struct coverage *coverage)
{
	const struct module *first = NULL;
	raddr_t found;
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->module[i];
		if (!comes_first(module, first))
			continue;
		HT_TRY(module_symbol(proc, module, "_Znwm", budget, &found));
		if (found)
			first = module;
	}
	if (!first)
		return NULL;
	HT_TRY(module_symbol(proc, first, "malloc", budget, &found));
	if (!found)
		return NULL;
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->module[i];
		if (module == first || !module->natives.operators)
			continue;
		/* References of the C++ library itself do not matter to a C program. */
		HT_TRY(module_symbol(proc, module, "_Znwm", budget, &found));
		if (found)
			continue;
		coverage->operators = first;
		coverage->places += module->natives.operators;
	}
	return NULL;
}

static const struct module *module_with(const struct modules *modules, uint64_t id)
{
	for (size_t i = 0; i < modules->count; i++)
		if (modules->module[i].id == id)
			return &modules->module[i];
	return NULL;
}

struct ht_err *coverage_read(const struct proc *proc, const struct proc_maps *maps,
	const struct modules *modules, const struct slots *slots, struct coverage *ret)
{
	struct budget budget = {.bytes = BUDGET_FILES_BYTES, .steps = STEPS_MAX};
	*ret = (struct coverage){0};
	note_partial(ret, slots->partial_id ? module_with(modules, slots->partial_id) : NULL);
	struct ht_err *err =
		slots_have_operators(slots) ? NULL : operators_read(proc, modules, &budget, ret);
	for (size_t i = 0; i < modules->count && !err; i++)
		if (modules->module[i].natives.count || modules->module[i].natives.partial)
			err = module_read(
				proc, maps, modules, &modules->module[i], slots, &budget, ret);
	if (err)
		coverage_deinit(ret);
	return err;
}

const struct module *coverage_partial_since(const struct modules *modules,
	const struct slots *slots, uint64_t first_id, size_t *ret_count)
{
	const struct module *found = NULL;
	*ret_count = 0;
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->module[i];
		bool partial = module->natives.partial || module->id == slots->partial_id;
		if (module->id < first_id || !partial)
			continue;
		found = module;
		++*ret_count;
	}
	return found;
}

void coverage_deinit(struct coverage *coverage)
{
	free(coverage->function);
	*coverage = (struct coverage){0};
}

/* --- text --- */

static void family_describe(FILE *out, const struct coverage *coverage, const struct family *family)
{
	size_t named = 0;
	for (size_t i = 0; i < coverage->count; i++) {
		const struct coverage_function *function = &coverage->function[i];
		if (function->native->family != family || !function->places)
			continue;
		if (named++ < NAMED_MAX)
			fprintf(out, "%s%s", named > 1 ? ", " : "", function->native->name);
	}
	if (named > NAMED_MAX)
		fprintf(out, " and %zu more", named - NAMED_MAX);
}

/* Is it the first function of its family with unseen calls? */
static bool begins_family(const struct coverage *coverage, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (coverage->function[i].places &&
			coverage->function[i].native->family ==
				coverage->function[index].native->family)
			return false;
	return coverage->function[index].places > 0;
}

char *coverage_unseen(const struct coverage *coverage)
{
	char *text = NULL;
	size_t bytes, families = 0;
	FILE *out = open_memstream(&text, &bytes);
	if (out && coverage->operators) {
		fprintf(out, "operator new and delete of %s", coverage->operators->path);
		families++;
	}
	if (out && coverage->partial)
		fprintf(out, "%spart of %s, which is too large to be searched",
			families++ ? ", " : "", coverage->partial->path);
	for (size_t i = 0; out && i < coverage->count; i++) {
		const struct family *family = coverage->function[i].native->family;
		if (!begins_family(coverage, i))
			continue;
		fprintf(out, "%s%s (", families++ ? ", " : "", family->allocator);
		family_describe(out, coverage, family);
		fprintf(out, ")");
	}
	if (!out || fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}
