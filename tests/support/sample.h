/* SPDX-License-Identifier: Apache-2.0
 *
 * How many repetitions a test makes: a sample, whose seed comes from the commit, or all that the
 * test lists with HEAPTAP_TEST_ALL=1 (scripts/test --all).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Is HEAPTAP_TEST_ALL=1 set? */
bool sample_is_whole(void);
/* `all` if HEAPTAP_TEST_ALL=1 is set; otherwise `few`. */
unsigned sample_size(unsigned all, unsigned few);
/* HEAPTAP_TEST_SEED; `otherwise` if that is unset or the sample is whole. */
uint64_t sample_seed(uint64_t otherwise);
/* Is `index` one of the items that this sample tries, one in `share`? `turn` tells apart tests that
 * share a list: `share` tests with consecutive turns try each item once together. Always true if
 * HEAPTAP_TEST_ALL=1 is set. */
bool sample_has(unsigned index, unsigned turn, unsigned share);
