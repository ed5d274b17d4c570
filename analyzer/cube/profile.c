/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cube/profile.h"

#include <stdlib.h>

#include "analyzer/model/array.h"
#include "format/abi_hooks.h"

void profile_deinit(struct profile *profile)
{
	free(profile->stack);
	free(profile->of_node.stack);
	free(profile->of_plain.stack);
	free(profile->thread);
	*profile = (struct profile){0};
}

unsigned profile_size_class(uint64_t size)
{
	return size ? 64 - (unsigned)__builtin_clzll(size) : 0;
}

static struct ht_err *add_stack(
	struct profile *profile, uint32_t node, struct profile_index *index, uint32_t at)
{
	struct ht_err *err = array_reserve(&index->stack, &index->capacity, (size_t)at + 1,
		sizeof(*index->stack), "stack nodes");
	if (!err)
		err = array_reserve(&profile->stack, &profile->stack_capacity,
			profile->stack_count + 1, sizeof(*profile->stack), "stacks");
	if (err)
		return err;
	profile->stack[profile->stack_count].node = node;
	profile->stack[profile->stack_count].peak_epoch = profile->peak_epoch;
	index->stack[at] = (uint32_t)++profile->stack_count;
	return NULL;
}

static struct ht_err *find_stack(struct profile *profile, uint32_t node, struct profile_stack **ret)
{
	struct profile_index *index = node < NODES_MAX ? &profile->of_node : &profile->of_plain;
	const uint32_t at = node % NODES_MAX;
	if (at >= index->capacity || !index->stack[at]) {
		struct ht_err *err = add_stack(profile, node, index, at);
		if (err)
			return err;
	}
	*ret = &profile->stack[index->stack[at] - 1];
	return NULL;
}

static struct ht_err *find_thread(
	struct profile *profile, uint32_t index, struct profile_thread **ret)
{
	if (index >= profile->thread_count) {
		struct ht_err *err = array_reserve(&profile->thread, &profile->thread_capacity,
			(size_t)index + 1, sizeof(*profile->thread), "threads");
		if (err)
			return err;
		profile->thread_count = (size_t)index + 1;
	}
	*ret = &profile->thread[index];
	return NULL;
}

static void metrics_allocated(struct metrics *metrics, struct sample_share share)
{
	metrics->samples++;
	metrics->allocations += share.blocks;
	metrics->allocated_bytes += share.bytes;
}

static void metrics_freed(struct metrics *metrics, struct sample_share share, bool temporary)
{
	metrics->frees += share.blocks;
	metrics->freed_bytes += share.bytes;
	metrics->temporary += temporary;
}

/* To be called before the stack's live bytes change: what they are is what they were at the last
 * peak, unless they have changed since. */
static void settle_peak(const struct profile *profile, struct profile_stack *stack)
{
	if (stack->peak_epoch == profile->peak_epoch)
		return;
	stack->peak_epoch = profile->peak_epoch;
	stack->peak_bytes = metrics_outstanding_bytes(&stack->metrics);
}

static void note_peak(struct profile *profile, uint64_t time_ns)
{
	uint64_t live_bytes = metrics_outstanding_bytes(&profile->total);
	if (live_bytes <= profile->peak_bytes)
		return;
	profile->peak_bytes = live_bytes;
	profile->peak_blocks = metrics_outstanding_blocks(&profile->total);
	profile->peak_time_ns = time_ns;
	profile->peak_epoch++;
}

struct ht_err *profile_allocated(struct profile *profile, const struct replay_call *call,
	const struct live_block *block, uint64_t time_ns)
{
	struct sample_share share = sample_share_of(block, profile->sample_bytes);
	struct profile_stack *stack;
	struct profile_thread *thread;
	struct ht_err *err = find_stack(profile, block->stack, &stack);
	if (!err)
		err = find_thread(profile, block->thread, &thread);
	if (err)
		return err;
	settle_peak(profile, stack);
	metrics_allocated(&stack->metrics, share);
	stack->calls[call->hook] += share.blocks;
	metrics_allocated(&thread->metrics, share);
	metrics_allocated(&profile->size_class[profile_size_class(block->size)], share);
	metrics_allocated(&profile->total, share);
	profile->function[call->hook].allocations += share.blocks;
	profile->function[call->hook].allocated_bytes += share.bytes;
	note_peak(profile, time_ns);
	return NULL;
}

