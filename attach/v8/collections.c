/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/collections.h"

#include <string.h>

#include "attach/memory/memory.h"

#define CODE_MAX    4096u /* of the collector, which has some 800 bytes */
#define CHUNK_BYTES (256u << 10)
#define FIELD_END   0x10000 /* V8's Heap, which has both fields, is smaller */

#define SETTER_BYTES 7u
#define MARK_COMPACT 2u /* V8's HeapState; 0 is NOT_IN_GC */

/* Returns N if `code` is `opcode` with the operand N(%reg) and an immediate of `immediate` bytes
 * that is `value`; -1: it is not. A SIB byte follows the register if that is rsp or r12. */
static int32_t place_in(
	const uint8_t *code, size_t bytes, uint8_t opcode, size_t immediate, uint32_t value)
{
	int32_t at;
	uint32_t given = 0;
	if (bytes < 6 + immediate || code[0] != opcode || (code[1] & 0xf8) != 0x80)
		return -1;
	bool has_sib = code[1] == 0x84;
	if (has_sib && (code[2] != 0x24 || bytes < 7 + immediate))
		return -1;
	memcpy(&at, code + 2 + has_sib, sizeof(at));
	memcpy(&given, code + 6 + has_sib, immediate);
	return given == value && at > 0 && at < FIELD_END && at % 4 == 0 ? at : -1;
}

/* A prefix makes the operand 8 bytes wide. */
static bool is_wide(const uint8_t *code, size_t at)
{
	return at > 0 && (code[at - 1] & 0xf8) == 0x48;
}

/* addl $1, N(%reg), if the collector has exactly one, at `*ret_at`. -1: none, or several. */
static int32_t find_count(const uint8_t *code, size_t bytes, size_t *ret_at)
{
	int32_t found = -1;
	for (size_t i = 0; i < bytes; i++) {
		int32_t place = place_in(code + i, bytes - i, 0x83, 1, 1);
		if (place < 0 || is_wide(code, i))
			continue;
		if (found >= 0)
			return -1;
		found = place;
		*ret_at = i;
	}
	return found;
}

/* movl $2, N(%reg): the collector marks itself as running. */
static bool notes_itself(const uint8_t *code, size_t bytes, int32_t state)
{
	for (size_t i = 0; i < bytes; i++)
		if (place_in(code + i, bytes - i, 0xc7, 4, MARK_COMPACT) == state &&
			!is_wide(code, i))
			return true;
	return false;
}

/* mov %esi, N(%rdi): the whole of the setter. */
static int32_t find_state(const uint8_t code[SETTER_BYTES])
{
	int32_t at;
	memcpy(&at, code + 2, sizeof(at));
	return code[0] == 0x89 && code[1] == 0xb7 && code[6] == 0xc3 && at > 0 && at < FIELD_END &&
			       at % 4 == 0
		       ? at
		       : -1;
}

struct ht_err *v8_collections_places(const struct proc *proc, const struct natives_v8 *code,
	struct v8_places *ret, bool *ret_found)
{
	uint8_t bytes[CODE_MAX], setter[SETTER_BYTES];
	size_t got = 0, count_at = 0, setter_got = 0;

	*ret_found = false;
	if (!code->collector || !code->collector_bytes || code->collector_bytes > sizeof(bytes) ||
		!code->setter || code->setter_bytes != sizeof(setter))
		return NULL;
	struct ht_err *err =
		memory_read_some(proc, code->collector, bytes, code->collector_bytes, &got);
	HT_THEN(err, memory_read_some(proc, code->setter, setter, sizeof(setter), &setter_got));
	if (err || got < code->collector_bytes || setter_got < sizeof(setter))
		return err;
	ret->count = find_count(bytes, got, &count_at);
	ret->state = find_state(setter);
	/* The mark must precede the count: a reader of the new count then sees the mark, too. */
	*ret_found =
		ret->count >= 0 && ret->state >= 0 && notes_itself(bytes, count_at, ret->state);
	return NULL;
}

static bool read_isolate(const struct v8_heap *heap, const struct v8_collections *of, raddr_t *ret)
{
	return v8_read_now(heap, of->isolate_at, ret, sizeof(*ret)) && *ret && *ret % 8 == 0 &&
	       *ret >> 47 == 0;
}

bool v8_collections_find(const struct v8_heap *heap, raddr_t thread_pointer,
	const struct same_thread *thread, const struct v8_places *places,
	struct v8_collections *ret)
{
	const struct v8_layout *layout = &heap->layout;
	const struct natives_v8 *code = &layout->code;
	*ret = (struct v8_collections){.thread = thread};
	if (!code->has_isolate || !thread_pointer || code->isolate % 8 ||
		code->isolate >= layout->tls_bytes)
		return false;
	ret->isolate_at = thread_pointer - layout->tls_bytes + code->isolate;
	if (!read_isolate(heap, ret, &ret->isolate))
		return false;
	ret->heap = ret->isolate + (raddr_t)layout->isolate_heap;
	ret->count_at = ret->heap + (raddr_t)places->count;
	ret->state_at = ret->heap + (raddr_t)places->state;
	return true;
}

bool v8_collections_count(
	const struct v8_heap *heap, const struct v8_collections *of, uint32_t *ret)
{
	raddr_t isolate;
	/* Checks the thread last, so that the count belongs to it. */
	return of->isolate && v8_read_now(heap, of->count_at, ret, sizeof(*ret)) &&
	       read_isolate(heap, of, &isolate) && isolate == of->isolate &&
	       (!of->thread || same_thread_lives(of->thread));
}

bool v8_collections_are_over(const struct v8_heap *heap, const struct v8_collections *of)
{
	uint32_t state;
	return of->isolate && v8_read_now(heap, of->state_at, &state, sizeof(state)) && state == 0;
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
