/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/got/cxxops.h"

#include <string.h>

#define OPERATOR_NEW "_Znwm"

/* Libraries that are recognised by their symbols. */
static const struct {
	const char *soname;  /* DT_SONAME begins with it; NULL: any */
	const char *same;    /* has the address of operator new; NULL: none */
	const char *release; /* exists, except in the debug build */
	const char *bytes, *aligned;
} known[] = {
	/* No exported symbol of jemalloc leads to its operators. */
	{"libjemalloc.so", NULL, "mallocx", "malloc", "aligned_alloc"},
	{NULL, "tc_new", FAMILY_TCMALLOC_RELEASE, "tc_malloc_skip_new_handler", "tc_memalign"},
	/* aligned_alloc would require an alignment that divides the size. */
	{NULL, "mi_new", "mi_new", "mi_malloc", "mi_memalign"},
};

/* A linked-in allocator has names in the file. */
static bool natives_tell(const struct natives *natives, raddr_t operator_new, struct cxxops *ret)
{
	const struct native *its = natives_find(natives, operator_new);
	if (!its || its->role != FAMILY_HOOKED || its->hook != ABI_NEW_BYTES)
		return false;
	ret->bytes = its->plain;
	for (size_t i = 0; i < natives->count; i++)
		if (natives->native[i].family == its->family &&
			natives->native[i].hook == ABI_NEW_ALIGNED)
			ret->aligned = natives->native[i].plain;
	ret->own = ret->bytes && ret->aligned;
	return ret->own;
}

static struct ht_err *fits(struct scope *scope, const struct module *module, size_t index,
	raddr_t operator_new, bool *ret)
{
	const struct dynamic *dynamic;
	raddr_t same = operator_new, release = 0;
	*ret = false;
	struct ht_err *err = scope_dynamic(scope, module, &dynamic);
	if (err || (known[index].soname && strncmp(dynamic->soname, known[index].soname,
						   strlen(known[index].soname)) != 0))
		return err;
	if (known[index].same)
		err = scope_symbol(scope, module, known[index].same, &same);
	if (!err && same == operator_new)
		err = scope_symbol(scope, module, known[index].release, &release);
	*ret = !err && release;
	return err;
}

struct ht_err *cxxops_read(struct scope *scope, const struct module *module, struct cxxops *ret)
{
	raddr_t operator_new;
	bool found = false;
	*ret = (struct cxxops){0};
	struct ht_err *err = scope_symbol(scope, module, OPERATOR_NEW, &operator_new);
	if (err || !operator_new || natives_tell(&module->natives, operator_new, ret))
		return err;
	for (size_t i = 0; !err && !found && i < HT_ARRAY_SIZE(known); i++) {
		err = fits(scope, module, i, operator_new, &found);
		if (!err && found)
			err = scope_symbol(scope, module, known[i].bytes, &ret->bytes);
		if (!err && found)
			err = scope_symbol(scope, module, known[i].aligned, &ret->aligned);
	}
	ret->own = !err && ret->bytes && ret->aligned;
	return err;
}

raddr_t cxxops_plain(const struct cxxops *ops, enum abi_hook hook)
{
	return hook == ABI_NEW_BYTES ? ops->bytes : hook == ABI_NEW_ALIGNED ? ops->aligned : 0;
}
