/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/sieve.h"

#include <string.h>

#define MANGLED_BITS 31u

/* Compilers make one comparison of four lanes, also without options for newer processors. */
typedef uint32_t lanes __attribute__((vector_size(16)));

static lanes lanes_at(const uint8_t *bytes)
{
	lanes ret;
	memcpy(&ret, bytes, sizeof(ret));
	return ret;
}

struct sieve sieve_make(const struct stackscan_ranges *ranges, uint64_t guard)
{
	return (struct sieve){.plain = (uint32_t)(ranges->thunk_lo >> 16),
		.mangled =
			(uint32_t)((ranges->thunk_lo ^ guard) >> 16) & ((1u << MANGLED_BITS) - 1)};
}

/* Four loads, one byte apart, have the four bytes at each offset in a lane. Rotation moves bits 16
 * to 46 of a mangled address to bits 33 to 63: the upper lane of an aligned word, but for its
 * lowest bit. A match in a lower lane is a false alarm, like one in the padding. */
bool sieve_may_hold(const struct sieve *sieve, const uint64_t *words, size_t count)
{
	const uint8_t *bytes = (const uint8_t *)words, *end = bytes + count * sizeof(*words);
	const lanes plain = {sieve->plain, sieve->plain, sieve->plain, sieve->plain};
	const lanes mangled = {sieve->mangled, sieve->mangled, sieve->mangled, sieve->mangled};
	lanes hit = {0};
	for (; bytes < end; bytes += sizeof(lanes)) {
		const lanes at = lanes_at(bytes);
		hit |= (lanes)(at == plain) | (lanes)(at >> 1 == mangled) |
		       (lanes)(lanes_at(bytes + 1) == plain) |
		       (lanes)(lanes_at(bytes + 2) == plain) |
		       (lanes)(lanes_at(bytes + 3) == plain);
	}
	return hit[0] | hit[1] | hit[2] | hit[3];
}
