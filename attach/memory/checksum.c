/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/memory/checksum.h"

#include <string.h>

#define LANES	    4u /* so that the multiplications do not wait for each other */
#define BLOCK_BYTES (LANES * sizeof(uint64_t))

/* Injective in `word` for a fixed `sum`, and in `sum` for a fixed `word`. */
static uint64_t add(uint64_t sum, uint64_t word)
{
	uint64_t mixed = (sum ^ word) * 0x9e3779b97f4a7c15ull;
	return mixed ^ mixed >> 32;
}

static void add_block(uint64_t lane[LANES], const uint8_t *block)
{
	for (size_t i = 0; i < LANES; i++) {
		uint64_t word;
		memcpy(&word, block + i * sizeof(word), sizeof(word));
		lane[i] = add(lane[i], word);
	}
}

uint64_t checksum(uint64_t seed, const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint8_t last[BLOCK_BYTES] = {0};
	uint64_t lane[LANES] = {seed, 1, 2, 3}, sum = bytes;
	size_t left = bytes;

	for (; left >= BLOCK_BYTES; at += BLOCK_BYTES, left -= BLOCK_BYTES)
		add_block(lane, at);
	if (left) {
		memcpy(last, at, left);
		add_block(lane, last);
	}
	for (size_t i = 0; i < LANES; i++)
		sum = add(sum, lane[i]);
	return sum;
}
