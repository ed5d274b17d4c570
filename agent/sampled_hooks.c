/* SPDX-License-Identifier: Apache-2.0
 *
 * The hooks once more, for captures of a sample: those that record everything are to pay nothing
 * for it.
 */
#define HOOKS_SAMPLED true
#define HOOK(name)    heaptap_sampled_##name
#define NEW(name)     sampled_hooks_##name

#include "agent/hooks.c"
