/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of a view: their own sums add up to the total, and inclusive ones are those of a walk of
 * each block's chain in which a function that calls itself counts once.
 */
#include "analyzer/views/breakdown.h"

#include <string.h>

#include "tests/support/random.h"
#include "tests/unit/analyzer/made.h"
#include "tests/unit/analyzer/stage.h"

#define FUNCTIONS 6u
#define STACKS	  60u
#define BLOCKS	  800u
#define DEEPEST	  9u

static struct stage stage;
static struct analysis *analysis;
static struct query query;
static uint64_t seed;

/* The generated chains, outermost frame first, with what each allocated and kept. */
static struct {
	uint32_t node;
	uint8_t function[DEEPEST]; /* FUNCTIONS and above: generated code */
	size_t depth;
	uint64_t bytes, kept;
} chain[STACKS];

static const char *name_of(unsigned function)
{
	static const char *const name[2 * FUNCTIONS] = {
		"f0", "f1", "f2", "f3", "f4", "f5", "m0", "m1", "m2", "m3", "m4", "m5"};
	return name[function];
}

static void make_chains(void)
{
	for (size_t i = 0; i < STACKS; i++) {
		chain[i].depth = 1 + random_below(&seed, DEEPEST);
		chain[i].node = 0;
		chain[i].bytes = chain[i].kept = 0;
		for (size_t k = 0; k < chain[i].depth; k++) {
			const bool is_made = random_below(&seed, 4) == 0;
			const unsigned at = (unsigned)random_below(&seed, FUNCTIONS);
			chain[i].function[k] = (uint8_t)(at + is_made * FUNCTIONS);
			const char *name = name_of(chain[i].function[k]);
			chain[i].node = is_made ? stage_made(&stage, chain[i].node, name, at + 1)
						: stage_node(&stage, chain[i].node, name, NULL);
		}
	}
}

static void make(uint64_t with)
{
	seed = with;
	stage_begin(&stage);
	make_chains();
	for (size_t i = 0; i < BLOCKS; i++) {
		const size_t at = random_below(&seed, STACKS);
		const uint64_t size = 1 + random_below(&seed, 1 << random_below(&seed, 16));
		const uint64_t addr =
			stage_alloc(&stage, (unsigned)random_below(&seed, 3), size, chain[at].node);
		chain[at].bytes += size;
		chain[at].kept += size;
		stage.scene.now += 1000 * random_below(&seed, 4000);
		if (random_below(&seed, 2)) {
			stage_free(&stage, addr);
			chain[at].kept -= size;
		}
	}
	stage_alloc(&stage, 0, 7, 0);
	analysis = scene_analyze(&stage.scene);
	query_init(&query);
}

static void end(void)
{
	analysis_destroy(analysis);
	scene_deinit(&stage.scene);
}

static void check_own_sums(const struct view *view, const struct breakdown *breakdown)
{
	struct sums sums = {0};
	for (size_t i = 0; i < breakdown->count; i++)
		sums_add(&sums, &breakdown->row[i].own);
	if (breakdown->by != BREAKDOWN_LIFETIME) {
		made_check_sums(&sums, &view->total);
		return;
	}
	ck_assert_uint_eq(sums.allocations, view->total.allocations);
	ck_assert_uint_eq(sums.allocated_bytes, view->total.allocated_bytes);
	ck_assert_uint_eq(sums.frees, view->total.frees);
	ck_assert_uint_eq(sums.freed_bytes, view->total.freed_bytes);
}

HT_TEST(own_sums_add_up)
{
	for (uint64_t with = 1; with <= 10; with++) {
		make(with);
		for (int part = 0; part < 2; part++) {
			query.from = part ? "+200ms" : NULL;
			query.to = part ? "+900ms" : NULL;
			struct view *view = scene_view(analysis, &query);
			for (int by = 0; by <= BREAKDOWN_LIFETIME; by++) {
				struct breakdown breakdown;
				ck_no_err(breakdown_find(view, (enum breakdown_by)by,
					METRIC_OUTSTANDING, false, &breakdown));
				ck_assert_uint_gt(breakdown.count, 0);
				check_own_sums(view, &breakdown);
				breakdown_deinit(&breakdown);
			}
			view_destroy(view);
		}
		end();
	}
}

/* --- inclusive sums ---------------------------------------------------------------------------
 */

static bool is_in(size_t at, unsigned function)
{
	for (size_t i = 0; i < chain[at].depth; i++)
		if (chain[at].function[i] == function)
			return true;
	return false;
}

static void check_function(const struct breakdown_row *row, unsigned function)
{
	uint64_t own = 0, inclusive = 0, kept = 0;
	for (size_t i = 0; i < STACKS; i++) {
		own += chain[i].function[chain[i].depth - 1] == function ? chain[i].bytes : 0;
		inclusive += is_in(i, function) ? chain[i].bytes : 0;
		kept += is_in(i, function) ? chain[i].kept : 0;
	}
	ck_assert_uint_eq(row->own.allocated_bytes, own);
	ck_assert_uint_eq(row->inclusive.allocated_bytes, inclusive);
	ck_assert_uint_eq(sums_outstanding_bytes(&row->inclusive), kept);
}

