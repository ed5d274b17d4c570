/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes events (abi_event.h) as the agent does, for tests: shortest length codes, deltas against
 * the event before.
 */
#pragma once

#include "format/abi_event.h"
#include "format/bytes.h"

/* The stream of one thread record so far. Zero-initialised, it is at the start of a buffer. */
struct eventbuild {
	struct bytes_out out;
	uint64_t tsc, addr; /* of the event before */
	uint64_t recent[ABI_RECENT_COUNT];
};

void eventbuild_deinit(struct eventbuild *build);

/* Starts a new buffer: deltas count from 0 again. `out` keeps the earlier events. */
void eventbuild_restart(struct eventbuild *build);

void eventbuild_thread(struct eventbuild *build, uint32_t tid, uint32_t level);
/* `kind`: ALLOC or REALLOC_END. `tsc` is absolute and not smaller than that of the event before;
 * the builder rounds it down as the agent does. */
void eventbuild_alloc(struct eventbuild *build, enum abi_event_kind kind, uint8_t hook,
	uint64_t tsc, uint64_t addr, uint64_t size, uint32_t stack);
/* `kind`: FREE or REALLOC_BEGIN. `usable` 0: the event has no size. */
void eventbuild_free(struct eventbuild *build, enum abi_event_kind kind, uint8_t hook, uint64_t tsc,
	uint64_t addr, uint64_t usable);
/* `kind`: REALLOC_FREED or REALLOC_FAIL. */
void eventbuild_realloc_done(struct eventbuild *build, enum abi_event_kind kind, uint64_t tsc);

struct eventbuild_mapping {
	enum abi_mapping_call call;
	uint64_t addr, length;
	uint8_t protect;
	uint32_t flags, stack;
};

/* Puts a mapping call, which ends with a THREAD event of thread `tid` and `level`. */
void eventbuild_mapping(struct eventbuild *build, uint64_t tsc,
	const struct eventbuild_mapping *mapping, uint32_t tid, uint32_t level);
