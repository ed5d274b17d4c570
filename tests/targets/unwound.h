/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that a test and the library tests/targets/unwound.c in its target both map.
 */
#pragma once

#include <stdint.h>

#define UNWOUND_BYTES	   (64ull << 20)
#define UNWOUND_FRAMES_MAX 512u

/* One allocation, followed in unwound.word by the next. */
struct unwound_record {
	uint64_t address, bytes; /* the block, and the requested size */
	uint64_t tsc;		 /* after the allocation, before the agent's own stamp */
	uint64_t tid;
	uint64_t depth;
	uint64_t pc[]; /* [depth], innermost first: the stack from the agent's caller on */
};

struct unwound {
	uint64_t recording;	     /* nothing is recorded while 0 */
	uint64_t every;		     /* on average one call in `every` is recorded */
	uint64_t agent_lo, agent_hi; /* the agent's code; other callers are not recorded */
	uint64_t calls;		     /* successful calls, recorded or not */
	uint64_t records;	     /* complete records */
	uint64_t used;		     /* words */
	uint64_t word[];	     /* records, one after the other, to the end of the file */
};
