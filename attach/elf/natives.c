/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/natives.h"

#include <stdlib.h>
#include <string.h>

#define NEEDS_MAX 128u

static struct ht_err *no_memory(void)
{
	return ht_err_new(HT_ERR_NOMEM, "no memory for the allocators linked into a module");
}

struct ht_err *natives_add_need(struct natives *natives, const char *name)
{
	struct family_member member;
	if (!family_find_known(name, &member) || !member.family->hooked ||
		!member.family->prefix[0] || natives_need(natives, name))
		return NULL;
	if (natives->need_count == NEEDS_MAX) {
		natives->partial = true;
		return NULL;
	}
	char **grown = reallocarray(natives->need, natives->need_count + 1, sizeof(*natives->need));
	if (!grown)
		return no_memory();
	natives->need = grown;
	grown[natives->need_count] = strdup(name);
	if (!grown[natives->need_count])
		return no_memory();
	natives->need_count++;
	return NULL;
}

bool natives_need(const struct natives *natives, const char *name)
{
	for (size_t i = 0; i < natives->need_count; i++)
		if (!strcmp(natives->need[i], name))
			return true;
	return false;
}

struct ht_err *natives_copy(const struct natives *from, struct natives *ret)
{
	*ret = *from;
	ret->native = NULL;
	ret->word = NULL;
	ret->need = NULL;
	ret->count = ret->word_count = ret->need_count = 0;
	for (size_t i = 0; i < from->need_count; i++) {
		struct ht_err *err = natives_add_need(ret, from->need[i]);
		if (err) {
			natives_deinit(ret);
			return err;
		}
	}
	if (!from->count)
		return NULL;
	ret->native = calloc(from->count, sizeof(*ret->native));
	ret->word = calloc(from->word_count + 1, sizeof(*ret->word));
	if (ret->word && from->word_count)
		memcpy(ret->word, from->word, from->word_count * sizeof(*ret->word));
	ret->word_count = from->word_count;
	bool whole = ret->native && ret->word;
	for (; whole && ret->count < from->count; ret->count++) {
		ret->native[ret->count] = from->native[ret->count];
		ret->native[ret->count].name = strdup(from->native[ret->count].name);
		whole = ret->native[ret->count].name != NULL;
	}
	if (whole)
		return NULL;
	natives_deinit(ret);
	return no_memory();
}

void natives_deinit(struct natives *natives)
{
	for (size_t i = 0; i < natives->count; i++)
		free(natives->native[i].name);
	for (size_t i = 0; i < natives->need_count; i++)
		free(natives->need[i]);
	free(natives->need);
	free(natives->native);
	free(natives->word);
	*natives = (struct natives){0};
}

static int compare(const void *key, const void *element)
{
	raddr_t addr = *(const raddr_t *)key;
	const struct native *native = element;
	return (addr > native->addr) - (addr < native->addr);
}

const struct native *natives_find(const struct natives *natives, raddr_t addr)
{
	return natives->count ? bsearch(&addr, natives->native, natives->count,
					sizeof(*natives->native), compare)
			      : NULL;
}
