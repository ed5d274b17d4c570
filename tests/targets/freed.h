/* SPDX-License-Identifier: Apache-2.0
 *
 * A target's own counts of the blocks that it frees, and their JSON.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/targets/speak.h"

struct freed {
	uint64_t frees, bytes;		     /* of blocks allocated in this phase */
	uint64_t before_frees, before_bytes; /* of older blocks; bytes: their usable size */
};

static inline void freed_add(struct freed *sum, const struct freed *more)
{
	sum->frees += more->frees;
	sum->bytes += more->bytes;
	sum->before_frees += more->before_frees;
	sum->before_bytes += more->before_bytes;
}

static inline void freed_say(const struct freed *freed)
{
	speak_add(",\"frees\":%lu,\"freed_bytes\":%lu", freed->frees, freed->bytes);
	speak_add(",\"before_frees\":%lu,\"before_freed_bytes\":%lu", freed->before_frees,
		freed->before_bytes);
}

/* Adds one object of the array "threads". */
static inline void freed_say_thread(
	bool first, pid_t tid, uint64_t calls, uint64_t bytes, uint64_t frees)
{
	speak_add("%s{\"tid\":%d,\"allocations\":%lu,\"allocated_bytes\":%lu,\"frees\":%lu}",
		first ? "" : ",", tid, calls, bytes, frees);
}
