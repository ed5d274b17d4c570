/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cube/cube.h"

#include <stdlib.h>

#include "analyzer/model/array.h"
#include "format/abi_hooks.h"

void cube_init(struct cube *cube)
{
	timeline_init(&cube->timeline);
	cube->step_ns = cube->timeline.step_ns;
}

void cube_deinit(struct cube *cube)
{
	free(cube->site);
	free(cube->of_node.site);
	free(cube->of_plain.site);
	free(cube->cell);
	free(cube->survivor);
	free(cube->thread);
	free(cube->first_cell);
	free(cube->first_survivor);
	map_deinit(&cube->dying);
	*cube = (struct cube){0};
}

unsigned cube_size_class(uint64_t size)
{
	return size ? 64 - (unsigned)__builtin_clzll(size) : 0;
}

const char *cube_function_name(unsigned hook)
{
	static const char *const name[] = {
#define X(id, name, shape, arity) #name,
		ABI_HOOKS(X)
#undef X
	};
	return hook < HT_ARRAY_SIZE(name) ? name[hook] : "unknown";
}

/* --- sites -------------------------------------------------------------------------------------
 */

static uint32_t key_of(uint32_t thread, uint8_t hook, uint64_t size)
{
	return thread << 11 | (uint32_t)hook << 7 | cube_size_class(size);
}

static struct ht_err *add_site(
	struct cube *cube, uint32_t node, uint32_t key, struct cube_index *index, uint32_t at)
{
	struct ht_err *err = array_reserve(&index->site, &index->capacity, (size_t)at + 1,
		sizeof(*index->site), "stack nodes");
	if (!err)
		err = array_reserve(&cube->site, &cube->site_capacity, cube->site_count + 1,
			sizeof(*cube->site), "stacks");
	if (err)
		return err;
	cube->site[cube->site_count] = (struct cube_site){
		.node = node,
		.key = key,
		.next = index->site[at] - 1, /* CUBE_NONE is what 0 leaves */
		.cell = CUBE_NONE,
		.bucket = (uint32_t)cube->timeline.newest,
		.peak_epoch = cube->peak_epoch,
	};
	index->site[at] = (uint32_t)++cube->site_count;
	return NULL;
}

/* The site that was found last comes first the next time. */
static uint32_t find_in_chain(struct cube *cube, uint32_t *head, uint32_t key)
{
	uint32_t before = CUBE_NONE;
	for (uint32_t at = *head - 1; at != CUBE_NONE; at = cube->site[at].next) {
		struct cube_site *site = &cube->site[at];
		if (site->key == key || site->node == CUBE_OTHER) {
			if (before != CUBE_NONE) {
				cube->site[before].next = site->next;
				site->next = *head - 1;
				*head = at + 1;
			}
			return at;
		}
		before = at;
	}
	return CUBE_NONE;
}

static struct ht_err *find_site(
	struct cube *cube, const struct live_block *block, uint8_t hook, uint32_t *ret)
{
	struct cube_index *index = block->stack < NODES_MAX ? &cube->of_node : &cube->of_plain;
	const uint32_t at = block->stack % NODES_MAX;
	const uint32_t key = key_of(block->thread, hook, block->size);
	if (at < index->capacity) {
		*ret = find_in_chain(cube, &index->site[at], key);
		if (*ret != CUBE_NONE)
			return NULL;
	}
	struct ht_err *err = add_site(cube, block->stack, key, index, at);
	*ret = (uint32_t)cube->site_count - 1;
	return err;
}

static struct ht_err *find_caller(struct cube *cube, uint32_t thread, struct cube_calls **ret)
{
	if (thread >= cube->thread_count) {
		struct ht_err *err = array_reserve(&cube->thread, &cube->thread_capacity,
			(size_t)thread + 1, sizeof(*cube->thread), "threads");
		if (err)
			return err;
		cube->thread_count = (size_t)thread + 1;
	}
	*ret = &cube->thread[thread];
	return NULL;
}

/* --- facts -------------------------------------------------------------------------------------
 */

/* To be called before the site's live bytes change: what they are is what they were at the last
 * peak, unless they have changed since. */
static void settle_peak(const struct cube *cube, struct cube_site *site)
{
	if (site->peak_epoch == cube->peak_epoch)
		return;
	site->peak_epoch = cube->peak_epoch;
	site->peak_bytes = site->live_bytes;
}

static void note_peak(struct cube *cube, uint64_t time_ns)
{
	uint64_t live_bytes = cube_live_bytes(cube);
	if (live_bytes <= cube->peak_bytes)
		return;
	cube->peak_bytes = live_bytes;
	cube->peak_blocks = cube_live_blocks(cube);
	cube->peak_time_ns = time_ns;
	cube->peak_epoch++;
}

/* The timeline has been told of the event. */
static struct ht_err *advance(struct cube *cube)
{
	struct ht_err *err = NULL;
	if (ht_unlikely(cube->timeline.step_ns != cube->step_ns))
		err = cube_follow_timeline(cube);
	if (!err && ht_unlikely(cube->cell_count > CUBE_CELLS_MAX ||
				cube->survivor_count > CUBE_CELLS_MAX))
		err = cube_shrink(cube);
	return err;
}

