/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/collections.h"

#include <string.h>

#include "attach/target/memory.h"

#define CODE_MAX    4096u /* of the collector: it has some 800 bytes */
#define CHUNK_BYTES (256u << 10)
#define FIELD_END   0x10000 /* no heap is as large */

/* addl $1, N(%reg): bytes before N. Of the register the encoding says anything but rsp, which r12
 * has in common with it: a SIB byte more. */
static int32_t count_in(const uint8_t *code, size_t bytes)
{
	int32_t at;
	if (bytes < 8 || code[0] != 0x83 || (code[1] & 0xf8) != 0x80)
		return -1;
	bool has_sib = code[1] == 0x84;
	if (has_sib && code[2] != 0x24)
		return -1;
	memcpy(&at, code + 2 + has_sib, sizeof(at));
	return code[6 + has_sib] == 1 && at > 0 && at < FIELD_END && at % 4 == 0 ? at : -1;
}

/* A prefix that makes a word of 8 bytes of it. */
static bool is_wide(const uint8_t *code, size_t at)
{
	return at > 0 && (code[at - 1] & 0xf8) == 0x48;
}

struct ht_err *v8_collections_place(
	const struct proc *proc, const struct natives_v8 *code, int32_t *ret)
{
	uint8_t bytes[CODE_MAX];
	size_t got = 0;
	unsigned found = 0;

	*ret = -1;
	if (!code->collector || !code->collector_bytes || code->collector_bytes > sizeof(bytes))
		return NULL;
	struct ht_err *err =
		memory_read_some(proc, code->collector, bytes, code->collector_bytes, &got);
	if (err || got < code->collector_bytes)
		return err;
	for (size_t i = 0; i < got; i++) {
		int32_t place = count_in(bytes + i, got - i);
		if (place < 0 || is_wide(bytes, i))
			continue;
		*ret = place;
		found++;
	}
	if (found != 1)
		*ret = -1;
	return NULL;
}

static bool read_isolate(const struct v8_heap *heap, const struct v8_collections *of, raddr_t *ret)
{
	return v8_read_now(heap, of->isolate_at, ret, sizeof(*ret)) && *ret && *ret % 8 == 0 &&
	       *ret >> 47 == 0;
}

bool v8_collections_find(const struct v8_heap *heap, raddr_t thread_pointer, int32_t place,
	struct v8_collections *ret)
{
	const struct v8_layout *layout = &heap->layout;
	const struct natives_v8 *code = &layout->code;
	*ret = (struct v8_collections){0};
	if (place < 0 || !code->has_isolate || !thread_pointer || code->isolate % 8 ||
		code->isolate >= layout->tls_bytes)
		return false;
	ret->isolate_at = thread_pointer - layout->tls_bytes + code->isolate;
	if (!read_isolate(heap, ret, &ret->isolate))
		return false;
	ret->heap = ret->isolate + (raddr_t)layout->isolate_heap;
	ret->count_at = ret->heap + (raddr_t)place;
	return true;
}

bool v8_collections_count(
	const struct v8_heap *heap, const struct v8_collections *of, uint32_t *ret)
{
	raddr_t isolate;
	return of->isolate && v8_read_now(heap, of->count_at, ret, sizeof(*ret)) &&
	       read_isolate(heap, of, &isolate) && isolate == of->isolate;
}

bool v8_collections_own(
	const struct v8_heap *heap, const struct v8_collections *of, uint64_t object)
{
	const struct v8_layout *layout = &heap->layout;
	raddr_t header = ht_align_down(object, CHUNK_BYTES), owner;
	if (layout->chunk_header >= 0 && (!v8_read_now(heap, header + (raddr_t)layout->chunk_header,
						  &header, sizeof(header)) ||
						 header % 8 || header >> 47))
		return false;
	return v8_read_now(heap, header + (raddr_t)layout->chunk_heap, &owner, sizeof(owner)) &&
	       owner == of->heap;
}
