/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/got/ambiguous.h"

#include <stdlib.h>

#include "attach/got/relocs.h"

static void find_families(struct ambiguous *ambiguous)
{
	for (size_t i = 0; i < ambiguous->modules->count; i++) {
		const struct natives *natives = &ambiguous->modules->module[i].natives;
		for (size_t n = 0; n < natives->count; n++) {
			const struct family *family = natives->native[n].family;
			ambiguous->families |= family->hooked && family->prefix[0];
		}
	}
}

struct ht_err *ambiguous_init(struct scope *scope, struct ambiguous *ret)
{
	bool any = false;
	struct ht_err *err = NULL;
	size_t count = scope->modules->count;
	*ret = (struct ambiguous){
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
		ambiguous_deinit(ret);
	return err;
}

void ambiguous_deinit(struct ambiguous *ambiguous)
{
	free(ambiguous->cxxops);
	ambiguous->cxxops = NULL;
}

bool ambiguous_may_count(const struct ambiguous *ambiguous, uint32_t name)
{
	return tap_name_is_operator(name) ? ambiguous->cxxops != NULL
	       : tap_name_is_family(name) ? ambiguous->families
					  : true;
}

static const struct cxxops *cxxops_at(const struct ambiguous *ambiguous, raddr_t addr)
{
	const struct module *module = modules_find(ambiguous->modules, addr);
	return module && ambiguous->cxxops ? &ambiguous->cxxops[module - ambiguous->modules->module]
					   : NULL;
}

static bool is_own_operator(const struct ambiguous *ambiguous, const struct slot *slot)
{
	const struct cxxops *ops = cxxops_at(ambiguous, slot->real);
	return ops && ops->own && (!abi_is_new(slot->hook) || cxxops_plain(ops, slot->hook));
}

static const struct native *native_of(const struct ambiguous *ambiguous, const struct slot *slot)
{
	const struct module *module = modules_find(ambiguous->modules, slot->real);
	return module ? natives_find(&module->natives, slot->real) : NULL;
}

/* One function may have several names. */
static bool is_like(enum abi_hook one, enum abi_hook other)
{
	return abi_is_new(one) == abi_is_new(other) && abi_shape_of(one) == abi_shape_of(other);
}

static bool is_of_family(const struct ambiguous *ambiguous, const struct slot *slot)
{
	const struct native *native = native_of(ambiguous, slot);
	return native && native->role == FAMILY_HOOKED && is_like(native->hook, slot->hook);
}

bool ambiguous_counts(const struct ambiguous *ambiguous, const struct slot *slot)
{
	bool is_operator = tap_name_is_operator(slot->name);
	if (!is_operator && !tap_name_is_family(slot->name))
		return true;
	if (!slot->real)
		return slot->verdict != SLOT_FOREIGN ||
		       !modules_find(ambiguous->modules, slot->value);
	return is_operator ? is_own_operator(ambiguous, slot) : is_of_family(ambiguous, slot);
}

raddr_t ambiguous_plain(const struct ambiguous *ambiguous, const struct slot *slot)
{
	const struct native *native = native_of(ambiguous, slot);
	const struct cxxops *ops = cxxops_at(ambiguous, slot->real);
	if (!abi_is_new(slot->hook))
		return 0;
	if (native && native->hook == slot->hook && native->plain)
		return native->plain;
	return ops ? cxxops_plain(ops, slot->hook) : 0;
}
