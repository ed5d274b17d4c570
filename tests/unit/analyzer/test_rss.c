/* SPDX-License-Identifier: Apache-2.0
 *
 * RSS against the trace: what is explained, and where the warning begins.
 */
#include "analyzer/views/rss.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/views/warnings.h"
#include "tests/unit/analyzer/scene.h"

#define MIB 1048576u

static struct scene scene;
static struct analysis *analysis;

static struct rss_growth finish(void)
{
	analysis = scene_analyze(&scene);
	return rss_growth_of(analysis);
}

static void end(void)
{
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

static size_t count_warnings(void)
{
	struct warnings warnings;
	ck_no_err(warnings_collect(analysis, &warnings));
	size_t count = warnings.count;
	if (count)
		ck_assert_ptr_nonnull(strstr(warnings.text[0], "RSS grew by "));
	warnings_deinit(&warnings);
	return count;
}

/* The window allocates two blocks of 70 and 30 MiB, frees the second, and frees 20 MiB that were
 * allocated before it. */
static void begin(uint64_t first_bytes, uint64_t last_bytes)
{
	scene_init(&scene);
	tracebuild_rss(&scene.trace, scene.now, first_bytes);
	scene_malloc(&scene, 0, 0x1000, 70 * MIB, 0);
	scene_malloc(&scene, 0, 0x2000, 30 * MIB, 0);
	scene_free(&scene, 0, 0x2000, 30 * MIB);
	scene_free(&scene, 0, 0x3000, 20 * MIB);
	scene_sync(&scene);
	tracebuild_rss(&scene.trace, scene.now, 999 * (uint64_t)MIB);
	tracebuild_rss(&scene.trace, scene.now, last_bytes);
}

HT_TEST(growth_is_from_first_to_last)
{
	begin(10 * MIB, 72 * MIB);
	struct rss_growth rss = finish();
	ck_assert(rss.known && !rss.is_unexplained);
	ck_assert_int_eq(rss.growth_bytes, 62 * MIB);
	ck_assert_int_eq(rss.explained_bytes, 50 * MIB);
	/* 1.5 times the peak, the overhead of two blocks, and heaptap with one thread. */
	ck_assert_uint_eq(rss.explicable_bytes, 150 * MIB + 2 * 32 + 32 * MIB + MIB / 4);
	ck_assert_uint_eq(count_warnings(), 0);
	end();
}

HT_TEST(the_warning_begins_behind_what_is_explicable)
{
	const uint64_t most = 150 * MIB + 2 * 32 + 32 * MIB + MIB / 4;
	for (unsigned more = 0; more < 2; more++) {
		begin(10 * MIB, 10 * MIB + most + more);
		ck_assert_int_eq(finish().is_unexplained, more);
		ck_assert_uint_eq(count_warnings(), more);
		end();
	}
}

HT_TEST(shrinking_is_not_unexplained_growth)
{
	begin(500 * MIB, 10 * MIB);
	struct rss_growth rss = finish();
	ck_assert_int_eq(rss.growth_bytes, -490 * (int64_t)MIB);
	ck_assert(!rss.is_unexplained);
	ck_assert_uint_eq(count_warnings(), 0);
	end();
}

HT_TEST(without_samples_no_output)
{
	scene_init(&scene);
	scene_free(&scene, 0, 0x1000, 100);
	struct rss_growth rss = finish();
	ck_assert(!rss.known);
	ck_assert_int_eq(rss.explained_bytes, -100);
	ck_assert_uint_eq(count_warnings(), 0);
	end();
}

HT_TEST(sizes_of_any_kind_stay_in_range)
{
	scene_init(&scene);
	tracebuild_rss(&scene.trace, scene.now, 1);
	scene_malloc(&scene, 0, 0x1000, UINT64_MAX - 5, 0);
	scene_free(&scene, 0, 0x3000, 7);
	tracebuild_rss(&scene.trace, scene.now, UINT64_MAX);
	struct rss_growth rss = finish();
	ck_assert_int_eq(rss.growth_bytes, INT64_MAX);
	ck_assert_int_eq(rss.explained_bytes, INT64_MAX);
	ck_assert_uint_eq(rss.explicable_bytes, UINT64_MAX);
	ck_assert(!rss.is_unexplained);
	end();
}

static void put_pages(uint64_t anonymous_bytes)
{
	const struct rec rec = {.kind = REC_MEMORY,
		.memory = {scene.now, 4,
			{{MEMORY_RSS, anonymous_bytes + 2 * MIB},
				{MEMORY_ANONYMOUS, anonymous_bytes}, {MEMORY_FILE, MIB},
				{MEMORY_SHARED, MIB}}}};
	tracebuild_put(&scene.trace, &rec);
}

static void check_next_step(const char *module, const char *words)
{
	struct warnings warnings;
	scene_init(&scene);
	tracebuild_module(&scene.trace, 1, module, NULL, 0x400000, 0x500000);
	put_pages(10 * MIB);
	scene_malloc(&scene, 0, 0x1000, 100, 0);
	scene_sync(&scene);
	put_pages(900 * MIB);
	finish();
	ck_no_err(warnings_collect(analysis, &warnings));
	ck_assert_uint_eq(warnings.count, 1);
	ck_assert_msg(strstr(warnings.text[0], words), "%s: %s", module, warnings.text[0]);
	warnings_deinit(&warnings);
	end();
}

HT_TEST(the_warning_names_what_helps_this_program)
{
	check_next_step("/usr/bin/node", "V8's own heap");
	check_next_step("/usr/lib/libnode.so.108", "V8's own heap");
	check_next_step("/usr/bin/nodeless", "record again with --mmap");
}

/* The growth of resident memory by kinds of pages, in MiB, and what is expected. */
static const struct {
	unsigned anonymous, file, shared;
	unsigned held, system; /* growth of the heap in use, and of the allocators' memory; `system`
				  0: not read */
	unsigned mapped;       /* growth of recorded mappings */
	unsigned unexplained;
	bool is_unexplained;
} growths[] = {
	{.file = 200, .held = 1, .system = 1},
	{.shared = 200, .held = 1, .system = 1},
	/* Free memory inside the allocator explains growth, as blocks do. */
	{.anonymous = 290, .held = 29, .system = 290},
	/* 10 % and 16 MiB are the limits. */
	{.anonymous = 110, .held = 99, .system = 99, .unexplained = 11},
	{.anonymous = 110, .held = 98, .system = 98, .unexplained = 12, .is_unexplained = true},
	{.anonymous = 16, .held = 1, .system = 1, .unexplained = 15},
	{.anonymous = 17, .held = 1, .system = 1, .unexplained = 16, .is_unexplained = true},
	/* Pages of files do not hide growth. */
	{.anonymous = 50,
		.file = 200,
		.held = 1,
		.system = 1,
		.unexplained = 49,
		.is_unexplained = true},
	/* Blocks that are not resident explain no growth, and hide only their own share. */
	{.anonymous = 20, .held = 500, .system = 500},
	/* Mappings that were recorded explain what they hold. */
	{.anonymous = 300, .held = 1, .system = 1, .mapped = 299},
	{.anonymous = 300,
		.held = 1,
		.system = 1,
		.mapped = 200,
		.unexplained = 99,
		.is_unexplained = true},
	/* If the allocators were not read, growth is unexplained beyond what heaptap and the
	 * window's blocks (none here) can have added. */
	{.anonymous = 32, .file = 100},
	{.anonymous = 80, .unexplained = 48, .is_unexplained = true},
};

static void see(struct model_memory *memory, enum memory_kind kind, unsigned grown_mib)
{
	memory->count[kind] = 2;
	memory_set(&memory->first, kind, 7 * MIB);
	memory_set(&memory->last, kind, (7 + (uint64_t)grown_mib) * MIB);
}

HT_TEST(growth_is_split_by_kind)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(growths); i++) {
		struct analysis *made = calloc(1, sizeof(*made));
		struct model_memory *memory = &made->model.memory;
		see(memory, MEMORY_RSS, growths[i].anonymous + growths[i].file + growths[i].shared);
		see(memory, MEMORY_ANONYMOUS, growths[i].anonymous);
		see(memory, MEMORY_FILE, growths[i].file);
		see(memory, MEMORY_SHARED, growths[i].shared);
		made->mappings.live.anonymous = (uint64_t)growths[i].mapped * MIB;
		made->heap = (struct heap){.growth_known = growths[i].system != 0,
			.end_bytes = (uint64_t)growths[i].held * MIB,
			.end_system_bytes = (uint64_t)growths[i].system * MIB};
		struct rss_growth rss = rss_growth_of(made);
		const struct rss_parts *parts = &rss.parts;
		ck_assert(rss.known && parts->known);
		ck_assert_int_eq(parts->file_bytes, (int64_t)growths[i].file * MIB);
		ck_assert_int_eq(parts->shared_bytes, (int64_t)growths[i].shared * MIB);
		ck_assert_int_eq(rss.growth_bytes, parts->heap_bytes + parts->free_bytes +
							   parts->other_bytes + parts->file_bytes +
							   parts->shared_bytes);
		ck_assert_msg(rss.unexplained_bytes >> 20 == growths[i].unexplained, "%zu: %lu MiB",
			i, rss.unexplained_bytes >> 20);
		ck_assert_msg(rss.is_unexplained == growths[i].is_unexplained, "%zu", i);
		free(made);
	}
}

HT_TEST(forged_figures_do_no_harm)
{
	static const uint64_t word[] = {0, 1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};
	struct analysis *made = calloc(1, sizeof(*made));
	struct model_memory *memory = &made->model.memory;
	made->heap.growth_known = true;
	for (unsigned i = 0; i < 5000; i++) {
		for (unsigned kind = 1; kind < MEMORY_KIND_COUNT; kind++) {
			memory->count[kind] = 2;
			memory_set(&memory->first, (enum memory_kind)kind, word[(i + kind) % 5]);
			memory_set(&memory->last, (enum memory_kind)kind, word[i / kind % 5]);
		}
		made->heap.end_bytes = word[i % 5];
		made->heap.start_bytes = word[i / 5 % 5];
		made->heap.end_system_bytes = word[i / 25 % 5];
		made->heap.system_bytes = word[i / 125 % 5];
		struct rss_growth rss = rss_growth_of(made);
		ck_assert_uint_le(rss.parts.free_resident_bytes, rss.parts.free_end_bytes);
	}
	free(made);
}

HT_SUITE("analyzer/rss")
