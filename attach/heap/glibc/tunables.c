/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/glibc/tunables.h"

#include <string.h>

#define CACHE_BINS_MAX	64u
#define CACHE_COUNT_MAX 65535u
#define BYTES_MAX	(1ull << 47)

/* The last part, in all versions; layout in memory. */
struct tail {
	uint64_t mapped_bytes, mapped_max_bytes;
	raddr_t break_base;
	uint64_t cache_bins, cache_max_bytes, cache_count, cache_unsorted_limit;
};

/* The first part. Since 2.35 parameters of huge pages follow it. */
struct head {
	uint64_t trim_threshold, top_pad, map_threshold, arena_test, arena_max;
};

struct counts {
	int32_t maps, maps_max, maps_highest, fixed_threshold;
};

/* Offsets of the other two parts: since 2.35, and before. */
static const struct layout {
	size_t counts, tail;
} layouts[] = {
	{0x3c, 0x50},
	{0x28, 0x38},
};

#define WHOLE_BYTES (0x50 + sizeof(struct tail))

_Static_assert(sizeof(struct head) == 0x28, "as in glibc");

/* Number of cache bins for that largest cached size. */
static uint64_t bins_of(uint64_t max_bytes)
{
	return max_bytes < 24 ? 1 : (max_bytes + 7) / 16;
}

static bool is_tail(const struct view *view, const struct tail *tail)
{
	return tail->mapped_bytes <= tail->mapped_max_bytes && tail->mapped_max_bytes < BYTES_MAX &&
	       tail->mapped_bytes % HT_PAGE_BYTES == 0 &&
	       tail->mapped_max_bytes % HT_PAGE_BYTES == 0 && tail->cache_bins >= 1 &&
	       tail->cache_bins <= CACHE_BINS_MAX && tail->cache_max_bytes < HT_PAGE_BYTES &&
	       bins_of(tail->cache_max_bytes) == tail->cache_bins &&
	       tail->cache_count <= CACHE_COUNT_MAX &&
	       (!tail->break_base || view_holds(view, tail->break_base));
}

static bool is_counts(const struct counts *counts, const struct tail *tail)
{
	return counts->maps >= 0 && counts->maps_max > 0 && counts->maps <= counts->maps_highest &&
	       (counts->fixed_threshold == 0 || counts->fixed_threshold == 1) &&
	       !counts->maps == !tail->mapped_bytes &&
	       (uint64_t)counts->maps * HT_PAGE_BYTES <= tail->mapped_bytes;
}

/* Zeros everywhere are no parameters, though a program may set some to 0. */
static bool is_head(const struct head *head)
{
	return head->trim_threshold && head->map_threshold && head->arena_test &&
	       head->map_threshold < BYTES_MAX && head->top_pad < BYTES_MAX &&
	       head->arena_test <= UINT32_MAX && head->arena_max <= UINT32_MAX;
}

static bool take(const struct view *view, const uint8_t *data, size_t bytes,
	const struct layout *layout, struct tunables *ret)
{
	struct head head;
	struct counts counts;
	struct tail tail;
	if (layout->tail + sizeof(tail) > bytes)
		return false;
	memcpy(&head, data, sizeof(head));
	memcpy(&counts, data + layout->counts, sizeof(counts));
	memcpy(&tail, data + layout->tail, sizeof(tail));
	*ret = (struct tunables){tail.mapped_bytes, tail.cache_bins, tail.cache_count};
	return is_tail(view, &tail) && is_counts(&counts, &tail) && is_head(&head);
}

static bool take_any(
	const struct view *view, const uint8_t *data, size_t bytes, struct tunables *ret)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(layouts); i++)
		if (take(view, data, bytes, &layouts[i], ret))
			return true;
	return false;
}

raddr_t tunables_find(const struct view *view, const uint8_t *data, size_t bytes, raddr_t addr)
{
	struct tunables tunables;
	raddr_t found = 0;
	for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
		if (!take_any(view, data + at, bytes - at, &tunables))
			continue;
		if (found)
			return 0;
		found = addr + at;
	}
	return found;
}

bool tunables_read(struct view *view, raddr_t addr, struct tunables *ret)
{
	uint8_t data[WHOLE_BYTES];
	size_t got = view_read_data(view, addr, data, sizeof(data));
	return take_any(view, data, got, ret);
}
