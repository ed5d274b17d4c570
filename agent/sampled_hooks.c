/* SPDX-License-Identifier: Apache-2.0
 *
 * The hooks of sampling captures, compiled separately: the hooks that record everything must not
 * pay for sampling.
 */
#define HOOKS_SAMPLED true
#define HOOK(name)    heaptap_sampled_##name
#define NEW(name)     sampled_hooks_##name

#include "agent/hooks.c"
