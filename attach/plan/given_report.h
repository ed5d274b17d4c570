/* SPDX-License-Identifier: Apache-2.0
 *
 * How the functions named by the user (--alloc-fn) are recorded in one target.
 */
#pragma once

#include "attach/got/coverage.h"
#include "attach/got/slots.h"

/* HT_ERR_REFUSED if one of the functions is nowhere in the target, or if several functions of a
 * module have its name. */
HT_MUST_CHECK
struct ht_err *given_check(pid_t pid, const struct modules *modules, const struct slots *slots);
/* "arena_get as malloc (recorded addresses: 2), arena_put as free (at its entry)"; "" if the user
 * named none. malloc'd; NULL: no memory. */
char *given_describe(const struct slots *slots, const struct coverage *coverage);
