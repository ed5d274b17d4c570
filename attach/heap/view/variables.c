/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/view/variables.h"

#include <elf.h>

#define SPAN_MAX (1ull << 30)

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
