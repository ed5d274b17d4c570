/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/allocators/given_add.h"

#include <ctype.h>
#include <string.h>

#include "attach/allocators/family.h"
#include "attach/allocators/hooks.h"

static struct ht_err *usage_error(const char *text, const char *why)
{
	return ht_err_new(HT_ERR_USAGE, "--alloc-fn %.200s: %s", text, why);
}

/* Characters that symbols of C, C++ and Rust consist of. */
static bool is_name(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("_.$", text[i]))
			return false;
	return length > 0 && !isdigit((unsigned char)text[0]);
}

/* The hook of that name; ABI_TAP_COUNT: none. */
static enum abi_hook hook_named(const char *name)
{
	enum abi_hook hook = 0;
	while (hook < ABI_TAP_COUNT && strcmp(name, hook_name(hook)) != 0)
		hook++;
	return hook;
}

static struct ht_err *check_name(const char *text, const char *name)
{
	struct family_member member;
	/* Functions of the C library have hooks by their names, whichever module defines them. */
	if (hook_named(name) != ABI_TAP_COUNT)
		return usage_error(text, "that function needs no option");
	if (family_find_known(name, &member) &&
		(member.role != FAMILY_HOOKED || member.if_released))
		return usage_error(
			text, "that function may throw, or has a calling convention of its own");
	return NULL;
}

struct ht_err *given_add(struct given_list *list, const char *text)
{
	const char *sign = strchr(text, '=');
	struct given given = {0};
	if (!sign)
		return usage_error(text, "expected NAME=KIND, for example my_alloc=malloc");
	size_t length = (size_t)(sign - text);
	if (!is_name(text, length))
		return usage_error(text, "the name of a function is missing before the =");
	if (length >= sizeof(given.name))
		return usage_error(text, "the name is longer than 127 characters");
	memcpy(given.name, text, length);
	given.hook = hook_named(sign + 1);
	if (given.hook >= ABI_HOOK_COUNT)
		return usage_error(text,
			"KIND must be malloc, calloc, realloc, free, posix_memalign, "
			"aligned_alloc, memalign, valloc, pvalloc, reallocarray, cfree, "
			"mallocx, rallocx, xallocx, dallocx or sdallocx");
	HT_TRY(check_name(text, given.name));
	for (uint32_t i = 0; i < list->count; i++)
		if (!strcmp(list->given[i].name, given.name))
			return usage_error(text, "this name was already given");
	if (list->count == GIVEN_MAX)
		return usage_error(text, "at most 16 functions can be given");
	list->given[list->count++] = given;
	return NULL;
}
