/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cube/cube.h"

#include <stdlib.h>

#include "format/array.h"
#include "format/abi_hooks.h"

void cube_init(struct cube *cube)
{
	timeline_init(&cube->timeline);
	cube->step_ns = cube->timeline.step_ns;
	cube->bucket_end_ns = cube->timeline.newest_end_ns;
	cube->cells_max = CUBE_CELLS_MAX;
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
	map_deinit(&cube->by_bucket);
	map_deinit(&cube->dying);
	*cube = (struct cube){0};
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

static uint32_t key_of(uint32_t thread, uint8_t hook, unsigned size_class)
{
	return thread << 11 | (uint32_t)hook << 7 | size_class;
}

static struct ht_err *add_site(
	struct cube *cube, uint32_t node, uint32_t key, struct cube_index *index, uint32_t at)
{
	HT_TRY(ARRAY_RESERVE(index->site, index->capacity, (size_t)at + 1, "stack nodes"));
	HT_TRY(ARRAY_RESERVE(cube->site, cube->site_capacity, cube->site_count + 1, "stacks"));
	cube->site[cube->site_count] = (struct cube_site){
		.node = node,
		.key = key,
		.next = index->site[at],
		.cell = CUBE_NONE,
		.bucket = cube->bucket,
		.peak_epoch = cube->peak_epoch,
	};
	index->site[at] = (uint32_t)++cube->site_count;
	return NULL;
}

/* The site of a chain with this key, moved to the front; CUBE_NONE: none. */
static uint32_t find_in_chain(struct cube *cube, uint32_t *head, uint32_t key)
{
	for (uint32_t *link = head; *link; link = &cube->site[*link - 1].next) {
		const uint32_t at = *link;
		struct cube_site *site = &cube->site[at - 1];
		if (site->key != key && site->node != CUBE_OTHER)
			continue;
		*link = site->next;
		site->next = *head;
		*head = at;
		return at - 1;
	}
	return CUBE_NONE;
}

static struct ht_err *look_up_site(struct cube *cube, uint32_t stack, uint32_t key, uint32_t *ret)
{
	struct cube_index *index = stack < NODES_MAX ? &cube->of_node : &cube->of_plain;
	const uint32_t at = stack % NODES_MAX;
	if (at < index->capacity) {
		*ret = find_in_chain(cube, &index->site[at], key);
		if (*ret != CUBE_NONE)
			return NULL;
	}
	struct ht_err *err = add_site(cube, stack, key, index, at);
	*ret = (uint32_t)cube->site_count - 1;
	return err;
}

/* Fibonacci hashing (Knuth, The Art of Computer Programming, vol. 3, 6.4). */
static inline size_t recent_index(uint32_t node, uint32_t key)
{
	return ((uint64_t)node << 32 | key) * 0x9e3779b97f4a7c15ull >> (64 - CUBE_RECENT_BITS);
}

struct ht_err *cube_find_site(struct cube *cube, uint32_t stack, uint32_t thread, uint8_t hook,
	unsigned size_class, uint32_t *ret)
{
	const uint32_t key = key_of(thread, hook, size_class);
	struct ht_err *err = look_up_site(cube, stack, key, ret);
	cube->recent[recent_index(stack, key)] = *ret + 1;
	return err;
}

static struct ht_err *find_site(
	struct cube *cube, const struct live_block *block, uint8_t hook, uint32_t *ret)
{
	return cube_find_site(
		cube, block->stack, block->thread, hook, cube_size_class(block->size), ret);
}

/* As find_site, for a block whose note may hold the site. */
static inline struct ht_err *find_noted(
	struct cube *cube, const struct live_block *block, uint32_t *ret)
{
	*ret = block->note - 1;
	if (ht_likely(*ret < cube->site_count && cube->site[*ret].node != CUBE_NONE))
		return NULL;
	return find_site(cube, block, block->hook, ret);
}

uint64_t cube_live_blocks_from(const struct cube *cube, unsigned size_class)
{
	uint64_t blocks = 0;
	for (size_t i = 0; i < cube->site_count; i++)
		if (cube_site_size_class(&cube->site[i]) >= size_class)
			blocks += cube->site[i].open.allocations - cube->site[i].open.frees;
	for (size_t i = 0; i < cube->cell_count; i++)
		if (cube_site_size_class(&cube->site[cube->cell[i].site]) >= size_class)
			blocks += cube->cell[i].counts.allocations - cube->cell[i].counts.frees;
	return blocks;
}

/* --- callers of free ---------------------------------------------------------------------------
 */

static void calls_add(struct cube_calls *sum, const struct cube_calls *more)
{
	sum->frees += more->frees;
	sum->freed_bytes += more->freed_bytes;
	sum->before_frees += more->before_frees;
}

static struct ht_err *put_caller(struct cube *cube)
{
	const uint32_t thread = cube->caller_thread;
	if (!cube->caller.frees && !cube->caller.before_frees)
		return NULL;
	HT_TRY(ARRAY_RESERVE(cube->thread, cube->thread_capacity, (size_t)thread + 1, "threads"));
	if (cube->thread_count <= thread)
		cube->thread_count = (size_t)thread + 1;
	calls_add(&cube->thread[thread], &cube->caller);
	calls_add(&cube->function[cube->caller_hook], &cube->caller);
	cube->caller = (struct cube_calls){0};
	return NULL;
}

static inline struct ht_err *enter_caller(struct cube *cube, const struct replay_call *call)
{
	if (ht_likely(cube->caller_thread == call->thread && cube->caller_hook == call->hook))
		return NULL;
	struct ht_err *err = put_caller(cube);
	cube->caller_thread = call->thread;
	cube->caller_hook = call->hook;
	return err;
}

struct ht_err *cube_count_caller(
	struct cube *cube, uint32_t thread, uint8_t hook, const struct cube_calls *calls)
{
	const struct replay_call call = {.thread = thread, .hook = hook};
	HT_TRY(enter_caller(cube, &call));
	calls_add(&cube->caller, calls);
	return NULL;
}

/* --- buckets -----------------------------------------------------------------------------------
 */

/* Adds the difference of the totals since the bucket began to the timeline. */
static void close_bucket(struct cube *cube)
{
	const struct cube_counts *now = &cube->total, *then = &cube->bucket_start;
	const struct timeline_step step = {
		.allocations = now->allocations - then->allocations,
		.allocated_bytes = now->allocated_bytes - then->allocated_bytes,
		.frees = now->frees - then->frees,
		.freed_bytes = now->freed_bytes - then->freed_bytes,
		.temporary = now->temporary - then->temporary,
		.live_bytes = cube_live_bytes(cube),
		.live_max_bytes = cube->bucket_max_bytes,
		.before_bytes = cube->before_heap_bytes,
	};
	if (cube->is_unordered)
		return;
	if (step.allocations || step.frees || step.before_bytes != cube->timeline.before_bytes)
		timeline_add(&cube->timeline, &step);
	cube->bucket_start = *now;
	cube->bucket_max_bytes = step.live_bytes;
}

static struct ht_err *follow(struct cube *cube)
{
	HT_TRY(cube_follow_timeline(cube));
	HT_TRY(cube_shrink(cube));
	cube->bucket = (uint32_t)cube->timeline.newest;
	cube->bucket_end_ns = cube->timeline.newest_end_ns;
	return NULL;
}

static struct ht_err *next_bucket(struct cube *cube, uint64_t time_ns)
{
	close_bucket(cube);
	timeline_enter(&cube->timeline, time_ns);
	return follow(cube);
}

static inline struct ht_err *enter_bucket(struct cube *cube, uint64_t time_ns)
{
	return ht_likely(time_ns < cube->bucket_end_ns) ? NULL : next_bucket(cube, time_ns);
}

/* Opens the site's counts of the current bucket. */
static inline struct ht_err *open_cell(struct cube *cube, uint32_t at)
{
	if (ht_likely(cube->site[at].bucket == cube->bucket))
		return NULL;
	struct ht_err *err = cube_close_cell(cube, at);
	cube->site[at].bucket = cube->bucket;
	return err;
}

/* --- facts -------------------------------------------------------------------------------------
 */

/* Call before the site's live bytes change: if they have not changed since the last peak, they are
 * the site's share of it. */
static inline void settle_peak(const struct cube *cube, struct cube_site *site)
{
	if (site->peak_epoch == cube->peak_epoch)
		return;
	site->peak_epoch = cube->peak_epoch;
	site->peak_bytes = site->live_bytes;
}

/* Notes a new highest total of the bucket. No lower total can be the peak, nor the highest after
 * subtracting the freed older blocks, whose bytes never decrease. */
static void note_highest(struct cube *cube, uint64_t live_bytes, uint64_t time_ns)
{
	/* Live bytes computed here lack culled blocks; CULLED records state the true peak. */
	if (cube->is_culled)
		return;
	cube->bucket_max_bytes = live_bytes;
	const int64_t bytes = (int64_t)(live_bytes - cube->before_heap_bytes);
	if (bytes > cube->highest_bytes) {
		cube->highest_bytes = bytes;
		cube->highest_time_ns = time_ns;
	}
	if (live_bytes <= cube->peak_bytes)
		return;
	cube->peak_bytes = live_bytes;
	cube->peak_blocks = cube_live_blocks(cube);
	cube->peak_time_ns = time_ns;
	cube->peak_epoch++;
}

static inline struct sample_share share_of(const struct cube *cube, const struct live_block *block)
{
	return ht_likely(!cube->sample_bytes) ? (struct sample_share){1, block->size}
					      : sample_share_of(block, cube->sample_bytes);
}

static inline void count_birth(
	struct cube *cube, struct cube_site *site, struct sample_share share, uint64_t time_ns)
{
	settle_peak(cube, site);
	site->live_bytes += share.bytes;
	site->open.allocations += share.blocks;
	site->open.allocated_bytes += share.bytes;
	cube->total.samples++;
	cube->total.allocations += share.blocks;
	cube->total.allocated_bytes += share.bytes;
	const uint64_t live_bytes = cube_live_bytes(cube);
	if (live_bytes > cube->bucket_max_bytes)
		note_highest(cube, live_bytes, time_ns);
}

static void add_variance(
	const struct cube *cube, struct cube_site *site, const struct live_block *block)
{
	const struct sample_variance more = sample_variance_of(block, cube->sample_bytes);
	site->variance.bytes += more.bytes;
	site->variance.blocks += more.blocks;
}

static struct ht_err *allocated_any(
	struct cube *cube, const struct replay_call *call, struct live_block *block)
{
	uint32_t at = 0;
	HT_TRY(enter_bucket(cube, call->time_ns));
	HT_TRY(find_site(cube, block, call->hook, &at));
	HT_TRY(open_cell(cube, at));
	block->note = at + 1;
	if (cube->sample_bytes) {
		cube->site[at].open.samples++;
		add_variance(cube, &cube->site[at], block);
	}
	count_birth(cube, &cube->site[at], share_of(cube, block), call->time_ns);
	return NULL;
}

/* Whether the site with this note has open counts in the bucket of `call`. */
static inline bool is_open(const struct cube *cube, uint32_t note, const struct replay_call *call)
{
	return note - 1 < cube->site_count && cube->site[note - 1].bucket == cube->bucket &&
	       cube->site[note - 1].node != CUBE_NONE && call->time_ns < cube->bucket_end_ns;
}

struct ht_err *cube_allocated(
	struct cube *cube, const struct replay_call *call, struct live_block *block)
{
	const uint32_t key = key_of(block->thread, call->hook, cube_size_class(block->size));
	const uint32_t note = cube->recent[recent_index(block->stack, key)];
	if (ht_unlikely(!is_open(cube, note, call) || cube->sample_bytes))
		return allocated_any(cube, call, block);
	struct cube_site *site = &cube->site[note - 1];
	if (ht_unlikely(site->node != block->stack || site->key != key))
		return allocated_any(cube, call, block);
	block->note = note;
	count_birth(cube, site, (struct sample_share){1, block->size}, call->time_ns);
	return NULL;
}

static inline void count_life(
	struct cube *cube, struct cube_site *site, struct sample_share share, uint64_t life_ns)
{
	const unsigned class = cube_size_class(life_ns);
	if (site->longest_ns < life_ns)
		site->longest_ns = life_ns;
	cube->lifetime_blocks[class] += share.blocks;
	cube->lifetime_bytes[class] += share.bytes;
	cube->caller.frees += share.blocks;
	cube->caller.freed_bytes += share.bytes;
}

static inline void count_death(struct cube *cube, struct cube_site *site, struct sample_share share,
	bool temporary, uint64_t life_ns)
{
	const uint64_t lifetime_us = life_ns / 1000 * share.blocks;
	settle_peak(cube, site);
	site->live_bytes -= share.bytes;
	site->open.frees += share.blocks;
	site->open.freed_bytes += share.bytes;
	site->open.temporary += temporary;
	site->open.lifetime_us += lifetime_us;
	cube->total.frees += share.blocks;
	cube->total.freed_bytes += share.bytes;
	cube->total.temporary += temporary;
	cube->total.lifetime_us += lifetime_us;
	count_life(cube, site, share, life_ns);
}

static inline struct ht_err *count_survivor(struct cube *cube, const struct live_block *block,
	uint32_t at, struct sample_share share, bool temporary, uint64_t life_ns)
{
	if (block->birth_ns >= cube->bucket_end_ns - cube->step_ns)
		return NULL;
	return cube_add_survivor(cube, at, cube_bucket_at(cube, block->birth_ns), cube->bucket,
		share, temporary, life_ns / 1000 * share.blocks);
}

static struct ht_err *freed_any(struct cube *cube, const struct replay_call *call,
	const struct live_block *block, bool temporary)
{
	const struct sample_share share = share_of(cube, block);
	const uint64_t life_ns = call->time_ns - block->birth_ns;
	uint32_t at = 0;
	HT_TRY(enter_bucket(cube, call->time_ns));
	HT_TRY(find_noted(cube, block, &at));
	HT_TRY(open_cell(cube, at));
	HT_TRY(enter_caller(cube, call));
	count_death(cube, &cube->site[at], share, temporary, life_ns);
	return count_survivor(cube, block, at, share, temporary, life_ns);
}

struct ht_err *cube_freed(struct cube *cube, const struct replay_call *call,
	const struct live_block *block, bool temporary)
{
	const uint32_t at = block->note - 1;
	const uint64_t life_ns = call->time_ns - block->birth_ns;
	const struct sample_share share = {1, block->size};
	if (ht_unlikely(!is_open(cube, block->note, call) || cube->sample_bytes ||
			cube->caller_thread != call->thread || cube->caller_hook != call->hook))
		return freed_any(cube, call, block, temporary);
	count_death(cube, &cube->site[at], share, temporary, life_ns);
	return count_survivor(cube, block, at, share, temporary, life_ns);
}

struct ht_err *cube_settled(struct cube *cube, const struct live_block *block, uint64_t time_ns)
{
	const struct sample_share share = share_of(cube, block);
	const uint64_t life_ns = time_ns - block->birth_ns;
	uint32_t at = 0;
	HT_TRY(find_noted(cube, block, &at));
	if (cube->site[at].longest_ns < life_ns)
		cube->site[at].longest_ns = life_ns;
	cube->has_settled = true;
	return cube_add_survivor(cube, at, cube_bucket_at(cube, block->birth_ns), CUBE_SETTLED,
		share, false, life_ns / 1000 * share.blocks);
}

struct ht_err *cube_before_freed(struct cube *cube, const struct replay_call *call,
	uint64_t usable_bytes, uint64_t heap_bytes)
{
	HT_TRY(enter_bucket(cube, call->time_ns));
	HT_TRY(enter_caller(cube, call));
	cube->caller.before_frees++;
	cube->before_frees++;
	cube->before_freed_bytes += usable_bytes;
	cube->before_heap_bytes += heap_bytes;
	cube->before[cube_size_class(usable_bytes)][cube->bucket]++;
	return NULL;
}

struct ht_err *cube_pass(struct cube *cube, uint64_t time_ns)
{
	struct ht_err *err = enter_bucket(cube, time_ns);
	if (cube->timeline.count <= cube->timeline.newest)
		cube->timeline.count = cube->timeline.newest + 1;
	return err;
}

/* --- blocks of which everything is known -------------------------------------------------------
 */

struct ht_err *cube_lived(struct cube *cube, const struct live_block *block,
	const struct replay_call *death, bool temporary)
{
	const struct sample_share share = share_of(cube, block);
	uint32_t at = 0;
	if (death)
		HT_TRY(cube_pass(cube, death->time_ns));
	/* An RSS sample or an earlier block may have joined steps. */
	HT_TRY(follow(cube));
	HT_TRY(find_site(cube, block, block->hook, &at));
	const uint32_t birth = cube_bucket_at(cube, block->birth_ns);
	const struct cube_counts born = {
		.samples = 1, .allocations = share.blocks, .allocated_bytes = share.bytes};
	add_variance(cube, &cube->site[at], block);
	HT_TRY(cube_add_counts(cube, at, birth, &born));
	if (!death)
		return NULL;
	const uint64_t life_ns = death->time_ns - block->birth_ns;
	const struct cube_counts died = {.frees = share.blocks,
		.freed_bytes = share.bytes,
		.temporary = temporary,
		.lifetime_us = life_ns / 1000 * share.blocks};
	HT_TRY(enter_caller(cube, death));
	count_life(cube, &cube->site[at], share, life_ns);
	HT_TRY(cube_add_counts(cube, at, cube->bucket, &died));
	if (birth == cube->bucket)
		return NULL;
	return cube_add_survivor(cube, at, birth, cube->bucket, share, temporary, died.lifetime_us);
}

struct ht_err *cube_finish(struct cube *cube)
{
	close_bucket(cube);
	HT_TRY(cube_follow_timeline(cube));
	HT_TRY(put_caller(cube));
	for (uint32_t i = 0; i < cube->site_count; i++) {
		settle_peak(cube, &cube->site[i]);
		HT_TRY(cube_close_cell(cube, i));
	}
	HT_TRY(cube_sort(cube));
	if (cube->is_unordered || (cube->is_culled && !cube->has_peak))
		cube_estimate_peak(cube);
	timeline_finish(&cube->timeline);
	if (cube->is_culled)
		cube_finish_culled(cube);
	if (!cube->other)
		return NULL;
	for (uint32_t i = cube->first_cell[cube->other - 1]; i < cube->first_cell[cube->other]; i++)
		cube->folded_bytes += cube->cell[i].counts.allocated_bytes;
	return NULL;
}
