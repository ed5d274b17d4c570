/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/got/slots.h"

#include <stdlib.h>
#include <string.h>

#include "attach/got/ambiguous.h"
#include "attach/got/relocs.h"
#include "attach/got/unlock.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "format/arch.h"
#include "format/array.h"

#define SLOTS_MAX     65536u /* programs have up to a dozen in each module */
#define FUNCTIONS_MAX 256u   /* a program has one allocator or a few, of two dozen functions each */
#define BINDER_BYTES  8u     /* of code: endbr64 and the four bytes that matter */

struct scan {
	const struct proc *proc;
	const struct modules *modules;
	raddr_t thunk_lo, thunk_hi;
	bool with_natives, with_mappings;
	bool with_names; /* slots_read_left: everything that an earlier capture may have changed */
	struct scope scope;
	struct ambiguous ambiguous;
	struct slots *slots;
	size_t capacity, function_capacity;
};

static struct ht_err *no_memory(const struct scan *scan)
{
	return ht_err_new(HT_ERR_NOMEM, "no memory for the allocator addresses of process %d",
		scan->proc->pid);
}

static bool is_ours(const struct scan *scan, raddr_t value)
{
	return value >= scan->thunk_lo && value < scan->thunk_hi;
}

/* The relation of an address to the name by which it is called. */
enum meaning { MEANS_OTHER, MEANS_FUNCTION, MEANS_CANONICAL_PLT };

static enum meaning symbol_meaning(
	const struct module *module, const Elf64_Sym *symbol, raddr_t value)
{
	bool same = module->bias + symbol->st_value == value;
	if (symbol->st_shndx == SHN_UNDEF)
		return same ? MEANS_CANONICAL_PLT : MEANS_OTHER;
	switch (ELF64_ST_TYPE(symbol->st_info)) {
	case STT_FUNC:
	case STT_NOTYPE:
		return same ? MEANS_FUNCTION : MEANS_OTHER;
	case STT_GNU_IFUNC: /* its resolver chose one of the module's functions */
		return value >= module->text_lo && value < module->text_hi ? MEANS_FUNCTION
									   : MEANS_OTHER;
	default:
		return MEANS_OTHER;
	}
}

static struct ht_err *meaning_of(struct scan *scan, const struct module *holder, uint32_t number,
	raddr_t value, enum meaning *ret)
{
	const struct scope_name *name;
	*ret = MEANS_OTHER;
	struct ht_err *err = scope_name(&scan->scope, holder, number, &name);
	for (size_t i = 0; !err && i < name->count && *ret == MEANS_OTHER; i++)
		*ret = symbol_meaning(holder, &name->symbol[i], value);
	return err;
}

/* The slot through which the executable's PLT entry for this function jumps. */
static const struct slot *slot_behind(
	const struct scan *scan, const struct module *executable, uint32_t name)
{
	for (size_t i = 0; i < scan->slots->count; i++) {
		const struct slot *slot = &scan->slots->slot[i];
		if (slot->module_id == executable->id && slot->name == name &&
			slot->type != ARCH_RELOC_WORD)
			return slot;
	}
	return NULL;
}

static struct ht_err *judge_canonical(
	struct scan *scan, struct slot *slot, const struct module *executable)
{
	const struct slot *behind = slot_behind(scan, executable, slot->name);
	const struct module *holder = behind ? modules_find(scan->modules, behind->value) : NULL;
	enum meaning meaning;
	if (!holder)
		return NULL;
	struct ht_err *err = meaning_of(scan, holder, slot->name, behind->value, &meaning);
	if (!err && meaning == MEANS_FUNCTION) {
		slot->verdict = SLOT_TAP;
		slot->real = behind->value;
	}
	return err;
}

/* An unbound slot leads to push $index in its PLT entry or, with the linker mold, to the head of
 * the PLT: push %r11; push GOT+8(%rip). An endbr64 may precede either. */
static bool is_binder(const uint8_t *code)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	static const uint8_t head[] = {0x41, 0x53, 0xff, 0x35};
	if (!memcmp(code, endbr64, sizeof(endbr64)))
		code += sizeof(endbr64);
	return *code == 0x68 || !memcmp(code, head, sizeof(head));
}

