/* SPDX-License-Identifier: Apache-2.0
 *
 * The number of allocations that a recorded block of a sample represents. An allocation of s bytes
 * is recorded with probability p = 1 - exp(-(s + 1) / rate), so each recorded one counts as 1 / p
 * allocations (Horvitz and Thompson, A generalization of sampling without replacement from a finite
 * universe, 1952).
 */
#pragma once

#include "analyzer/model/block.h"

struct sample_share {
	uint64_t blocks, bytes;
};

/*
 * The number of allocations that a sampled one of `size` bytes represents: 1 / p, rounded up with
 * the probability of its fraction, otherwise down, so that sums are right on average. `random` is
 * uniformly distributed. 1 if `rate` is 0.
 */
uint64_t sample_blocks(uint64_t size, uint64_t rate, uint64_t random);

/* The share of one recorded block of s bytes in the variances of the sums of bytes and of blocks:
 * s^2 (1 - p) / p^2, and (1 - p) / p^2 plus the variance of rounding to whole blocks. 0 if `rate`
 * is 0. */
struct sample_variance {
	double bytes, blocks;
};
struct sample_variance sample_variance_of(const struct live_block *block, uint64_t rate);

/* The numbers of blocks and bytes that `block` represents; the same on each call. */
struct sample_share sample_share_of(const struct live_block *block, uint64_t rate);
