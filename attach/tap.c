/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/tap.h"

static const char *const hook_names[ABI_HOOK_COUNT] = {
#define X(id, name, shape, arity) #name,
	ABI_HOOKS(X)
#undef X
};

static const enum abi_shape hook_shapes[ABI_HOOK_COUNT] = {
#define X(id, name, shape, arity) ABI_SHAPE_##shape,
	ABI_HOOKS(X)
#undef X
};

/* Meets one function after the other; knows whether all were the same. */
struct sole {
	raddr_t addr;
	bool several;
};

static void sole_meet(struct sole *sole, raddr_t addr)
{
	sole->several |= sole->addr && sole->addr != addr;
	sole->addr = addr;
}

/* The one function that every bound slot of `hook` leads to, tapped ones included; 0: none, or
 * more. */
static raddr_t sole_function(const struct tap *tap, enum abi_hook hook)
{
	const struct slots *slots = &tap->survey->slots;
	struct sole sole = {0};

	for (size_t i = 0; i < slots->function_count; i++)
		if (slots->function[i].hook == hook)
			sole_meet(&sole, slots->function[i].addr);
	for (size_t i = 0; i < tap->image->thunk_count; i++)
		if (tap->image->thunk[i].hook == hook)
			sole_meet(&sole, tap->image->thunk[i].real);
	return sole.several ? 0 : sole.addr;
}

/* The one module that defines `name`; 0: none, or more. */
static struct ht_err *sole_definition(const struct survey *survey, const char *name, raddr_t *ret)
{
	struct sole sole = {0};

	for (size_t i = 0; i < survey->modules.count; i++) {
		raddr_t addr = 0;
		struct ht_err *err =
			module_symbol(&survey->proc, &survey->modules.module[i], name, &addr);
		if (err && err->code != HT_ERR_FORMAT)
			return err;
		ht_err_free(err);
		if (addr)
			sole_meet(&sole, addr);
	}
	*ret = sole.several ? 0 : sole.addr;
	return NULL;
}

/*
 * What the dynamic linker would bind an unbound slot to; 0 where we are not certain. Its like are
 * bound to it; or nobody has called it yet, then it comes from where malloc comes from, if that has
 * one, or from the only module that has.
 */
static struct ht_err *bind_target(const struct tap *tap, const struct slot *slot, raddr_t *ret)
{
	const struct survey *survey = tap->survey;
	raddr_t malloc_addr = sole_function(tap, ABI_HOOK_MALLOC);

	*ret = sole_function(tap, slot->hook);
	if (*ret || !malloc_addr)
		return NULL;
	const struct module *module = modules_find(&survey->modules, malloc_addr);
	struct ht_err *err = NULL;
	if (module)
		err = module_symbol(&survey->proc, module, hook_names[slot->hook], ret);
	if (err || *ret)
		return err;
	return sole_definition(survey, hook_names[slot->hook], ret);
}

static unsigned usable_index(struct image *image, raddr_t usable)
{
	struct abi_config *config = image_config(image);
	unsigned i;

	if (!usable)
		return 0;
	/* Entry 0 stays 0: no such function. */
	for (i = 1; i < ABI_USABLE_MAX && config->usable[i]; i++)
		if (config->usable[i] == usable)
			return i;
	if (i == ABI_USABLE_MAX)
		return 0;
	config->usable[i] = usable;
	return i;
}

/* What measures the blocks that `real` is given. A slot that we bound ourselves, or one found
 * later, is no function of the survey: its blocks are those of the allocator which frees them. */
static struct ht_err *usable_of(
	const struct tap *tap, const struct slot *slot, raddr_t real, raddr_t *ret)
{
	const struct survey *survey = tap->survey;
	const struct slots *slots = &survey->slots;

	for (size_t i = 0; i < slots->function_count; i++) {
		if (slots->function[i].hook != slot->hook || slots->function[i].addr != real)
			continue;
		*ret = slots->function[i].usable_size;
		return NULL;
	}
	const struct module *freeing =
		modules_find(&survey->modules, sole_function(tap, ABI_HOOK_FREE));
	*ret = 0;
	return freeing ? module_symbol(&survey->proc, freeing, "malloc_usable_size", ret) : NULL;
}

static struct ht_err *tap_one(struct tap *tap, const struct slot *slot)
{
	const struct survey *survey = tap->survey;
	raddr_t real = slot->real, usable = 0, entry;
	bool done;
	struct ht_err *err = NULL;

	if (slot->verdict == SLOT_UNRESOLVED)
		err = bind_target(tap, slot, &real);
	if (err || !real)
		return err;
	const struct module *module = modules_find(&survey->modules, real);
	err = usable_of(tap, slot, real, &usable);
	if (err)
		return err;
	struct image_thunk want = {.hook = slot->hook,
		.real = real,
		.real_lo = module ? module->text_lo : 0,
		.real_len = module ? module->text_hi - module->text_lo : 0,
		.usable_index = usable_index(tap->image, usable)};
	err = image_thunk(tap->image, &want, &entry);
	if (err)
		return err;
	err = image_enable(tap->image, tap->elf, entry);
	if (err)
		return err;
	err = patch_tap(&survey->proc, &survey->maps, slot, entry, tap->journal, &done);
	tap->tapped += !err && done;
	return err;
}

/* Frees, then what frees and allocates, then allocations. */
static int tap_order(enum abi_shape shape)
{
	switch (shape) {
	case ABI_SHAPE_FREE:
		return 0;
	case ABI_SHAPE_REALLOC:
		return 1;
	case ABI_SHAPE_ALLOC:
	case ABI_SHAPE_OUT:
		break;
	}
	return 2;
}

struct ht_err *tap_slots(struct tap *tap)
{
	const struct slots *slots = &tap->survey->slots;
	struct ht_err *err = NULL;

	for (int round = 0; round <= 2; round++)
		for (size_t i = 0; !err && i < slots->count; i++) {
			const struct slot *slot = &slots->slot[i];
			bool wanted = slot->verdict == SLOT_TAP || slot->verdict == SLOT_UNRESOLVED;
			if (wanted && tap_order(hook_shapes[slot->hook]) == round)
				err = tap_one(tap, slot);
		}
	return err;
}
