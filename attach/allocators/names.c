/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/allocators/names.h"

const char *tap_name(uint32_t name)
{
	if (tap_name_is_operator(name))
		return family_operator(name - TAP_NAME_OPERATORS)->name;
	if (tap_name_is_family(name))
		return family_name(name - TAP_NAME_FAMILY);
	return tap_name_is_given(name) ? given_used()->given[name - TAP_NAME_GIVEN].name
				       : hook_name((enum abi_hook)name);
}

enum abi_hook tap_hook(uint32_t name)
{
	struct family_member member;
	if (tap_name_is_family(name))
		return family_find_known(tap_name(name), &member) ? member.hook : ABI_HOOK_COUNT;
	if (tap_name_is_operator(name))
		return family_operator(name - TAP_NAME_OPERATORS)->hook;
	return tap_name_is_given(name)
		       ? (enum abi_hook)given_used()->given[name - TAP_NAME_GIVEN].hook
		       : (enum abi_hook)name;
}