struct ht_err *slots_is_lazy(const struct proc *proc, raddr_t value, bool *ret)
{
	uint8_t code[BINDER_BYTES];
	size_t got;
	struct ht_err *err = memory_read_some(proc, value, code, sizeof(code), &got);
	*ret = !err && got == sizeof(code) && is_binder(code);
	return err;
}

/* The verdict for a value that is no function of that name: an offset within the module is not
 * relocated yet. */
static enum slot_verdict verdict_of(const struct module *own, uint64_t value)
{
	return value < own->hi - own->lo ? SLOT_EMPTY : SLOT_FOREIGN;
}

/* heaptap may bind a lazy slot only after its relocation: until then glibc adds the load bias to
 * its contents. */
static struct ht_err *judge_other(struct scan *scan, struct slot *slot, const struct module *own)
{
	bool lazy = false;
	struct ht_err *err = NULL;
	if (slot->type == ARCH_RELOC_PLT && slot->value >= own->text_lo &&
		slot->value < own->text_hi)
		err = slots_is_lazy(scan->proc, slot->value, &lazy);
	slot->verdict = lazy ? SLOT_UNRESOLVED : verdict_of(own, slot->value);
	return err;
}

/* `real` comes from the module's file: heaptap must not call another function for this word. */
static void judge_native(const struct scan *scan, struct slot *slot, const struct module *own)
{
	if (slot->value == slot->real)
		return;
	slot->real = 0;
	slot->verdict = is_ours(scan, slot->value) ? SLOT_OURS : verdict_of(own, slot->value);
}

static struct ht_err *judge(struct scan *scan, struct slot *slot)
{
	const struct module *own = modules_find(scan->modules, slot->addr);
	const struct module *holder = modules_find(scan->modules, slot->value);
	enum meaning meaning = MEANS_OTHER;
	if (!own) {
		slot->real = 0;
		slot->verdict = SLOT_FOREIGN;
		return NULL;
	}
	if (slot->type == ARCH_RELOC_RELATIVE) {
		judge_native(scan, slot, own);
		return NULL;
	}
	if (is_ours(scan, slot->value)) {
		slot->verdict = SLOT_OURS;
		return NULL;
	}
	if (module_is_foreign(scan->modules, own)) {
		slot->verdict = SLOT_SKIPPED;
		return NULL;
	}
	if (holder)
		HT_TRY(meaning_of(scan, holder, slot->name, slot->value, &meaning));
	if (meaning == MEANS_FUNCTION) {
		slot->verdict = SLOT_TAP;
		slot->real = slot->value;
	} else if (meaning == MEANS_CANONICAL_PLT) {
		slot->verdict = SLOT_UNRESOLVED;
		return judge_canonical(scan, slot, holder);
	} else {
		return judge_other(scan, slot, own);
	}
	return NULL;
}

/* A canonical PLT entry is bound for the module that contains it. */
static struct ht_err *bind(struct scan *scan, struct slot *slot)
{
	const struct module *binder = modules_find(scan->modules, slot->value);
	/* Another module's entry is bound by the reference of that module. */
	uint32_t symbol = binder && binder->id == slot->module_id ? slot->symbol : 0;
	return binder ? scope_bind(&scan->scope, binder, slot->name, symbol, &slot->real) : NULL;
}

/* musl's dynamic linker is the C library too: strdup and others call malloc through its slots. */
static struct ht_err *is_skipped(struct scan *scan, const struct module *module, bool *ret_skipped)
{
	*ret_skipped = module->vdso;
	if (!module->interpreter)
		return NULL;
	raddr_t start;
	struct ht_err *err = scope_symbol(&scan->scope, module, "__libc_start_main", &start);
	*ret_skipped = !err && !start;
	return err;
}

static struct ht_err *append(struct scan *scan, const struct slot *slot)
{
	struct slots *slots = scan->slots;
	if (slots->count == SLOTS_MAX)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d keeps addresses of allocator functions in more than %u places: "
			"its relocation tables are damaged",
			scan->proc->pid, SLOTS_MAX);
	if (!ARRAY_HAS_ROOM(slots->slot, slots->count, scan->capacity, 128))
		return no_memory(scan);
	slots->slot[slots->count++] = *slot;
	return NULL;
}

