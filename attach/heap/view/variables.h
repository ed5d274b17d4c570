/* SPDX-License-Identifier: Apache-2.0
 *
 * A module's variables, among which a reader finds those of its allocator.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/heap/view/view.h"

/* From the first segment that its program can write to, to the last; false: there is none, or they
 * are further apart than any program's. */
bool variables_span(const struct module *module, raddr_t *ret_lo, raddr_t *ret_hi);

/* `data`: what is at `addr`, for this call. */
typedef struct ht_err *variables_visit(
	void *context, raddr_t addr, const uint8_t *data, size_t bytes);
/* Reads anew what the program has touched from `lo` to `hi`, and visits it piece by piece, in
 * ascending order: all of a page, or less at `hi`. Stops at the first error. */
HT_MUST_CHECK
struct ht_err *variables_each(
	struct view *view, raddr_t lo, raddr_t hi, variables_visit *visit, void *context);

struct variables {
	uint8_t *data; /* malloc'd; NULL: there are none, or too many */
	size_t bytes;
	raddr_t addr;
};

/* A copy of all of them. `touched`: what the program has not touched is 0, instead of what the
 * module's file has. */
HT_MUST_CHECK
struct ht_err *variables_read(
	struct view *view, const struct module *module, bool touched, struct variables *ret);
