/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/heap.h"

#include <stdio.h>
#include <string.h>

#include "attach/heap/glibc/glibc.h"
#include "attach/heap/jemalloc/jemalloc.h"
#include "attach/heap/mimalloc/mimalloc.h"
#include "attach/heap/tcmalloc/tcmalloc.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Does the module define malloc itself, without a prefix? glibc does, and so do others. */
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
	struct heap_account account = {.reason = "heaptap cannot read its data structures"};
	snprintf(account.allocator, sizeof(account.allocator), "%s", allocator);
	add(heap, &account);
}

/* Each is tried once for a module. */
static const struct reader *const readers[] = {
	&jemalloc_reader, &mimalloc_reader, &tcmalloc_reader};

#define READERS HT_ARRAY_SIZE(readers)

static struct ht_err *add_read(struct heap *heap, struct view *view, const struct module *module,
	const struct reader *reader, bool *ret_found)
{
	struct heap_account account;
	HT_TRY(reader_read(reader, view, module, &account, ret_found));
	if (*ret_found)
		add(heap, &account);
	return NULL;
}

static size_t reader_of(const char *allocator)
{
	size_t i = 0;
	while (i < READERS && strcmp(allocator, readers[i]->allocator))
		i++;
	return i;
}

/* Reads the allocators whose names have a prefix, each once. `found`, by reader: was the allocator
 * read? */
static struct ht_err *add_natives(
	struct heap *heap, struct view *view, const struct module *module, bool *found)
{
	struct ht_err *err = NULL;
	bool looked[READERS + 1] = {false};
	for (size_t i = 0; i < module->natives.count && !err; i++) {
		const struct family *family = module->natives.native[i].family;
		if (!family->hooked || !family->prefix[0])
			continue;
		size_t k = reader_of(family->allocator);
		if (k < READERS && !looked[k])
			err = add_read(heap, view, module, readers[k], &found[k]);
		looked[k] = true;
		if (!err && !found[k])
			add_unknown(heap, family->allocator);
	}
	return err;
}

/* Is the module's malloc another name of an allocator that was read already? Of several names of
 * one function, only one is in `natives`. */
static bool is_other_name(const struct module *module, const bool *found)
{
	bool is_there[READERS + 1] = {false};
	for (size_t i = 0; i < module->natives.count; i++) {
		const struct native *native = &module->natives.native[i];
		const struct family *family = native->family;
		if (family->hooked && family->prefix[0] &&
			!strcmp(native->name + strlen(family->prefix), "malloc"))
			is_there[reader_of(family->allocator)] = true;
	}
	for (size_t i = 0; i < READERS; i++)
		if (found[i] && !is_there[i])
			return true;
	return false;
}

/* Reads the allocator behind the module's malloc, except those in `found_before`. */
static struct ht_err *add_plain(struct heap *heap, struct view *view, const struct module *module,
	const bool *found_before, struct heap_account *ret_unused)
{
	struct heap_account account;
	bool found = false;
	struct ht_err *err = NULL;
	for (size_t i = 0; i < READERS && !is_glibc(module) && !err && !found; i++)
		if (!found_before[i])
			err = add_read(heap, view, module, readers[i], &found);
	if (err || found)
		return err;
	HT_TRY(glibc_read(view, module, &account, &found));
	if (found && (account.arenas || !account.known))
		add(heap, &account);
	else if (found)
		*ret_unused = account;
	else if (is_glibc(module))
		*ret_unused = (struct heap_account){
			.allocator = "glibc", .reason = "its arenas were not found"};
	else if (!is_other_name(module, found_before))
		add_unknown(heap, base_name(module->path));
	return NULL;
}

struct ht_err *heap_read(const struct proc *proc, const struct modules *modules, struct heap *ret)
{
	struct view view;
	struct heap_account unused = {0};
	*ret = (struct heap){0};
	struct ht_err *err = view_init(&view, proc);
	view.pause_ns = VIEW_PAUSE_NS;
	for (size_t i = 0; i < modules->count && !err; i++) {
		const struct module *module = &modules->module[i];
		bool found[READERS + 1] = {false};
		err = add_natives(ret, &view, module, found);
		if (!err && (is_plain(module) || is_glibc(module)))
			err = add_plain(ret, &view, module, found, &unused);
	}
	HT_TRY(ht_err_first(err, view_deinit(&view)));
	/* An unused malloc is reported only if it is the only allocator: otherwise another one
	 * replaces it. */
	if (unused.allocator[0] && !ret->count)
		add(ret, &unused);
	return NULL;
}
