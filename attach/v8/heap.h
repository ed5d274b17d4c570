/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects in the heap of a V8 that runs, read from outside. It moves and frees them meanwhile, and
 * what is read may be anything: nothing is believed that was not looked at twice, and whatever
 * cannot be read, or is not what it should be, is no object.
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
	const struct proc_maps *maps; /* NULL: anything may be read */
	struct v8_page *page;	      /* V8_PAGES_KEPT, as of some moment since v8_renew; NULL: each
					 word is read when it is asked for */
	struct v8_layout layout;
	struct {
		uint64_t map;
		int32_t type;
	} kept[V8_TYPES_KEPT];
};

/* A tagged word: object or small integer. */
static inline bool v8_is_object(uint64_t word)
{
	return (word & 3) == 1 && word >> 47 == 0;
}

static inline bool v8_is_smi(uint64_t word)
{
	return (uint32_t)word == 0;
}

/* What is read from here on is read anew. */
void v8_renew(struct v8_heap *heap);
/* Types that are known: objects may have gone since. */
void v8_forget(struct v8_heap *heap);
/* The word at `offset` of an object; false: it cannot be read. */
bool v8_load(const struct v8_heap *heap, uint64_t object, int32_t offset, uint64_t *ret);
/* The instance type that a map gives its objects; -1: it is no map. */
int32_t v8_map_type(struct v8_heap *heap, uint64_t map);
/* The instance type of an object; -1: it is none. */
int32_t v8_type(struct v8_heap *heap, uint64_t object);
/* Loads a field that holds an object of that type. */
bool v8_load_typed(
	struct v8_heap *heap, uint64_t object, int32_t offset, int32_t type, uint64_t *ret);

/* The characters of a flat string. */
struct v8_chars {
	raddr_t at;
	uint32_t count;
	bool two_bytes;
};

/* Bytes of the target; false unless all can be read. */
bool v8_read(const struct v8_heap *heap, raddr_t addr, void *ret, size_t bytes);
/* As they are at this moment, whatever was read before. */
bool v8_read_now(const struct v8_heap *heap, raddr_t addr, void *ret, size_t bytes);
bool v8_is_string(struct v8_heap *heap, uint64_t object);
/* False: it is no string, or one whose parts lie apart. */
bool v8_flat(struct v8_heap *heap, uint64_t string, struct v8_chars *ret);
/* A string as UTF-8, cut between characters, with a NUL. False: it cannot be had. */
bool v8_text(struct v8_heap *heap, uint64_t string, char *ret, size_t bytes);
