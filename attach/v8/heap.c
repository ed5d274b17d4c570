/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/heap.h"

#include <string.h>

#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"

#define LINKS_MAX      8u   /* from a string to the one that has its characters */
#define PARTS_MAX      16u  /* of a concatenated string */
#define TEXT_UNITS_MAX 512u /* of one part */

/* V8's heap is anonymous memory; a word from the target must not make a file system serve a
 * page. */
static bool is_of_file(const struct v8_heap *heap, raddr_t addr, size_t bytes)
{
	raddr_t lo = heap->layout.module_lo, hi = heap->layout.module_hi;
	for (raddr_t at = addr; heap->maps && at - addr < bytes;
		at = ht_align_down(at, HT_PAGE_BYTES) + HT_PAGE_BYTES) {
		const struct proc_map *map = proc_maps_find(heap->maps, at);
		if (map && map->inode && (at < lo || at >= hi))
			return true;
	}
	return false;
}

bool v8_read_now(const struct v8_heap *heap, raddr_t addr, void *ret, size_t bytes)
{
	size_t got = 0;

	if (is_of_file(heap, addr, bytes))
		return false;
	/* A process that has ended is noticed elsewhere. */
	ht_err_free(memory_read_some(heap->proc, addr, ret, bytes, &got));
	return got == bytes;
}

/* heaptap reads many words of an object, and one system call for each would be most of the cost of
 * a name. */
bool v8_read(const struct v8_heap *heap, raddr_t addr, void *ret, size_t bytes)
{
	const raddr_t at = ht_align_down(addr, HT_PAGE_BYTES);
	if (!heap->page || !at || bytes > HT_PAGE_BYTES - (addr - at))
		return v8_read_now(heap, addr, ret, bytes);
	struct v8_page *page = &heap->page[addr / HT_PAGE_BYTES % V8_PAGES_KEPT];
	if (page->addr != at) {
		page->addr = 0;
		if (!v8_read_now(heap, at, page->data, sizeof(page->data)))
			return false;
		page->addr = at;
	}
	memcpy(ret, page->data + (addr - at), bytes);
	return true;
}

void v8_renew(struct v8_heap *heap)
{
	for (size_t i = 0; heap->page && i < V8_PAGES_KEPT; i++)
		heap->page[i].addr = 0;
}

bool v8_load(const struct v8_heap *heap, uint64_t object, int32_t offset, uint64_t *ret)
{
	return v8_is_object(object) &&
	       v8_read(heap, object - 1 + (uint64_t)(int64_t)offset, ret, sizeof(*ret));
}

bool v8_load_smi(const struct v8_heap *heap, uint64_t object, int32_t offset, uint32_t *ret)
{
	uint64_t word;
	if (!v8_load(heap, object, offset, &word) || !v8_is_smi(word))
		return false;
	*ret = (uint32_t)(word >> 32);
	return true;
}

static bool load_type(const struct v8_heap *heap, uint64_t map, uint16_t *ret)
{
	return v8_is_object(map) &&
	       v8_read(heap, map - 1 + (uint64_t)heap->layout.instance_type, ret, sizeof(*ret));
}

int32_t v8_map_type(struct v8_heap *heap, uint64_t map)
{
	uint64_t meta;
	uint16_t type, meta_type;
	size_t i = (map >> 3 ^ map >> 9) % V8_TYPES_KEPT;

	if (map && heap->kept[i].map == map)
		return heap->kept[i].type;
	if (!load_type(heap, map, &type) || !v8_load(heap, map, 0, &meta) ||
		!load_type(heap, meta, &meta_type) || meta_type != heap->layout.type_map)
		return -1;
	heap->kept[i].map = map;
	heap->kept[i].type = type;
	return type;
}

int32_t v8_type(struct v8_heap *heap, uint64_t object)
{
	uint64_t map;
	return v8_load(heap, object, 0, &map) ? v8_map_type(heap, map) : -1;
}

void v8_forget(struct v8_heap *heap)
{
	memset(heap->kept, 0, sizeof(heap->kept));
}

bool v8_load_typed(
	struct v8_heap *heap, uint64_t object, int32_t offset, int32_t type, uint64_t *ret)
{
	return v8_load(heap, object, offset, ret) && v8_type(heap, *ret) == type;
}

/* --- strings -------------------------------------------------------------------------------------
 */

bool v8_is_string(struct v8_heap *heap, uint64_t object)
{
	int32_t type = v8_type(heap, object);
	return type >= 0 && type < heap->layout.first_nonstring;
}

static bool load_length(const struct v8_heap *heap, uint64_t string, uint32_t *ret)
{
	return v8_read(heap, string - 1 + (uint64_t)heap->layout.string_length, ret, sizeof(*ret));
}

static int32_t form_of(struct v8_heap *heap, uint64_t string)
{
	return v8_is_string(heap, string) ? v8_type(heap, string) & heap->layout.form_mask : -1;
}