/* The site's counts of the present bucket. */
static struct ht_err *open_cell(struct cube *cube, uint32_t at)
{
	const uint32_t bucket = (uint32_t)cube->timeline.newest;
	if (ht_likely(cube->site[at].bucket == bucket))
		return NULL;
	struct ht_err *err = cube_close_cell(cube, at);
	cube->site[at].bucket = bucket;
	return err;
}

struct ht_err *cube_allocated(
	struct cube *cube, const struct replay_call *call, const struct live_block *block)
{
	const struct sample_share share = sample_share_of(block, cube->sample_bytes);
	uint32_t at = 0;
	timeline_allocated(&cube->timeline, call->time_ns, share);
	struct ht_err *err = advance(cube);
	if (!err)
		err = find_site(cube, block, call->hook, &at);
	if (!err)
		err = open_cell(cube, at);
	if (err)
		return err;
	struct cube_site *site = &cube->site[at];
	settle_peak(cube, site);
	site->live_blocks += share.blocks;
	site->live_bytes += share.bytes;
	site->open.samples++;
	site->open.allocations += share.blocks;
	site->open.allocated_bytes += share.bytes;
	cube->total.samples++;
	cube->total.allocations += share.blocks;
	cube->total.allocated_bytes += share.bytes;
	cube->live_blocks_of_class[cube_size_class(block->size)] += share.blocks;
	note_peak(cube, call->time_ns);
	return NULL;
}

static void count_death(struct cube *cube, struct cube_site *site, struct sample_share share,
	bool temporary, uint64_t life_ns)
{
	const unsigned class = cube_size_class(life_ns);
	settle_peak(cube, site);
	site->live_blocks -= share.blocks;
	site->live_bytes -= share.bytes;
	if (site->longest_ns < life_ns)
		site->longest_ns = life_ns;
	site->open.frees += share.blocks;
	site->open.freed_bytes += share.bytes;
	site->open.temporary += temporary;
	site->open.lifetime_us += life_ns / 1000 * share.blocks;
	cube->total.frees += share.blocks;
	cube->total.freed_bytes += share.bytes;
	cube->total.temporary += temporary;
	cube->total.lifetime_us += life_ns / 1000 * share.blocks;
	cube->lifetime_blocks[class] += share.blocks;
	cube->lifetime_bytes[class] += share.bytes;
}

struct ht_err *cube_freed(struct cube *cube, const struct replay_call *call,
	const struct live_block *block, bool temporary)
{
	const struct sample_share share = sample_share_of(block, cube->sample_bytes);
	struct cube_calls *caller = NULL;
	uint32_t at = 0;
	timeline_freed(&cube->timeline, call->time_ns, share, temporary);
	struct ht_err *err = advance(cube);
	if (!err)
		err = find_site(cube, block, block->hook, &at);
	if (!err)
		err = open_cell(cube, at);
	if (!err)
		err = find_caller(cube, call->thread, &caller);
	if (err)
		return err;
	const uint64_t life_ns = call->time_ns - block->birth_ns;
	caller->frees += share.blocks;
	caller->freed_bytes += share.bytes;
	cube->function[call->hook].frees += share.blocks;
	cube->function[call->hook].freed_bytes += share.bytes;
	cube->live_blocks_of_class[cube_size_class(block->size)] -= share.blocks;
	count_death(cube, &cube->site[at], share, temporary, life_ns);
	const uint32_t death = (uint32_t)cube->timeline.newest;
	if (block->birth_ns >= cube->timeline.newest_end_ns - cube->step_ns)
		return NULL;
	return cube_add_survivor(cube, at, (uint32_t)(block->birth_ns / cube->step_ns), death,
		share, temporary, life_ns / 1000 * share.blocks);
}

struct ht_err *cube_before_freed(struct cube *cube, const struct replay_call *call,
	uint64_t usable_bytes, uint64_t heap_bytes)
{
	struct cube_calls *caller;
	timeline_before_freed(&cube->timeline, call->time_ns, heap_bytes);
	struct ht_err *err = advance(cube);
	if (!err)
		err = find_caller(cube, call->thread, &caller);
	if (err)
		return err;
	caller->before_frees++;
	cube->before_frees++;
	cube->before_freed_bytes += usable_bytes;
	cube->function[call->hook].before_frees++;
	cube->before[cube_size_class(usable_bytes)][cube->timeline.newest]++;
	return NULL;
}

struct ht_err *cube_finish(struct cube *cube)
{
	struct ht_err *err = cube_follow_timeline(cube);
	for (uint32_t i = 0; i < cube->site_count && !err; i++) {
		settle_peak(cube, &cube->site[i]);
		err = cube_close_cell(cube, i);
	}
	if (!err)
		err = cube_sort(cube);
	timeline_finish(&cube->timeline);
	return err;
}