/* The verdict by the relocation alone; SLOT_TAP: the value decides. */
static enum slot_verdict verdict_before_value(const struct reloc *reloc, bool skipped)
{
	if (skipped)
		return SLOT_SKIPPED;
	bool is_data = reloc->type == ARCH_RELOC_WORD;
	/* A pointer that the program has copied would keep heaptap's page in the target: not worth
	 * it for a guard. */
	bool left_alone = is_data && (reloc->addend || abi_is_guard(reloc->hook));
	return left_alone || reloc->addr % sizeof(uint64_t) ? SLOT_DATA : SLOT_TAP;
}

static struct ht_err *collect_module(struct scan *scan, const struct module *module)
{
	HT_CLEANUP(relocs_deinit) struct relocs relocs = {0};
	bool skipped = false;
	HT_TRY(scope_relocs(&scan->scope, module, &relocs));
	if (relocs.count)
		HT_TRY(is_skipped(scan, module, &skipped));
	for (size_t i = 0; i < relocs.count; i++) {
		const struct reloc *reloc = &relocs.reloc[i];
		if (abi_is_mapping(reloc->hook) && !scan->with_mappings)
			continue;
		bool may = ambiguous_may_count(&scan->ambiguous, reloc->name);
		if (!may && !scan->with_names)
			continue;
		struct slot slot = {.addr = reloc->addr,
			.module_id = module->id,
			.type = reloc->type,
			.hook = reloc->hook,
			.name = reloc->name,
			.symbol = reloc->symbol,
			.verdict = verdict_before_value(reloc, skipped)};
		size_t got;
		HT_TRY(memory_read_some(
			scan->proc, slot.addr, &slot.value, sizeof(slot.value), &got));
		/* A thunk of an earlier capture leads to no module. */
		if (got == sizeof(slot.value) && (may || !modules_find(scan->modules, slot.value)))
			HT_TRY(append(scan, &slot));
	}
	return NULL;
}

static uint32_t name_of_native(const struct native *native)
{
	size_t index;
	return native->family->given && given_match(native->name, &index) == GIVEN_FUNCTION
		       ? (uint32_t)(TAP_NAME_GIVEN + index)
		       : (uint32_t)native->hook;
}

static struct ht_err *collect_natives(struct scan *scan, const struct module *module)
{
	const struct natives *natives = &module->natives;
	for (size_t i = 0; i < natives->word_count; i++) {
		const struct native *native = &natives->native[natives->word[i].index];
		struct slot slot = {.addr = natives->word[i].addr,
			.module_id = module->id,
			.type = ARCH_RELOC_RELATIVE,
			.hook = native->hook,
			.name = name_of_native(native),
			.verdict = SLOT_TAP,
			.real = native->addr};
		size_t got;
		if (native->role != FAMILY_HOOKED)
			continue;
		HT_TRY(memory_read_some(
			scan->proc, slot.addr, &slot.value, sizeof(slot.value), &got));
		if (got == sizeof(slot.value))
			HT_TRY(append(scan, &slot));
	}
	return NULL;
}

/* No relocation names this word: like a native's, it is judged by its value alone. */
static struct ht_err *collect_unlock(struct scan *scan)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	struct unlock_hooks hooks = {.lo = scan->thunk_lo, .hi = scan->thunk_hi};
	struct unlock unlock;
	if (scan->with_names) {
		HT_TRY(proc_maps_read(scan->proc, &maps));
		hooks.maps = &maps;
	}
	HT_TRY(unlock_find(&scan->scope, &hooks, &unlock));
	if (!unlock.addr)
		return NULL;
	return append(scan, &(struct slot){.addr = unlock.addr,
				    .value = unlock.value,
				    .module_id = unlock.module_id,
				    .type = ARCH_RELOC_RELATIVE,
				    .hook = ABI_GUARD_LOADED,
				    .name = ABI_GUARD_LOADED,
				    .verdict = SLOT_TAP,
				    .real = unlock.real});
}

