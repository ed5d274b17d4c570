/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/got/unlock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "attach/elf/modules.h"
#include "attach/memory/memory.h"
#include "attach/memory/ours.h"
#include "attach/memory/proc_maps.h"
#include "format/array.h"

#define DATA_MAX_BYTES (1u << 20) /* glibc's has ten kilobytes */
#define FUNCTION       "pthread_mutex_unlock"

static const struct module *find_linker(const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (modules->module[i].interpreter)
			return &modules->module[i];
	return NULL;
}

/* Finds pthread_mutex_unlock in the C library or its thread library: the dynamic linker calls no
 * other function of that name. */
static struct ht_err *find_function(struct scope *scope, raddr_t *ret)
{
	static const char *const sonames[] = {"libc.so.6", "libpthread.so.0"};
	const struct modules *modules = scope->modules;
	*ret = 0;
	for (size_t i = 0; i < modules->count && !*ret; i++) {
		const struct module *module = &modules->module[i];
		const struct dynamic *dynamic;
		if (module->space || !module->order || module->interpreter)
			continue;
		HT_TRY(scope_dynamic(scope, module, &dynamic));
		for (size_t k = 0; k < HT_ARRAY_SIZE(sonames) && !*ret; k++)
			if (!strcmp(dynamic->soname, sonames[k]))
				HT_TRY(scope_symbol(scope, module, FUNCTION, ret));
	}
	return NULL;
}

static bool is_hook(const struct unlock_hooks *hooks, raddr_t value)
{
	const struct proc_map *map = hooks->maps ? proc_maps_find(hooks->maps, value) : NULL;
	return hooks->maps ? map && ours_is(map->name) : value >= hooks->lo && value < hooks->hi;
}

/* Counts the words of the segment that hold the function's address or lead to a hook; `unlock`
 * becomes the last of them. */
static struct ht_err *search(const struct scope *scope, const struct module *linker,
	const struct module_segment *segment, const struct unlock_hooks *hooks,
	struct unlock *unlock, size_t *count)
{
	raddr_t lo = ht_align_up(linker->bias + segment->vaddr, sizeof(uint64_t));
	size_t bytes = segment->filesz, got = 0;
	HT_FREED uint64_t *word = bytes <= DATA_MAX_BYTES ? malloc(bytes + 1) : NULL;
	if (word)
		HT_TRY(memory_read_some(scope->proc, lo, word, bytes, &got));
	for (size_t i = 0; i < got / sizeof(*word); i++) {
		if (word[i] != unlock->real && !is_hook(hooks, word[i]))
			continue;
		unlock->addr = lo + i * sizeof(*word);
		unlock->value = word[i];
		(*count)++;
	}
	return NULL;
}

struct ht_err *unlock_find(
	struct scope *scope, const struct unlock_hooks *hooks, struct unlock *ret)
{
	const struct module *linker = find_linker(scope->modules);
	struct unlock unlock = {.module_id = linker ? linker->id : 0};
	size_t count = 0;
	*ret = (struct unlock){0};
	if (!linker)
		return NULL;
	HT_TRY(find_function(scope, &unlock.real));
	for (size_t i = 0; i < linker->segment_count && unlock.real; i++)
		if (linker->segment[i].flags & PF_W)
			HT_TRY(search(scope, linker, &linker->segment[i], hooks, &unlock, &count));
	if (count == 1)
		*ret = unlock;
	return NULL;
}

/* Since 2.35 glibc unlocks before it calls constructors, and exports this symbol. */
#define SIGN_OF_2_35 "_dl_find_object"

#define WORDS_PER_LOCK (sizeof(pthread_mutex_t) / sizeof(uint64_t))
#define WORD_OF_KIND   2u /* __kind in the lower half, __spins in the upper */
#define LOCKS_MAX      3u

/* Is it an unshared recursive mutex: no bits but the kind's from the third word on? */
static bool is_lock(const uint64_t *word)
{
	return word[WORD_OF_KIND] == PTHREAD_MUTEX_RECURSIVE && !word[3] && !word[4];
}

/* The locks of dlopen, of the lists and, since 2.34, of thread-local storage stand in a row. */
static void find_locks(
	const uint64_t *word, size_t count, raddr_t lo, struct unlock_locks *ret, size_t *ret_found)
{
	for (size_t i = 0; i + WORDS_PER_LOCK <= count;) {
		size_t run = 0;
		while (i + (run + 1) * WORDS_PER_LOCK <= count &&
			is_lock(word + i + run * WORDS_PER_LOCK))
			run++;
		if (run == LOCKS_MAX - 1 || run == LOCKS_MAX) {
			raddr_t first = lo + i * sizeof(*word);
			ret->lists = first + sizeof(pthread_mutex_t);
			ret->done = run == LOCKS_MAX ? ret->lists + sizeof(pthread_mutex_t) : first;
			(*ret_found)++;
		}
		i += run > 1 ? run * WORDS_PER_LOCK : 1;
	}
}

static struct ht_err *is_early(const struct proc *proc, const struct modules *modules, bool *ret)
{
	raddr_t sign = 0;
	for (size_t i = 0; i < modules->count && !sign; i++)
		if (!modules->module[i].space && modules->module[i].order)
			HT_TRY(module_symbol(proc, &modules->module[i], SIGN_OF_2_35, NULL, &sign));
	*ret = sign != 0;
	return NULL;
}

struct ht_err *unlock_locks(
	const struct proc *proc, const struct modules *modules, struct unlock_locks *ret)
{
	struct unlock_locks locks = {0};
	size_t found = 0;
	const struct module *linker = find_linker(modules);
	*ret = locks;
	if (!linker)
		return NULL;
	for (size_t i = 0; i < linker->segment_count; i++) {
		const struct module_segment *segment = &linker->segment[i];
		raddr_t lo = ht_align_up(linker->bias + segment->vaddr, sizeof(uint64_t));
		size_t bytes = segment->memsz, got = 0;
		if (!(segment->flags & PF_W) || bytes > DATA_MAX_BYTES)
			continue;
		HT_FREED uint64_t *word = malloc(bytes + 1);
		if (word)
			HT_TRY(memory_read_some(proc, lo, word, bytes, &got));
		find_locks(word, got / sizeof(*word), lo, &locks, &found);
	}
	if (found != 1)
		return NULL;
	*ret = locks;
	return is_early(proc, modules, &ret->before_constructors);
}
