/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/sample.h"

#include <stdlib.h>
#include <string.h>

bool sample_is_whole(void)
{
	const char *all = getenv("HEAPTAP_TEST_ALL");
	return all && !strcmp(all, "1");
}

unsigned sample_size(unsigned all, unsigned few)
{
	return sample_is_whole() ? all : few;
}

uint64_t sample_seed(uint64_t otherwise)
{
	const char *seed = getenv("HEAPTAP_TEST_SEED");
	return seed && *seed && !sample_is_whole() ? strtoull(seed, NULL, 10) : otherwise;
}

bool sample_has(unsigned index, unsigned turn, unsigned share)
{
	return sample_is_whole() || (index + turn + sample_seed(1)) % share == 0;
}