HT_TEST(recursion_counts_once)
{
	for (uint64_t with = 1; with <= 20; with++) {
		struct breakdown breakdown;
		size_t found = 0;
		make(with);
		struct view *view = scene_view(analysis, &query);
		ck_no_err(breakdown_find(
			view, BREAKDOWN_FUNCTION, METRIC_ALLOCATED, true, &breakdown));
		for (size_t i = 0; i < breakdown.count; i++) {
			const struct breakdown_row *row = &breakdown.row[i];
			if (i)
				ck_assert_uint_ge(breakdown.row[i - 1].inclusive.allocated_bytes,
					row->inclusive.allocated_bytes);
			if (row->key == BREAKDOWN_NO_STACK) {
				ck_assert_uint_eq(row->own.allocated_bytes, 7);
				ck_assert_uint_eq(row->inclusive.allocated_bytes, 7);
				continue;
			}
			const char *name = view->frames.frame[row->key].function;
			for (unsigned k = 0; k < 2 * FUNCTIONS; k++)
				if (strcmp(name, name_of(k)) == 0) {
					check_function(row, k);
					found++;
				}
		}
		ck_assert_uint_eq(found, breakdown.count - 1);
		breakdown_deinit(&breakdown);
		view_destroy(view);
		end();
	}
}

HT_TEST(modules_are_distinguished)
{
	for (uint64_t with = 1; with <= 10; with++) {
		uint64_t own[2] = {0}, inclusive[2] = {0};
		struct breakdown breakdown;
		make(with);
		for (size_t i = 0; i < STACKS; i++) {
			bool has[2] = {false};
			for (size_t k = 0; k < chain[i].depth; k++)
				has[chain[i].function[k] >= FUNCTIONS] = true;
			own[chain[i].function[chain[i].depth - 1] >= FUNCTIONS] += chain[i].bytes;
			for (size_t k = 0; k < 2; k++)
				inclusive[k] += has[k] ? chain[i].bytes : 0;
		}
		struct view *view = scene_view(analysis, &query);
		ck_no_err(breakdown_find(
			view, BREAKDOWN_MODULE, METRIC_ALLOCATED, false, &breakdown));
		ck_assert_uint_eq(breakdown.count, 3);
		for (size_t i = 0; i < breakdown.count; i++) {
			const struct breakdown_row *row = &breakdown.row[i];
			if (!row->name)
				continue;
			const bool is_made = strcmp(row->name, "x") != 0;
			ck_assert_uint_eq(row->own.allocated_bytes, own[is_made]);
			ck_assert_uint_eq(row->inclusive.allocated_bytes, inclusive[is_made]);
		}
		breakdown_deinit(&breakdown);
		view_destroy(view);
		end();
	}
}

/* --- lifetimes --------------------------------------------------------------------------------
 */

HT_TEST(lives_are_ranges_that_follow_each_other)
{
	uint64_t next = 0, last = 0;
	for (uint32_t key = 0; last != UINT64_MAX; key = key ? key + 2 : 11) {
		ck_assert_uint_le(key, 63);
		ck_assert_uint_eq(breakdown_life_from(key), next);
		last = breakdown_life_to(key);
		ck_assert_uint_gt(last, next);
		next = last + 1;
	}
}

HT_TEST(lives_of_known_blocks)
{
	static const struct {
		uint64_t life_ns, least_ns, most_ns;
	} life[] = {{500, 0, 1023}, {3000, 1024, 4095}, {100000000, 67108864, 268435455}};
	struct breakdown breakdown;
	stage_begin(&stage);
	for (size_t i = 0; i < HT_ARRAY_SIZE(life); i++)
		for (size_t k = 0; k <= i; k++) {
			const uint64_t addr = stage_alloc(&stage, 0, 10, 0);
			stage.scene.now += life[i].life_ns - (i ? SCENE_STEP_NS : 0);
			if (!i)
				stage.scene.now -= SCENE_STEP_NS;
			stage_free(&stage, addr);
		}
	stage_alloc(&stage, 0, 5, 0);
	analysis = scene_analyze(&stage.scene);
	query_init(&query);
	struct view *view = scene_view(analysis, &query);
	ck_no_err(breakdown_find(view, BREAKDOWN_LIFETIME, METRIC_CALLS, false, &breakdown));
	ck_assert(!breakdown.is_estimate);
	ck_assert_uint_eq(breakdown.count, HT_ARRAY_SIZE(life) + 1);
	for (size_t i = 0; i < HT_ARRAY_SIZE(life); i++) {
		ck_assert_uint_eq(breakdown.row[i].own.allocations, i + 1);
		ck_assert_uint_eq(breakdown_life_from(breakdown.row[i].key), life[i].least_ns);
		ck_assert_uint_eq(breakdown_life_to(breakdown.row[i].key), life[i].most_ns);
	}
	ck_assert_uint_eq(breakdown.row[3].key, BREAKDOWN_LIFETIME_NEVER);
	ck_assert_uint_eq(breakdown.row[3].own.allocated_bytes, 5);
	breakdown_deinit(&breakdown);
	view_destroy(view);
	end();
}

/* For a part of the window or some threads, lifetimes are means. Blocks with equal lifetimes are
 * still in the right row. */
HT_TEST(lives_of_a_part_are_estimates)
{
	struct breakdown breakdown;
	stage_begin(&stage);
	for (size_t i = 0; i < 40; i++) {
		const uint64_t addr = stage_alloc(&stage, 0, 10, 0);
		stage.scene.now += 100000000;
		stage_free(&stage, addr);
	}
	analysis = scene_analyze(&stage.scene);
	query_init(&query);
	query.from = "+1s";
	query.to = "+2s";
	struct view *view = scene_view(analysis, &query);
	ck_no_err(breakdown_find(view, BREAKDOWN_LIFETIME, METRIC_CALLS, false, &breakdown));
	ck_assert(breakdown.is_estimate);
	ck_assert_uint_eq(breakdown_life_from(breakdown.row[0].key), 67108864);
	ck_assert_uint_ge(breakdown.row[0].own.allocations, 9);
	check_own_sums(view, &breakdown);
	breakdown_deinit(&breakdown);
	view_destroy(view);
	end();
}

HT_SUITE("analyzer/breakdown")
