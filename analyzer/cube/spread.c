/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cube/spread.h"

#include <string.h>

/* blocks of this size and larger may have a mapping of their own */
#define LARGE_BYTES 65536u
#define BYTES_MAX   (INT64_MAX / 4) /* a trace may claim any sizes */

void spread_begin(struct spread *spread)
{
	memset(spread, 0, sizeof(*spread));
	spread->is_on = true;
}

static uint64_t key_of(const struct live_block *block)
{
	const unsigned class =
		block->size < LARGE_BYTES ? 1 : 64 - (unsigned)__builtin_clzll(block->size);
	return (uint64_t)block->thread << 8 | class;
}

/* The lane of a key, made if it does not exist; NULL: half of SPREAD_LANES are used. */
static struct spread_lane *lane_of(struct spread *spread, uint64_t key)
{
	const uint64_t home = key * 0x9e3779b97f4a7c15ull >> 40;
	for (uint64_t i = home;; i++) {
		struct spread_lane *lane = &spread->lane[i % SPREAD_LANES];
		if (lane->key == key)
			return lane;
		if (lane->key)
			continue;
		if (spread->count >= SPREAD_LANES / 2)
			return NULL;
		spread->count++;
		lane->key = key;
		return lane;
	}
}

static void move(struct spread *spread, const struct live_block *block, int64_t bytes)
{
	struct spread_lane *lane = block->size < BYTES_MAX ? lane_of(spread, key_of(block)) : NULL;
	if (!lane || lane->now + bytes > BYTES_MAX || lane->now + bytes < -BYTES_MAX) {
		spread->rest_bytes = ht_plus(spread->rest_bytes, block->size);
		return;
	}
	lane->now += bytes;
	if (lane->now < lane->least)
		lane->least = lane->now;
	if (lane->now > lane->most)
		lane->most = lane->now;
}

void spread_allocated(struct spread *spread, const struct live_block *block)
{
	move(spread, block, (int64_t)block->size);
}

void spread_freed(struct spread *spread, const struct live_block *block)
{
	move(spread, block, -(int64_t)block->size);
}

uint64_t spread_end(struct spread *spread)
{
	uint64_t bytes = spread->rest_bytes;
	for (size_t i = 0; i < SPREAD_LANES; i++)
		bytes = ht_plus(bytes, (uint64_t)(spread->lane[i].most - spread->lane[i].least));
	spread->is_on = false;
	return bytes;
}
