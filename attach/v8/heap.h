/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads objects in the heap of a running V8 from outside. V8 moves and frees them meanwhile, so a
 * read may return anything: a result counts only if a later read confirms it, and anything
 * unreadable or inconsistent counts as no object.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/v8/layout.h"

#define V8_TYPES_KEPT 64u
#define V8_PAGES_KEPT 32u

struct v8_page {
	raddr_t addr; /* 0: none */
	uint8_t data[HT_PAGE_BYTES];
};

struct v8_heap {
	const struct proc *proc;
	const struct proc_maps *maps; /* NULL: reads are not restricted */
	struct v8_page *page; /* V8_PAGES_KEPT pages as of some moment since v8_renew; NULL: read
				 each word on demand */
	struct v8_layout layout;
	struct {
		uint64_t map;
		int32_t type;
	} kept[V8_TYPES_KEPT];
};

/* A tagged word is an object or a small integer. */
static inline bool v8_is_object(uint64_t word)
{
	return (word & 3) == 1 && word >> 47 == 0;
}

static inline bool v8_is_smi(uint64_t word)
{
	return (uint32_t)word == 0;
}

/* Makes later reads fetch memory anew. */
void v8_renew(struct v8_heap *heap);
/* Forgets the known types: objects may be gone since. */
void v8_forget(struct v8_heap *heap);
/* Reads the word at `offset` of an object; false: unreadable. */
bool v8_load(const struct v8_heap *heap, uint64_t object, int32_t offset, uint64_t *ret);
/* As v8_load for a small integer; a negative one is read as a number above INT32_MAX. False also if
 * the word is no small integer. */
bool v8_load_smi(const struct v8_heap *heap, uint64_t object, int32_t offset, uint32_t *ret);
/* The instance type of a map's objects; -1: `map` is no map. */
int32_t v8_map_type(struct v8_heap *heap, uint64_t map);
/* The instance type of an object; -1: it is no object. */
int32_t v8_type(struct v8_heap *heap, uint64_t object);
/* Reads a field that must hold an object of type `type`. */
bool v8_load_typed(
	struct v8_heap *heap, uint64_t object, int32_t offset, int32_t type, uint64_t *ret);

/* The characters of a flat string. */
struct v8_chars {
	raddr_t at;
	uint32_t count;
	bool two_bytes;
};

/* Reads memory of the target; false unless all bytes are readable. */
bool v8_read(const struct v8_heap *heap, raddr_t addr, void *ret, size_t bytes);
/* As v8_read, but from the target's memory at this moment. */
bool v8_read_now(const struct v8_heap *heap, raddr_t addr, void *ret, size_t bytes);
bool v8_is_string(struct v8_heap *heap, uint64_t object);
/* False: no string, or one in several parts. */
bool v8_flat(struct v8_heap *heap, uint64_t string, struct v8_chars *ret);
/* The string as UTF-8, cut between characters if necessary, with a NUL. False: unavailable. */
bool v8_text(struct v8_heap *heap, uint64_t string, char *ret, size_t bytes);