struct ht_err *profile_freed(struct profile *profile, const struct replay_call *call,
	const struct live_block *block, bool temporary)
{
	struct sample_share share = sample_share_of(block, profile->sample_bytes);
	struct profile_stack *stack;
	struct profile_thread *owner, *caller;
	struct ht_err *err = find_stack(profile, block->stack, &stack);
	if (!err)
		err = find_thread(profile, call->thread, &caller);
	if (err)
		return err;
	caller->frees += share.blocks;
	caller->freed_bytes += share.bytes;
	err = find_thread(profile, block->thread, &owner);
	if (err)
		return err;
	settle_peak(profile, stack);
	metrics_freed(&stack->metrics, share, temporary);
	metrics_freed(&owner->metrics, share, temporary);
	metrics_freed(&profile->size_class[profile_size_class(block->size)], share, temporary);
	metrics_freed(&profile->total, share, temporary);
	profile->function[call->hook].frees += share.blocks;
	profile->function[call->hook].freed_bytes += share.bytes;
	return NULL;
}

struct ht_err *profile_before_freed(
	struct profile *profile, const struct replay_call *call, uint64_t usable_bytes)
{
	struct profile_thread *caller;
	struct ht_err *err = find_thread(profile, call->thread, &caller);
	if (err)
		return err;
	caller->before_frees++;
	profile->before_frees++;
	profile->before_freed_bytes += usable_bytes;
	profile->function[call->hook].before_frees++;
	return NULL;
}

void profile_finish(struct profile *profile)
{
	for (size_t i = 0; i < profile->stack_count; i++)
		settle_peak(profile, &profile->stack[i]);
}

void profile_stack_add(struct profile_stack *sum, const struct profile_stack *stack)
{
	sum->metrics.samples += stack->metrics.samples;
	sum->metrics.allocations += stack->metrics.allocations;
	sum->metrics.allocated_bytes += stack->metrics.allocated_bytes;
	sum->metrics.frees += stack->metrics.frees;
	sum->metrics.freed_bytes += stack->metrics.freed_bytes;
	sum->metrics.temporary += stack->metrics.temporary;
	sum->peak_bytes += stack->peak_bytes;
	for (unsigned i = 0; i < REPLAY_HOOKS; i++)
		sum->calls[i] += stack->calls[i];
}

uint64_t profile_stack_value(const struct profile_stack *stack, enum profile_metric metric)
{
	switch (metric) {
	case PROFILE_OUTSTANDING:
		return metrics_outstanding_bytes(&stack->metrics);
	case PROFILE_PEAK:
		return stack->peak_bytes;
	case PROFILE_ALLOCATED:
		return stack->metrics.allocated_bytes;
	case PROFILE_CALLS:
		return stack->metrics.allocations;
	case PROFILE_TEMPORARY:
		return stack->metrics.temporary;
	case PROFILE_METRIC_COUNT:
		break;
	}
	return 0;
}

struct order {
	const struct profile_stack *stack;
	enum profile_metric metric;
};

static int compare(const void *a, const void *b, void *context)
{
	const struct order *order = context;
	const struct profile_stack *x = &order->stack[*(const uint32_t *)a];
	const struct profile_stack *y = &order->stack[*(const uint32_t *)b];
	uint64_t vx = profile_stack_value(x, order->metric);
	uint64_t vy = profile_stack_value(y, order->metric);
	if (vx != vy)
		return vx > vy ? -1 : 1;
	if (x->metrics.allocated_bytes != y->metrics.allocated_bytes)
		return x->metrics.allocated_bytes > y->metrics.allocated_bytes ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

struct ht_err *profile_order(
	const struct profile_stack *stack, size_t count, enum profile_metric metric, uint32_t **ret)
{
	uint32_t *index = malloc((count + 1) * sizeof(*index));
	if (!index)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", count);
	for (size_t i = 0; i < count; i++)
		index[i] = (uint32_t)i;
	struct order order = {.stack = stack, .metric = metric};
	qsort_r(index, count, sizeof(*index), compare, &order);
	*ret = index;
	return NULL;
}

const char *profile_function_name(unsigned hook)
{
	static const char *const name[] = {
#define X(id, name, shape, arity) #name,
		ABI_HOOKS(X)
#undef X
	};
	return hook < HT_ARRAY_SIZE(name) ? name[hook] : "unknown";
}
