/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/heap.h"

#include <stdio.h>
#include <string.h>

#include "attach/heap/glibc.h"
#include "attach/heap/jemalloc.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Has the module a malloc by its plain name? glibc, as well as others. */
static bool is_plain(const struct module *module)
{
	for (size_t i = 0; i < module->natives.count; i++) {
		const struct native *native = &module->natives.native[i];
		if (native->family->hooked && !native->family->prefix[0] &&
			native->hook == ABI_HOOK_MALLOC && native->role == FAMILY_HOOKED)
			return true;
	}
	return false;
}

static bool is_glibc(const struct module *module)
{
	return strncmp(base_name(module->path), "libc.so", 7) == 0 ||
	       strncmp(base_name(module->path), "libc-2", 6) == 0;
}

static void add(struct heap *heap, const struct heap_account *account)
{
	for (size_t i = 0; i < heap->count; i++)
		if (!account->known && !strcmp(heap->account[i].allocator, account->allocator))
			return;
	if (heap->count < HEAP_ACCOUNTS_MAX)
		heap->account[heap->count++] = *account;
}

static void add_unknown(struct heap *heap, const char *allocator)
{
	struct heap_account account = {.reason = "heaptap cannot read its books"};
	snprintf(account.allocator, sizeof(account.allocator), "%s", allocator);
	add(heap, &account);
}

static struct ht_err *add_jemalloc(
	struct heap *heap, struct view *view, const struct module *module, bool *ret_found)
{
	struct heap_account account;
	struct ht_err *err = jemalloc_read(view, module, &account, ret_found);
	if (!err && *ret_found)
		add(heap, &account);
	return err;
}

/* Allocators by names of their own, each once. */
static struct ht_err *add_natives(struct heap *heap, struct view *view, const struct module *module)
{
	struct ht_err *err = NULL;
	bool looked = false, found = false;
	for (size_t i = 0; i < module->natives.count && !err; i++) {
		const struct family *family = module->natives.native[i].family;
		if (!family->hooked || !family->prefix[0])
			continue;
		bool is_jemalloc = !strcmp(family->allocator, "jemalloc");
		if (is_jemalloc && !looked)
			err = add_jemalloc(heap, view, module, &found);
		looked |= is_jemalloc;
		if (!err && (!is_jemalloc || !found))
			add_unknown(heap, family->allocator);
	}
	return err;
}

static struct ht_err *add_plain(
	struct heap *heap, struct view *view, const struct module *module, bool *ret_unused)
{
	struct heap_account account;
	bool found = false;
	struct ht_err *err = NULL;
	if (!is_glibc(module))
		err = add_jemalloc(heap, view, module, &found);
	if (err || found)
		return err;
	err = glibc_read(view, module, &account, &found);
	if (err)
		return err;
	if (found)
		add(heap, &account);
	else if (is_glibc(module))
		*ret_unused = true;
	else
		add_unknown(heap, base_name(module->path));
	return NULL;
}

struct ht_err *heap_read(const struct proc *proc, const struct modules *modules, struct heap *ret)
{
	struct view view;
	bool unused = false;
	*ret = (struct heap){0};
	struct ht_err *err = view_init(&view, proc);
	for (size_t i = 0; i < modules->count && !err; i++) {
		const struct module *module = &modules->module[i];
		err = add_natives(ret, &view, module);
		if (!err && (is_plain(module) || is_glibc(module)))
			err = add_plain(ret, &view, module, &unused);
	}
	err = ht_err_first(err, view_deinit(&view));
	/* Another allocator that is loaded before it leaves it no work. */
	if (!err && unused && !ret->count)
		add(ret, &(struct heap_account){
				 .allocator = "glibc", .reason = "its arenas were not found"});
	return err;
}
