/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/sample.h"

#include <math.h>

/* A trace may state any sampling rate: limit weights so that sums do not overflow. */
#define WEIGHT_MAX 0x1p48
#define BYTES_MAX  0x1p62

static double weight_of(uint64_t size, uint64_t rate)
{
	double weight = -1 / expm1(-((double)size + 1) / (double)rate);
	return weight < WEIGHT_MAX ? weight : WEIGHT_MAX;
}

uint64_t sample_blocks(uint64_t size, uint64_t rate, uint64_t random)
{
	if (rate == 0)
		return 1;
	double weight = weight_of(size, rate), whole = floor(weight);
	return (uint64_t)whole + ((double)(random >> 11) * 0x1p-53 < weight - whole);
}

struct sample_share sample_share_of(const struct live_block *block, uint64_t rate)
{
	if (rate == 0)
		return (struct sample_share){1, block->size};
	double bytes = weight_of(block->size, rate) * (double)block->size;
	return (struct sample_share){
		sample_blocks(block->size, rate, block->rounds_up ? 0 : UINT64_MAX),
		bytes < BYTES_MAX ? (uint64_t)llround(bytes) : block->size};
}

struct sample_variance sample_variance_of(const struct live_block *block, uint64_t rate)
{
	if (rate == 0)
		return (struct sample_variance){0};
	const double weight = weight_of(block->size, rate), part = weight - floor(weight);
	const double missed = exp(-((double)block->size + 1) / (double)rate);
	const double bytes = fmin(weight * (double)block->size, BYTES_MAX);
	return (struct sample_variance){
		missed * bytes * bytes, missed * weight * weight + part * (1 - part)};
}