/* Finds the characters of a string that holds them itself. */
static bool find_chars(struct v8_heap *heap, uint64_t string, struct v8_chars *ret)
{
	const struct v8_layout *layout = &heap->layout;
	int32_t type = v8_type(heap, string), form = type & layout->form_mask;

	ret->two_bytes = (type & layout->encoding_mask) != layout->one_byte;
	if (form == layout->form_external)
		return !(type & layout->uncached) &&
		       v8_load(heap, string, layout->external_resource + 8, &ret->at);
	ret->at = string - 1 +
		  (uint64_t)(ret->two_bytes ? layout->two_byte_chars : layout->one_byte_chars);
	return form == layout->form_seq;
}

bool v8_flat(struct v8_heap *heap, uint64_t string, struct v8_chars *ret)
{
	const struct v8_layout *layout = &heap->layout;
	uint32_t count, whole;
	uint64_t first = 0;

	if (!v8_is_string(heap, string) || !load_length(heap, string, &count))
		return false;
	for (unsigned i = 0; i < LINKS_MAX; i++) {
		int32_t form = form_of(heap, string);
		uint64_t second;
		uint32_t offset, rest;
		if (form == layout->form_thin) {
			if (!v8_load(heap, string, layout->thin_actual, &string))
				return false;
		} else if (form == layout->form_sliced) {
			if (!v8_load_smi(heap, string, layout->sliced_offset, &offset) ||
				!v8_load(heap, string, layout->sliced_parent, &string))
				return false;
			first += offset;
		} else if (form == layout->form_cons) {
			/* After V8 has flattened it, the first part is the whole string. */
			if (!v8_load(heap, string, layout->cons_second, &second) ||
				!v8_is_string(heap, second) || !load_length(heap, second, &rest) ||
				rest || !v8_load(heap, string, layout->cons_first, &string))
				return false;
		} else {
			break;
		}
	}
	if (!v8_is_string(heap, string) || !load_length(heap, string, &whole) || first > whole ||
		count > whole - first || !find_chars(heap, string, ret))
		return false;
	ret->at += first << ret->two_bytes;
	ret->count = count;
	return true;
}

/* --- text ----------------------------------------------------------------------------------------
 */

static size_t put_point(char *to, uint32_t point)
{
	if (point < 0x80) {
		to[0] = (char)point;
		return 1;
	}
	if (point < 0x800) {
		to[0] = (char)(0xc0 | point >> 6);
		to[1] = (char)(0x80 | (point & 0x3f));
		return 2;
	}
	if (point < 0x10000) {
		to[0] = (char)(0xe0 | point >> 12);
		to[1] = (char)(0x80 | (point >> 6 & 0x3f));
		to[2] = (char)(0x80 | (point & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | point >> 18);
	to[1] = (char)(0x80 | (point >> 12 & 0x3f));
	to[2] = (char)(0x80 | (point >> 6 & 0x3f));
	to[3] = (char)(0x80 | (point & 0x3f));
	return 4;
}

static bool is_half(uint32_t unit)
{
	return unit >= 0xd800 && unit < 0xe000;
}

/* Appends the characters in `raw` and returns the new end of the text. */
static size_t put_units(
	const uint8_t *raw, size_t count, bool two_bytes, char *to, size_t at, size_t end)
{
	for (size_t i = 0; i < count && end - at > 4; i++) {
		uint32_t unit = raw[i << two_bytes];
		if (two_bytes)
			unit |= (uint32_t)raw[2 * i + 1] << 8;
		if (is_half(unit) && unit < 0xdc00 && i + 1 < count) {
			uint32_t low = raw[2 * i + 2] | (uint32_t)raw[2 * i + 3] << 8;
			if (is_half(low) && low >= 0xdc00) {
				unit = 0x10000 + ((unit & 0x3ff) << 10 | (low & 0x3ff));
				i++;
			}
		}
		at += put_point(to + at, is_half(unit) ? 0xfffd : unit);
	}
	return at;
}

/* `*ret_cut`: the string is longer than what was appended. */
static bool append(
	struct v8_heap *heap, uint64_t string, char *to, size_t end, size_t *at, bool *ret_cut)
{
	uint8_t raw[2 * TEXT_UNITS_MAX];
	struct v8_chars chars;
	if (!v8_flat(heap, string, &chars))
		return false;
	size_t count = chars.count < TEXT_UNITS_MAX ? chars.count : TEXT_UNITS_MAX;
	if (!v8_read(heap, chars.at, raw, count << chars.two_bytes))
		return false;
	*at = put_units(raw, count, chars.two_bytes, to, *at, end);
	*ret_cut = count < chars.count;
	return true;
}

/* A concatenated string: collects its parts, first to last. A part that is cut is the last. */
bool v8_text(struct v8_heap *heap, uint64_t string, char *ret, size_t bytes)
{
	uint64_t left[PARTS_MAX] = {string};
	size_t depth = 1, at = 0;
	bool is_cut = false;
	for (unsigned parts = 0; depth > 0 && !is_cut; parts++) {
		uint64_t part = left[--depth];
		if (parts == PARTS_MAX)
			return false;
		if (append(heap, part, ret, bytes, &at, &is_cut))
			continue;
		if (form_of(heap, part) != heap->layout.form_cons || depth + 2 > PARTS_MAX ||
			!v8_load(heap, part, heap->layout.cons_second, &left[depth]) ||
			!v8_load(heap, part, heap->layout.cons_first, &left[depth + 1]))
			return false;
		depth += 2;
	}
	ret[at] = '\0';
	return true;
}