static struct allocator_function *function_find(const struct slots *slots, const struct slot *slot)
{
	for (size_t i = 0; i < slots->function_count; i++)
		if (slots->function[i].addr == slot->real && slots->function[i].hook == slot->hook)
			return &slots->function[i];
	return NULL;
}

static void drop_others(struct scan *scan)
{
	struct slots *slots = scan->slots;
	size_t kept = 0;
	for (size_t i = 0; i < slots->count; i++)
		if (ambiguous_counts(&scan->ambiguous, &slots->slot[i]))
			slots->slot[kept++] = slots->slot[i];
	slots->count = kept;
}

bool slots_have_operators(const struct slots *slots)
{
	for (size_t i = 0; i < slots->count; i++)
		if (tap_name_is_operator(slots->slot[i].name) &&
			(slots->slot[i].real || slots->slot[i].verdict == SLOT_OURS))
			return true;
	return false;
}

const struct allocator_function *slots_function(const struct slots *slots, const struct slot *slot)
{
	return function_find(slots, slot);
}

static int compare_addr(const void *a, const void *b)
{
	const struct slot *left = a, *right = b;
	if (left->addr != right->addr)
		return left->addr < right->addr ? -1 : 1;
	/* The file's statement about a word goes before the name in its relocation, which may be
	 * ambiguous. */
	return (right->type == ARCH_RELOC_RELATIVE) - (left->type == ARCH_RELOC_RELATIVE);
}

static void drop_duplicates(struct slots *slots)
{
	size_t kept = 0;
	for (size_t i = 0; i < slots->count; i++)
		if (!kept || slots->slot[kept - 1].addr != slots->slot[i].addr)
			slots->slot[kept++] = slots->slot[i];
	slots->count = kept;
}

static struct ht_err *usable_size_of(
	struct scan *scan, const struct module *module, const struct slot *slot, raddr_t *ret)
{
	const struct native *native = natives_find(&module->natives, slot->real);
	*ret = native ? native->usable_size : 0;
	if (tap_name_is_given(slot->name) || tap_name_is_family(slot->name))
		return NULL;
	return slot->type == ARCH_RELOC_RELATIVE ? NULL
						 : scope_usable_size(&scan->scope, module, ret);
}

/* More functions than any program has: leaves the slot alone. */
static void leave(struct slots *slots, struct slot *slot, const struct module *module)
{
	slot->real = 0;
	slot->verdict = SLOT_FOREIGN;
	slots->partial_id = module->id;
}

static struct ht_err *function_add(struct scan *scan, struct slot *slot)
{
	struct slots *slots = scan->slots;
	const struct module *module = modules_find(scan->modules, slot->real);
	struct allocator_function *function = function_find(slots, slot);
	bool named = slot->type != ARCH_RELOC_RELATIVE && !tap_name_is_family(slot->name);
	if (function)
		function->named |= named;
	if (!module || function)
		return NULL;
	if (slots->function_count == FUNCTIONS_MAX) {
		leave(slots, slot, module);
		return NULL;
	}
	if (!ARRAY_HAS_ROOM(slots->function, slots->function_count, scan->function_capacity, 16))
		return no_memory(scan);
	function = &slots->function[slots->function_count++];
	*function = (struct allocator_function){.hook = slot->hook,
		.name = slot->name,
		.addr = slot->real,
		.module_id = module->id,
		.plain = ambiguous_plain(&scan->ambiguous, slot),
		.named = named};
	return usable_size_of(scan, module, slot, &function->usable_size);
}

static bool provides(const struct slots *slots, uint64_t module_id, enum abi_hook hook)
{
	for (size_t i = 0; i < slots->function_count; i++)
		if (slots->function[i].module_id == module_id && slots->function[i].hook == hook)
			return true;
	return false;
}

/* The function that returns the size of a block of the program's realloc; 0: none, several, or
 * unknown because some slots have hooks. A realloc that no slot names is not the one that another
 * library calls. */
