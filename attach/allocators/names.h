/* SPDX-License-Identifier: Apache-2.0
 *
 * All names under which functions with hooks are found, numbered.
 */
#pragma once

#include "attach/allocators/family.h"
#include "attach/allocators/given.h"
#include "attach/allocators/hooks.h"

/* The numbers, in this order: names of the hooks, C++ operators, names that the user has given
 * (given.h), and names of allocators with a prefix, which use hooks of other names. */
#define TAP_NAME_OPERATORS ABI_TAP_COUNT
#define TAP_NAME_GIVEN	   (TAP_NAME_OPERATORS + FAMILY_OPERATORS)
#define TAP_NAME_FAMILY	   (TAP_NAME_GIVEN + GIVEN_MAX)
#define TAP_NAMES_MAX	   (TAP_NAME_FAMILY + FAMILY_NAMES_MAX)
const char *tap_name(uint32_t name);
static inline bool tap_name_is_given(uint32_t name)
{
	return name >= TAP_NAME_GIVEN && name < TAP_NAME_FAMILY;
}
static inline bool tap_name_is_family(uint32_t name)
{
	return name >= TAP_NAME_FAMILY;
}
static inline bool tap_name_is_operator(uint32_t name)
{
	return name >= TAP_NAME_OPERATORS && name < TAP_NAME_GIVEN;
}
/* The hook for the function with that name. */
enum abi_hook tap_hook(uint32_t name);
