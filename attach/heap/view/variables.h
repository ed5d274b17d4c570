/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a module's variables, among which readers look for those of its allocator.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/view.h"

/* The range from the first writable segment to the last. False: there is none, or they are further
 * apart than in any program. */
bool variables_span(const struct module *module, raddr_t *ret_lo, raddr_t *ret_hi);

/* `data`: contents at `addr`, valid during the call. */
typedef struct ht_err *variables_visit(
	void *context, raddr_t addr, const uint8_t *data, size_t bytes);
/* Reads anew the pages between `lo` and `hi` that the program has touched, and visits them piece by
 * piece in ascending order. A piece consists of whole pages, except at `hi`. Stops at the first
 * error. */
HT_MUST_CHECK
struct ht_err *variables_each(
	struct view *view, raddr_t lo, raddr_t hi, variables_visit *visit, void *context);

struct variables {
	uint8_t *data; /* malloc'd; NULL: the module has none, or too many */
	size_t bytes;
	raddr_t addr;
};

/* Copies all variables of the module; the caller frees `ret->data`. `touched`: untouched pages are
 * zeros instead of the contents of the module's file. */
HT_MUST_CHECK
struct ht_err *variables_read(
	struct view *view, const struct module *module, bool touched, struct variables *ret);
