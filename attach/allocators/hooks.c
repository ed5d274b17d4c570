/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/allocators/hooks.h"

static const char *const hook_names[ABI_TAP_COUNT] = {
#define X(id, name, shape, arity) #name,
	ABI_HOOKS(X)
#undef X
#define X(id, name, recorded) "operator " #name,
		ABI_NEWS(X)
#undef X
#define X(id, name, arity) #name,
			ABI_SIZED_FREES(X)
#undef X
#define X(id, name) #name,
				ABI_GUARDS(X)
#undef X
#define X(id, name, arity) #name,
					ABI_MAPPINGS(X)
#undef X
};

const char *hook_name(enum abi_hook hook)
{
	return hook_names[hook];
}
