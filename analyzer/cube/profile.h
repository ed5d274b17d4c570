/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of a window: in total, per stack, thread, function and size. Every allocation is in
 * exactly one stack, thread, function and size class, so each of these sums up to the total.
 */
#pragma once

#include "analyzer/model/nodes.h"
#include "analyzer/model/replay.h"
#include "analyzer/model/sample.h"

/* Of a set of blocks allocated in the window; of a sample estimates, but for `samples`. */
struct metrics {
	uint64_t samples; /* allocations that were recorded */
	uint64_t allocations, allocated_bytes;
	uint64_t frees, freed_bytes; /* of these blocks, whoever freed them */
	uint64_t temporary;
};

static inline uint64_t metrics_outstanding_blocks(const struct metrics *metrics)
{
	return metrics->allocations - metrics->frees;
}

static inline uint64_t metrics_outstanding_bytes(const struct metrics *metrics)
{
	return metrics->allocated_bytes - metrics->freed_bytes;
}

struct profile_stack {
	uint32_t node;	     /* leaf node, 0: no stack */
	uint32_t peak_epoch; /* value of profile.peak_epoch that peak_bytes belongs to */
	struct metrics metrics;
	uint64_t peak_bytes;	      /* its share of the peak; after profile_finish */
	uint64_t calls[REPLAY_HOOKS]; /* allocations by function */
};

struct profile_thread {
	struct metrics metrics;	     /* of the blocks it allocated */
	uint64_t frees, freed_bytes; /* that it called, of blocks of the window */
	uint64_t before_frees;	     /* that it called, of older blocks */
};

struct profile_function {
	uint64_t allocations, allocated_bytes;
	uint64_t frees, freed_bytes, before_frees;
};

#define PROFILE_SIZE_CLASSES 65u /* 0: size 0; n: sizes of n significant bits */

/* Zero-initialised is empty and valid. */
struct profile {
	uint64_t sample_bytes; /* to be set before the first fact; 0: everything was recorded */
	struct metrics total;
	uint64_t before_frees, before_freed_bytes;
	uint64_t peak_bytes, peak_blocks, peak_time_ns;
	uint32_t peak_epoch;

	struct profile_stack *stack;
	size_t stack_count, stack_capacity;
	struct profile_index {
		uint32_t *stack; /* index + 1 in stack; 0: none yet */
		size_t capacity;
	} of_node, of_plain;	       /* by node, from NODES_MAX on the second */
	struct profile_thread *thread; /* by thread index */
	size_t thread_count, thread_capacity;
	struct profile_function function[REPLAY_HOOKS];
	struct metrics size_class[PROFILE_SIZE_CLASSES];
};

void profile_deinit(struct profile *profile);
/* The three facts of replay.h, with their time since the window's start. */
HT_MUST_CHECK
struct ht_err *profile_allocated(struct profile *profile, const struct replay_call *call,
	const struct live_block *block, uint64_t time_ns);
HT_MUST_CHECK
struct ht_err *profile_freed(struct profile *profile, const struct replay_call *call,
	const struct live_block *block, bool temporary);
HT_MUST_CHECK
struct ht_err *profile_before_freed(
	struct profile *profile, const struct replay_call *call, uint64_t usable_bytes);
/* Adds the metrics of `stack` to those of `sum`; its node and epoch stay. */
void profile_stack_add(struct profile_stack *sum, const struct profile_stack *stack);
/* No more facts: makes peak_bytes of the stacks valid. */
void profile_finish(struct profile *profile);

enum profile_metric {
	PROFILE_OUTSTANDING,
	PROFILE_PEAK,
	PROFILE_ALLOCATED,
	PROFILE_CALLS,
	PROFILE_TEMPORARY,
	PROFILE_METRIC_COUNT
};

uint64_t profile_stack_value(const struct profile_stack *stack, enum profile_metric metric);
/* Indices of `stack`, the largest `metric` first, then by allocated bytes; freed by the caller. */
HT_MUST_CHECK
struct ht_err *profile_order(const struct profile_stack *stack, size_t count,
	enum profile_metric metric, uint32_t **ret);
unsigned profile_size_class(uint64_t size);
/* The name of a hook, "unknown" for one that this build does not know. */
const char *profile_function_name(unsigned hook);
