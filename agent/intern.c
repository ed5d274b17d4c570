/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/intern.h"

#include "agent/config.h"
#include "agent/step.h"

#define INTERN_ID_MASK	  ((1ull << ABI_NODE_BITS) - 1)
#define INTERN_PROBES_MAX 256u

static uint64_t tag_of(uint64_t hash)
{
	uint64_t tag = hash & ~INTERN_ID_MASK;
	return tag ? tag : 1ull << ABI_NODE_BITS;
}

/*
 * The id under `hash`, or INTERN_NONE. `*ret_free`: the empty word at which the search ended; NULL:
 * the search met no empty word.
 */
static uint32_t table_find(const struct abi_config *config, uint64_t hash, uint64_t **ret_free)
{
	uint64_t *table = (uint64_t *)config_at(config, ABI_TABLE_OFF);
	uint64_t tag = tag_of(hash);
	for (uint64_t i = 0; i < INTERN_PROBES_MAX; i++) {
		uint64_t *at = &table[(hash + i) & config->table_mask];
		uint64_t word = load_acquire(at);
		if ((word & ~INTERN_ID_MASK) == tag)
			return word & INTERN_ID_MASK;
		if (word == 0) {
			*ret_free = at;
			return INTERN_NONE;
		}
	}
	*ret_free = NULL;
	return INTERN_NONE;
}

uint32_t intern_find(const struct abi_config *config, uint64_t hash)
{
	uint64_t *at;
	return table_find(config, hash, &at);
}

static uint32_t node_make(const struct abi_config *config, uint16_t epoch, uint32_t parent,
	uint64_t frame, uint64_t function)
{
	struct abi_control *control = config_control(config);
	/* Check first, so that a full array does not keep increasing the counter. */
	if (load_relaxed(&control->node_count) + 1 >= config->node_max)
		return INTERN_NONE;
	uint64_t id = fetch_add(&control->node_count, 1) + 1;
	if (id >= config->node_max)
		return INTERN_NONE;
	struct abi_node *node = (struct abi_node *)config_at(config, ABI_NODES_OFF) + id;
	node->pc = frame & ~(STEP_EXACT | STEP_INTERPRETED);
	node->parent = parent;
	node->flags = (frame & STEP_EXACT ? ABI_NODE_EXACT : 0) |
		      (frame & STEP_INTERPRETED ? ABI_NODE_INTERPRETED : 0);
	node->epoch = epoch;
	if (function)
		store_relaxed((uint64_t *)config->functions + id, function);
	store_release(&node->ready, 1);
	return (uint32_t)id;
}

uint32_t intern_frame(const struct abi_config *config, uint16_t epoch, uint32_t parent,
	uint64_t hash, uint64_t frame, uint64_t function)
{
	uint64_t *at;
	uint32_t id = table_find(config, hash, &at);
	if (id != INTERN_NONE || !at)
		return id;
	uint32_t made = node_make(config, epoch, parent, frame, function);
	if (made == INTERN_NONE)
		return INTERN_NONE;
	uint64_t seen = 0;
	while (!compare_swap(at, &seen, tag_of(hash) | made)) {
		id = table_find(config, hash, &at);
		if (id != INTERN_NONE || !at)
			return id;
		seen = 0;
	}
	return made;
}

uint32_t intern_stack(const struct abi_config *config, uint16_t epoch, const uint64_t *frames,
	const uint64_t *functions, uint32_t count, bool *ret_cut)
{
	uint64_t hash = epoch;
	*ret_cut = false;
	for (uint32_t i = count; i-- > 0;)
		hash = abi_stack_hash(hash, frames[i]);
	uint32_t id = intern_find(config, hash);
	if (ht_likely(id != INTERN_NONE))
		return id;

	uint32_t parent = 0;
	hash = epoch;
	for (uint32_t i = count; i-- > 0; parent = id) {
		hash = abi_stack_hash(hash, frames[i]);
		id = intern_frame(
			config, epoch, parent, hash, frames[i], functions ? functions[i] : 0);
		if (id == INTERN_NONE) {
			*ret_cut = true;
			return parent;
		}
	}
	return parent;
}
