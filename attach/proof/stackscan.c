/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/stackscan.h"

#include <string.h>

#include "attach/memory/pagemap.h"
#include "attach/memory/proc_maps.h"

#define RED_ZONE_BYTES 128u
#define SCAN_BYTES_MAX (64ull << 20)
#define STACKS_MAX     8u
#define CHUNK_WORDS    8192u /* words; one system call costs as much as copying 4 KiB */

/* Linux 4.6 and later (UC_SIGCONTEXT_SS) write this word, with CS, GS, FS and SS, into a signal
 * frame of 64-bit code. RIP and RSP are the given number of words before it (struct
 * sigcontext_64). */
#define FRAME_SEGMENTS 0x002b000000000033ull
#define FRAME_RIP_BACK 2u
#define FRAME_RSP_BACK 3u

struct range {
	raddr_t lo, hi;
};

struct scan {
	const struct stackscan_ranges *ranges;
	struct stackscan_found *found;
	raddr_t stack[STACKS_MAX]; /* stack pointers found; the first `done_count` are scanned */
	size_t stack_count, done_count;
	struct range done[STACKS_MAX];
};

static bool is_done(const struct scan *scan, raddr_t sp)
{
	for (size_t i = 0; i < scan->done_count; i++)
		if (sp >= scan->done[i].lo && sp < scan->done[i].hi)
			return true;
	return false;
}

static void follow(struct scan *scan, raddr_t sp)
{
	if (is_done(scan, sp))
		return;
	if (scan->stack_count < STACKS_MAX)
		scan->stack[scan->stack_count++] = sp;
	else
		scan->found->unread++;
}

/* Requires that the words before `word` can be read. */
static void look_at(struct scan *scan, raddr_t addr, const uint64_t *word)
{
	if (stackscan_is_entry(scan->ranges, *word)) {
		if (scan->found->entry_count < STACKSCAN_ENTRIES_MAX)
			scan->found->entry[scan->found->entry_count] = addr;
		scan->found->entry_count++;
	} else if (*word == FRAME_SEGMENTS) {
		if (stackscan_ours(scan->ranges, *(word - FRAME_RIP_BACK)))
			scan->found->signal++;
		follow(scan, *(word - FRAME_RSP_BACK));
	} else if (stackscan_is_return(scan->ranges, *word)) {
		scan->found->plain++;
	}
}

static struct ht_err *scan_range(const struct proc *proc, struct scan *scan, raddr_t lo, raddr_t hi)
{
	uint64_t words[FRAME_RSP_BACK + CHUNK_WORDS] = {0}, *chunk = words + FRAME_RSP_BACK;

	for (raddr_t at = lo; at < hi;) {
		size_t want = hi - at < CHUNK_WORDS * 8 ? hi - at : CHUNK_WORDS * 8;
		size_t got = 0;
		HT_TRY(memory_read_some(proc, at, chunk, want, &got));
		for (size_t i = 0; i < got / sizeof(chunk[0]); i++)
			if (stackscan_ours(scan->ranges, chunk[i]) | (chunk[i] == FRAME_SEGMENTS))
				look_at(scan, at + i * sizeof(chunk[0]), &chunk[i]);
		if (got < want) {
			scan->found->unread++;
			return NULL;
		}
		memmove(words, words + got / sizeof(chunk[0]), FRAME_RSP_BACK * sizeof(words[0]));
		at += got;
	}
	return NULL;
}

/* Returns the part of the stack at `sp` that is not scanned yet: up to the end of the mapping, or
 * to a part that was scanned. A signal stack may be within the stack that was interrupted, or above
 * it in the same mapping. */
static struct range part_to_scan(const struct scan *scan, const struct proc_map *map, raddr_t sp)
{
	struct range part = {.lo = ht_align_down(sp - RED_ZONE_BYTES, 8), .hi = map->hi};
	if (part.lo < map->lo)
		part.lo = map->lo;
	if (part.hi - part.lo > SCAN_BYTES_MAX)
		part.hi = part.lo + SCAN_BYTES_MAX;
	for (size_t i = 0; i < scan->done_count; i++)
		if (scan->done[i].lo >= part.lo && scan->done[i].lo < part.hi)
			part.hi = scan->done[i].lo;
	return part;
}

/*
 * Counts a stack pointer that is in no known mapping. If there is no memory at it, it was no stack:
 * a program may use rsp for something else, and an old signal frame may name a stack that was
 * unmapped. If there is memory, the stack is newer than the maps, or has grown: it counts as
 * unread, since it may be a mapping of a file, and reading that might block.
 */
static void miss(const struct proc *proc, struct scan *scan, raddr_t sp)
{
	if (pagemap_is_empty(proc, sp))
		scan->found->plain++;
	else
		scan->found->unread++;
}

struct ht_err *stackscan_run(const struct proc *proc, const struct proc_maps *maps,
	const struct stackscan_ranges *ranges, raddr_t sp, uint64_t bytes_max,
	struct stackscan_found *ret)
{
	struct stackscan_found found = {0};
	struct scan scan = {.ranges = ranges, .found = &found, .stack = {sp}, .stack_count = 1};

	for (size_t i = 0; i < scan.stack_count; i++) {
		const struct proc_map *map = proc_maps_find(maps, scan.stack[i]);
		if (!map)
			miss(proc, &scan, scan.stack[i]);
		struct range part = {0};
		if (map && !is_done(&scan, scan.stack[i]))
			part = part_to_scan(&scan, map, scan.stack[i]);
		found.cut = part.hi - part.lo > bytes_max;
		if (found.cut)
			break;
		bytes_max -= part.hi - part.lo;
		/* Before the scan: most signal frames found in this part return into the same
		 * part. */
		scan.done[scan.done_count++] = part;
		HT_TRY(scan_range(proc, &scan, part.lo, part.hi));
	}
	*ret = found;
	return NULL;
}

struct ht_err *stackscan_holds(const struct proc *proc, const struct stackscan_ranges *ranges,
	raddr_t lo, raddr_t hi, bool *ret)
{
	uint64_t word[HT_PAGE_BYTES / sizeof(uint64_t)];

	*ret = false;
	for (raddr_t at = lo; at < hi && !*ret;) {
		raddr_t end = ht_align_down(at, HT_PAGE_BYTES) + HT_PAGE_BYTES;
		size_t got;
		if (end > hi)
			end = hi;
		HT_TRY(memory_read_some(proc, at, word, end - at, &got));
		for (size_t i = 0; i < got / sizeof(word[0]); i++)
			*ret |= stackscan_is_return(ranges, word[i]);
		at = end;
	}
	return NULL;
}
