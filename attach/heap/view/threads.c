/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/view/threads.h"

#include <stdlib.h>
#include <string.h>

#include "attach/memory/proc_map.h"
#include "format/array.h"

#define SMALL_BYTES 65536u /* a control block is in this last part of its mapping */
#define CONTROL_TID 0x2d0u
#define THREADS_MAX 4096u

static struct ht_err *add(struct threads *threads, raddr_t addr)
{
	if (threads->count == THREADS_MAX || array_has_word(threads->block, threads->count, addr))
		return NULL;
	if (!ARRAY_HAS_ROOM(threads->block, threads->count, threads->capacity, 64))
		return ht_err_new(HT_ERR_NOMEM, "no memory for the threads of a process");
	threads->block[threads->count++] = addr;
	return NULL;
}

/* Does a control block begin here? glibc keeps the block of an ended thread for the next thread:
 * that block has no tid, and does not count. */
static bool is_control(const uint8_t *data, size_t bytes, raddr_t addr)
{
	raddr_t word[3];
	int32_t tid;
	if (bytes < CONTROL_TID + sizeof(tid))
		return false;
	memcpy(word, data, sizeof(word));
	memcpy(&tid, data + CONTROL_TID, sizeof(tid));
	return word[0] == addr && word[2] == addr && tid > 0;
}

static struct ht_err *search(struct view *view, raddr_t lo, size_t bytes, struct threads *threads)
{
	uint8_t data[SMALL_BYTES];
	raddr_t end;
	for (raddr_t at = lo; view_touched(view, &at, lo + bytes, &end); at = end) {
		size_t got = view_read_data(view, at, data, end - at);
		for (size_t i = 0; i < got; i += THREADS_BLOCK_ALIGN)
			if (is_control(data + i, got - i, at + i))
				HT_TRY(add(threads, at + i));
	}
	return NULL;
}

struct ht_err *threads_find(struct view *view, struct threads *ret)
{
	*ret = (struct threads){0};
	for (size_t i = 0; i < view->maps.count; i++) {
		const struct proc_map *map = &view->maps.map[i];
		uint64_t bytes = map->hi - map->lo;
		if (!view_holds(view, map->lo))
			continue;
		/* The control block of a static program's first thread lies at the beginning of its
		 * heap. */
		if (bytes > SMALL_BYTES && !strcmp(map->name, "[heap]"))
			HT_TRY(search(view, map->lo, SMALL_BYTES, ret));
		if (bytes > SMALL_BYTES)
			bytes = SMALL_BYTES;
		HT_TRY(search(view, map->hi - bytes, bytes, ret));
	}
	return NULL;
}

void threads_deinit(struct threads *threads)
{
	free(threads->block);
	*threads = (struct threads){0};
}

size_t threads_variables(struct view *view, const struct threads *threads, size_t index, void *ret)
{
	raddr_t block = threads->block[index];
	size_t bytes = 0;
	/* Memory beyond a hole belongs to something else. */
	while (bytes < THREADS_VARIABLES_BYTES &&
		view_holds(view, block - bytes - THREADS_BLOCK_ALIGN))
		bytes += THREADS_BLOCK_ALIGN;
	return view_read_data(view, block - bytes, ret, bytes) == bytes ? bytes : 0;
}