static raddr_t usable_size_of_realloc(const struct slots *slots)
{
	raddr_t found = 0;
	for (size_t i = 0; i < slots->count; i++)
		if (slots->slot[i].hook == ABI_HOOK_REALLOC && slots->slot[i].verdict == SLOT_OURS)
			return 0;
	for (size_t i = 0; i < slots->function_count; i++) {
		const struct allocator_function *function = &slots->function[i];
		if (function->hook != ABI_HOOK_REALLOC || !function->named ||
			tap_name_is_given(function->name) || function->usable_size == found)
			continue;
		if (found)
			return 0;
		found = function->usable_size;
	}
	return found;
}

/* glibc's reallocarray calls whatever realloc the program has. If that is another allocator's,
 * glibc's malloc_usable_size must not touch the blocks. */
static void correct_foreign_sizes(struct slots *slots)
{
	for (size_t i = 0; i < slots->function_count; i++) {
		struct allocator_function *function = &slots->function[i];
		if (function->hook == ABI_HOOK_REALLOCARRAY && function->named &&
			!tap_name_is_given(function->name) &&
			!provides(slots, function->module_id, ABI_HOOK_REALLOC))
			function->usable_size = usable_size_of_realloc(slots);
	}
}

static struct ht_err *scan_run(struct scan *scan)
{
	struct slots *slots = scan->slots;
	struct ht_err *err = ambiguous_init(&scan->scope, &scan->ambiguous);
	for (size_t i = 0; i < scan->modules->count && !err; i++)
		err = collect_module(scan, &scan->modules->module[i]);
	for (size_t i = 0; i < scan->modules->count && !err && scan->with_natives; i++)
		err = collect_natives(scan, &scan->modules->module[i]);
	if (!err && scan->with_natives)
		err = collect_unlock(scan);
	slots->partial_id = scan->scope.partial_id;
	if (err || !slots->count)
		return err;
	qsort(slots->slot, slots->count, sizeof(*slots->slot), compare_addr);
	drop_duplicates(slots);
	for (size_t i = 0; i < slots->count && !err; i++)
		if (slots->slot[i].verdict == SLOT_TAP)
			err = judge(scan, &slots->slot[i]);
	for (size_t i = 0; i < slots->count && !err; i++)
		if (slots->slot[i].verdict == SLOT_UNRESOLVED)
			err = bind(scan, &slots->slot[i]);
	drop_others(scan);
	for (size_t i = 0; i < slots->count && !err; i++)
		if (slots->slot[i].real)
			err = function_add(scan, &slots->slot[i]);
	correct_foreign_sizes(slots);
	if (scan->scope.partial_id)
		slots->partial_id = scan->scope.partial_id;
	return err;
}

static struct ht_err *read_slots(struct scan *scan)
{
	*scan->slots = (struct slots){0};
	/* The functions of a static program are recorded by entry hooks alone: it also calls prctl
	 * and syscall without a slot. */
	scan->with_natives = !modules_are_static(scan->modules);
	struct ht_err *err = scope_init(scan->proc, scan->modules, &scan->scope);
	HT_THEN(err, scan_run(scan));
	scope_deinit(&scan->scope);
	ambiguous_deinit(&scan->ambiguous);
	if (err)
		slots_deinit(scan->slots);
	return err;
}

struct ht_err *slots_read(const struct proc *proc, const struct modules *modules, raddr_t thunk_lo,
	raddr_t thunk_hi, bool with_mappings, struct slots *ret)
{
	struct scan scan = {.proc = proc,
		.modules = modules,
		.thunk_lo = thunk_lo,
		.thunk_hi = thunk_hi,
		.with_mappings = with_mappings,
		.slots = ret};
	return read_slots(&scan);
}

struct ht_err *slots_read_left(
	const struct proc *proc, const struct modules *modules, struct slots *ret)
{
	struct scan scan = {.proc = proc,
		.modules = modules,
		.with_mappings = true,
		.with_names = true,
		.slots = ret};
	return read_slots(&scan);
}

void slots_deinit(struct slots *slots)
{
	free(slots->slot);
	free(slots->function);
	*slots = (struct slots){0};
}
