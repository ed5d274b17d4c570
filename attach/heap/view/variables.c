/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/view/variables.h"

#include <elf.h>
#include <stdlib.h>

#define SPAN_MAX       (1ull << 30)
#define PIECE_BYTES    65536u	   /* in one read */
#define DATA_BYTES_MAX (16u << 20) /* of a copy */

bool variables_span(const struct module *module, raddr_t *ret_lo, raddr_t *ret_hi)
{
	*ret_lo = UINT64_MAX;
	*ret_hi = 0;
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segment[i];
		raddr_t at = module->bias + segment->vaddr;
		if (!(segment->flags & PF_W))
			continue;
		*ret_lo = at < *ret_lo ? at : *ret_lo;
		*ret_hi = at + segment->memsz > *ret_hi ? at + segment->memsz : *ret_hi;
	}
	*ret_lo = ht_align_down(*ret_lo, sizeof(raddr_t));
	return *ret_hi > *ret_lo && *ret_hi - *ret_lo <= SPAN_MAX;
}

struct ht_err *variables_each(
	struct view *view, raddr_t lo, raddr_t hi, variables_visit *visit, void *context)
{
	uint8_t data[PIECE_BYTES];
	struct ht_err *err = NULL;
	raddr_t end;
	view_forget(view);
	for (raddr_t at = lo; !err && view_touched(view, &at, hi, &end);) {
		size_t bytes = end - at < sizeof(data) ? end - at : sizeof(data);
		err = visit(context, at, data, view_read_data(view, at, data, bytes));
		at += bytes;
	}
	return err;
}

struct ht_err *variables_read(
	struct view *view, const struct module *module, bool touched, struct variables *ret)
{
	raddr_t lo, hi, end;
	*ret = (struct variables){0};
	if (!variables_span(module, &lo, &hi) || hi - lo > DATA_BYTES_MAX)
		return NULL;
	*ret = (struct variables){calloc(1, hi - lo), hi - lo, lo};
	if (!ret->data)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the variables of a module");
	if (!touched)
		ret->bytes = view_read_data(view, lo, ret->data, hi - lo);
	for (raddr_t at = lo; touched && view_touched(view, &at, hi, &end); at = end)
		(void)view_read_data(view, at, ret->data + (at - lo), end - at);
	return NULL;
}
