/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/got/belief.h"

#include <stdlib.h>

#include "attach/got/relocs.h"

static void find_families(struct belief *belief)
{
	for (size_t i = 0; i < belief->modules->count; i++) {
		const struct natives *natives = &belief->modules->module[i].natives;
		for (size_t n = 0; n < natives->count; n++) {
			const struct family *family = natives->native[n].family;
			belief->families |= family->hooked && family->prefix[0];
		}
	}
}

struct ht_err *belief_init(struct scope *scope, struct belief *ret)
{
	bool any = false;
	struct ht_err *err = NULL;
	size_t count = scope->modules->count;
	*ret = (struct belief){
		.modules = scope->modules, .cxxops = calloc(count + 1, sizeof(*ret->cxxops))};
	if (!ret->cxxops)
		return ht_err_new(
			HT_ERR_NOMEM, "no memory for the operators of %zu modules", count);
	find_families(ret);
	for (size_t i = 0; i < count && !err; i++) {
		err = cxxops_read(scope, &scope->modules->module[i], &ret->cxxops[i]);
		any |= ret->cxxops[i].own;
	}
	if (err || !any)
		belief_deinit(ret);
	return err;
}

void belief_deinit(struct belief *belief)
{
	free(belief->cxxops);
	belief->cxxops = NULL;
}

bool belief_may(const struct belief *belief, uint32_t name)
{
	return tap_name_is_operator(name) ? belief->cxxops != NULL
	       : tap_name_is_family(name) ? belief->families
					  : true;
}

static const struct cxxops *cxxops_at(const struct belief *belief, raddr_t addr)
{
	const struct module *module = modules_find(belief->modules, addr);
	return module && belief->cxxops ? &belief->cxxops[module - belief->modules->module] : NULL;
}

static bool is_own_operator(const struct belief *belief, const struct slot *slot)
{
	const struct cxxops *ops = cxxops_at(belief, slot->real);
	return ops && ops->own && (!abi_is_new(slot->hook) || cxxops_plain(ops, slot->hook));
}

static const struct native *native_of(const struct belief *belief, const struct slot *slot)
{
	const struct module *module = modules_find(belief->modules, slot->real);
	return module ? natives_find(&module->natives, slot->real) : NULL;
}

/* One function may have several names. */
static bool is_like(enum abi_hook one, enum abi_hook other)
{
	return abi_is_new(one) == abi_is_new(other) && abi_shape_of(one) == abi_shape_of(other);
}

static bool is_of_family(const struct belief *belief, const struct slot *slot)
{
	const struct native *native = native_of(belief, slot);
	return native && native->role == FAMILY_HOOKED && is_like(native->hook, slot->hook);
}

bool belief_holds(const struct belief *belief, const struct slot *slot)
{
	bool is_operator = tap_name_is_operator(slot->name);
	if (!is_operator && !tap_name_is_family(slot->name))
		return true;
	if (!slot->real)
		return slot->verdict != SLOT_FOREIGN || !modules_find(belief->modules, slot->value);
	return is_operator ? is_own_operator(belief, slot) : is_of_family(belief, slot);
}

raddr_t belief_plain(const struct belief *belief, const struct slot *slot)
{
	const struct native *native = native_of(belief, slot);
	const struct cxxops *ops = cxxops_at(belief, slot->real);
	if (!abi_is_new(slot->hook))
		return 0;
	if (native && native->hook == slot->hook && native->plain)
		return native->plain;
	return ops ? cxxops_plain(ops, slot->hook) : 0;
}
