/* SPDX-License-Identifier: Apache-2.0
 *
 * What became of the functions that were given (--alloc-fn) in one target.
 */
#pragma once

#include "attach/got/coverage.h"
#include "attach/got/slots.h"

/* HT_ERR_REFUSED when one of them is nowhere in the target, or several functions of a module have
 * its name. */
HT_MUST_CHECK
struct ht_err *given_check(pid_t pid, const struct modules *modules, const struct slots *slots);
/* "arena_get as malloc (slots 2), arena_put as free (at its entry)"; "" when none was given.
 * malloc'd; NULL: no memory. */
char *given_describe(const struct slots *slots, const struct coverage *coverage);
