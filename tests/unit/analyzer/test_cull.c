/* SPDX-License-Identifier: Apache-2.0
 *
 * A culled trace says what the full one says: random histories of several threads, with chains of
 * reallocs and blocks that change hands, read as they are and through the filter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/cull/cull.h"
#include "format/reader.h"
#include "tests/unit/analyzer/scene.h"

#define BLOCKS	 300u
#define STACKS	 9u
#define NS_PER_S 1000000000ull

struct play {
	uint64_t seed, cull_ns, pause_ns; /* cull_ns: the filter's limit; pause_ns: longest time
					     between two steps */
	unsigned steps;
	bool has_heap, has_names, has_before, ends_within, has_inversions;
};

static struct scene scene;
static struct tracebuild culled_trace;
static uint32_t node[STACKS];
static struct {
	bool live;
	unsigned lane;
} block[BLOCKS];
static uint64_t input_events;

static uint64_t addr_of(unsigned b)
{
	return 0x10000 + 0x1000 * (uint64_t)b;
}

static uint64_t size_of(void)
{
	return random() % 20 ? (uint64_t)random() % 300 : (uint64_t)random() % 200000;
}

/* Makes one random step. Most blocks live for a short time; the first tenth are rarely freed. */
static void step(const struct play *play)
{
	unsigned b = (unsigned)random() % BLOCKS, lane = (unsigned)random() % SCENE_LANES;
	const uint32_t stack = node[random() % STACKS];
	static const enum abi_hook hook[] = {ABI_HOOK_MALLOC, ABI_HOOK_CALLOC};
	if (random() % 3)
		b = BLOCKS / 10 + (unsigned)random() % 20;
	if (block[b].live && random() % 3)
		lane = block[b].lane;
	scene.now += (uint64_t)random() % play->pause_ns / 16 * 16;
	input_events++;
	if (!block[b].live) {
		scene_alloc(&scene, lane, hook[random() % 2], addr_of(b), size_of(), stack);
		block[b].live = true;
	} else if (b < BLOCKS / 10 && random() % 10) {
		scene_malloc(&scene, lane, 0x900000, size_of(), stack);
		scene_free(&scene, lane, 0x900000, 0);
		input_events++;
	} else if (random() % 5 < 2) {
		scene_free(&scene, lane, addr_of(b), 0);
		block[b].live = false;
	} else if (random() % 4) {
		scene_realloc_begin(&scene, lane, addr_of(b), 0);
		if (random() % 10 == 0)
			scene.now += (uint64_t)random() % (2 * play->cull_ns) / 16 * 16;
		scene_realloc_end(&scene, lane, addr_of(b), size_of(), stack);
		input_events++;
	} else if (random() % 2) {
		scene_realloc_begin(&scene, lane, addr_of(b), 0);
		scene_realloc_done(&scene, lane, ABI_EVENT_REALLOC_FREED);
		block[b].live = false;
		input_events++;
	} else {
		scene_realloc_begin(&scene, lane, addr_of(b), 0);
		if (random() % 3 == 0)
			scene.now += (uint64_t)random() % (2 * play->cull_ns) / 16 * 16;
		scene_realloc_done(&scene, lane, ABI_EVENT_REALLOC_FAIL);
		input_events++;
	}
	block[b].lane = lane;
	if (play->has_before && random() % 20 == 0) {
		scene_free(&scene, lane, 0x5000000 + 16 * (uint64_t)random(), 100);
		input_events++;
	}
	/* The first block's free is stamped late: another thread has already got the address. */
	if (play->has_inversions && random() % 20 == 0) {
		scene_malloc(&scene, lane, 0xa00000, size_of(), stack);
		scene_malloc(&scene, (lane + 1) % SCENE_LANES, 0xa00000, 40, stack);
		scene_free(&scene, lane, 0xa00000, 0);
		scene_free(&scene, (lane + 1) % SCENE_LANES, 0xa00000, 0);
		input_events += 4;
	}
	if (random() % 100 == 0)
		scene_sync(&scene);
}

static void put_heap(void)
{
	struct rec heap = {.kind = REC_HEAP,
		.heap = {.begin_tsc = scene.now + 100000,
			.end_tsc = scene.now + 30000000,
			.account_count = 1,
			.account = {{.allocator = {"glibc", 5},
				.flags = REC_ACCOUNT_KNOWN,
				.held_bytes = 900000000,
				.system_bytes = 990000000,
				.header_bytes = 8}}}};
	scene_sync(&scene);
	tracebuild_put(&scene.trace, &heap);
}

static void name_thread(unsigned i)
{
	char name[24];
	snprintf(name, sizeof(name), "worker-%u", i);
	struct rec rec = {.kind = REC_THREAD,
		.thread = {.tid = SCENE_TID(i % SCENE_LANES),
			.name = {name, strlen(name)},
			.since_tsc = scene.now}};
	scene_sync(&scene);
	tracebuild_put(&scene.trace, &rec);
}

/* Records the full trace, from the beginning of the window to its END. */
static int record(const struct play *play)
{
	srandom((unsigned)play->seed);
	memset(block, 0, sizeof(block));
	input_events = 0;
	scene_init(&scene);
	for (unsigned i = 0; i < STACKS; i++)
		node[i] = tracebuild_node(&scene.trace, 0, 0x400000 + i);
	for (unsigned i = 0; i < play->steps; i++) {
		if (play->has_heap && (i == play->steps / 10 || i == play->steps - 10))
			put_heap();
		if (play->has_names && i % (play->steps / 20 + 1) == 5)
			name_thread(i / 7);
		step(play);
	}
	scene_sync(&scene);
	scene.now += SCENE_STEP_NS;
	tracebuild_loss(&scene.trace, REC_COUNTER_EVENTS, input_events);
	tracebuild_end(&scene.trace, REC_END_DURATION, scene.now, scene.now);
	return tracebuild_finish(&scene.trace);
}

static struct {
	uint64_t events, listed, bytes;
	uint64_t complete_tsc;
	uint64_t blocks_max, sizes_max;
} seen;

static struct ht_err *put(void *context, const struct rec *rec, uint64_t events)
{
	(void)context;
	seen.events += events;
	if (rec->kind == REC_EVENTS) {
		seen.listed += events;
		seen.bytes += bytes_left(&rec->events.body);
	}
	if (rec->kind == REC_CULLED)
		seen.bytes += rec->raw.length;
	tracebuild_put(&culled_trace, rec);
	return NULL;
}

/* Returns the trace on `fd` as the filter writes it. */
static int cull(int fd, uint64_t cull_ns)
{
	struct cull *filter = NULL;
	struct trace_reader *reader = NULL;
	enum trace_end end = TRACE_MORE;
	memset(&seen, 0, sizeof(seen));
	tracebuild_init(&culled_trace);
	ck_no_err(cull_create(cull_ns, put, NULL, &filter));
	ck_no_err(trace_reader_create(fd, "full", &reader));
	for (;;) {
		static struct rec rec;
		ck_no_err(trace_reader_next(reader, &rec, &end));
		if (end != TRACE_MORE)
			break;
		ck_no_err(cull_take(filter, &rec));
	}
	ck_assert_int_eq(end, TRACE_COMPLETE);
	ck_no_err(cull_finish(filter));
	trace_reader_destroy(reader);
	cull_destroy(filter);
	return tracebuild_finish(&culled_trace);
}

static void check_counts(const struct cube_counts *got, const struct cube_counts *want)
{
	/* Compare all bytes first, since each assertion costs a system call. */
	if (!memcmp(got, want, sizeof(*got)))
		return;
	ck_assert_uint_eq(got->samples, want->samples);
	ck_assert_uint_eq(got->allocations, want->allocations);
	ck_assert_uint_eq(got->allocated_bytes, want->allocated_bytes);
	ck_assert_uint_eq(got->frees, want->frees);
	ck_assert_uint_eq(got->freed_bytes, want->freed_bytes);
	ck_assert_uint_eq(got->temporary, want->temporary);
	ck_assert_uint_eq(got->lifetime_us, want->lifetime_us);
}

/* Finds the same site in another analysis of the same history; indexes of threads may differ. */
static uint32_t find_same(
	const struct analysis *in, const struct analysis *of, const struct cube_site *want)
{
	const struct thread *thread = &of->model.threads.thread[cube_site_thread(want)];
	for (uint32_t i = 0; i < in->cube.site_count; i++) {
		const struct cube_site *site = &in->cube.site[i];
		const struct thread *other = &in->model.threads.thread[cube_site_thread(site)];
		if (site->node == want->node && (site->key & 2047) == (want->key & 2047) &&
			other->tid == thread->tid &&
			!strcmp(other->name ? other->name : "", thread->name ? thread->name : ""))
			return i;
	}
	ck_abort_msg("a site is missing");
}

static void add(struct cube_counts *sum, const struct cube_counts *more)
{
	sum->samples += more->samples;
	sum->allocations += more->allocations;
	sum->allocated_bytes += more->allocated_bytes;
	sum->frees += more->frees;
	sum->freed_bytes += more->freed_bytes;
	sum->temporary += more->temporary;
	sum->lifetime_us += more->lifetime_us;
}

static void sum_cells(const struct cube *cube, uint32_t site, uint64_t step_ns,
	struct cube_counts sum[TIMELINE_STEPS])
{
	memset(sum, 0, TIMELINE_STEPS * sizeof(*sum));
	for (uint32_t i = cube->first_cell[site]; i < cube->first_cell[site + 1]; i++)
		add(&sum[cube->cell[i].bucket / (step_ns / cube->step_ns)], &cube->cell[i].counts);
}

/* Returns a checksum of all figures of the survivors between steps of `step_ns`. */
static uint64_t sum_survivors(const struct cube *cube, uint32_t site, uint64_t step_ns)
{
	const unsigned joined = (unsigned)(step_ns / cube->step_ns);
	uint64_t sum = 0;
	for (uint32_t i = cube->first_survivor[site]; i < cube->first_survivor[site + 1]; i++) {
		const struct cube_survivor *one = &cube->survivor[i];
		const uint64_t birth = one->birth / joined, death = one->death / joined;
		if (birth == death)
			continue;
		sum += (birth * 7919 + death * 104729 + 1) *
		       (one->blocks + 31 * one->bytes + 961 * one->temporary +
			       29791 * one->lifetime_us);
	}
	return sum;
}

static void check_sites(const struct analysis *got, const struct analysis *want)
{
	static struct cube_counts have[TIMELINE_STEPS], need[TIMELINE_STEPS];
	const uint64_t step_ns = got->cube.step_ns;
	for (uint32_t i = 0; i < want->cube.site_count; i++) {
		const struct cube_site *site = &want->cube.site[i];
		const uint32_t at = find_same(got, want, site);
		const struct cube_site *same = &got->cube.site[at];
		ck_assert_uint_eq(same->peak_bytes, site->peak_bytes);
		ck_assert_uint_eq(same->longest_ns, site->longest_ns);
		sum_cells(&got->cube, at, step_ns, have);
		sum_cells(&want->cube, i, step_ns, need);
		for (unsigned step = 0; step < TIMELINE_STEPS; step++)
			check_counts(&have[step], &need[step]);
		ck_assert_uint_eq(sum_survivors(&got->cube, at, step_ns),
			sum_survivors(&want->cube, i, step_ns));
	}
}

static void check_timeline(const struct timeline *got, const struct timeline *want)
{
	const size_t joined = got->step_ns / want->step_ns;
	/* Behind the last fact there may be events without one, as of a realloc that failed. */
	for (size_t i = 0; i * joined < want->count; i++) {
		uint64_t max_bytes = 0, allocations = 0;
		size_t last = 0;
		for (size_t at = i * joined; at < (i + 1) * joined && at < want->count; at++) {
			last = at;
			allocations += want->step[at].allocations;
			if (max_bytes < want->step[at].live_max_bytes)
				max_bytes = want->step[at].live_max_bytes;
		}
		ck_assert_uint_eq(got->step[i].allocations, allocations);
		ck_assert_uint_eq(got->step[i].live_max_bytes, max_bytes);
		ck_assert_uint_eq(got->step[i].live_bytes, want->step[last].live_bytes);
		ck_assert_uint_eq(got->step[i].before_bytes, want->step[last].before_bytes);
	}
}

static void check_callers(const struct analysis *got, const struct analysis *want)
{
	for (unsigned hook = 0; hook < REPLAY_HOOKS; hook++) {
		const struct cube_calls *a = &got->cube.function[hook],
					*b = &want->cube.function[hook];
		ck_assert_uint_eq(a->frees, b->frees);
		ck_assert_uint_eq(a->freed_bytes, b->freed_bytes);
		ck_assert_uint_eq(a->before_frees, b->before_frees);
	}
}

static void check_same(const struct analysis *got, const struct analysis *want)
{
	const struct cube *a = &got->cube, *b = &want->cube;
	check_counts(&a->total, &b->total);
	ck_assert_uint_eq(a->peak_bytes, b->peak_bytes);
	ck_assert_uint_eq(a->peak_blocks, b->peak_blocks);
	ck_assert_uint_eq(a->peak_time_ns, b->peak_time_ns);
	ck_assert(!a->is_peak_estimate);
	ck_assert_int_eq(a->highest_bytes, b->highest_bytes);
	ck_assert_uint_eq(a->before_frees, b->before_frees);
	ck_assert_mem_eq(a->lifetime_blocks, b->lifetime_blocks, sizeof(a->lifetime_blocks));
	ck_assert_mem_eq(a->lifetime_bytes, b->lifetime_bytes, sizeof(a->lifetime_bytes));
	ck_assert_uint_eq(got->model.counts.events, want->model.counts.events);
	ck_assert_uint_eq(got->model.counts.odd_events, want->model.counts.odd_events);
	ck_assert_uint_eq(got->model.counts.inferred_frees, want->model.counts.inferred_frees);
	ck_assert_uint_eq(got->model.counts.absorbed_frees, want->model.counts.absorbed_frees);
	ck_assert_uint_eq(model_missing_events(&got->model), 0);
	check_sites(got, want);
	check_timeline(&a->timeline, &b->timeline);
	check_callers(got, want);
	ck_assert_uint_eq(got->heap.start_bytes, want->heap.start_bytes);
	ck_assert_uint_eq(got->heap.off_bytes, want->heap.off_bytes);
	ck_assert_uint_eq(got->heap.end_bytes, want->heap.end_bytes);
	ck_assert_uint_eq(got->heap.peak_bytes, want->heap.peak_bytes);
	ck_assert_int_eq(got->heap.explained_bytes, want->heap.explained_bytes);
}

static struct analysis *analyze(int fd)
{
	struct analysis *analysis = NULL;
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	ck_no_err(analysis_create(fd, "trace", NULL, &analysis));
	ck_assert_int_eq(analysis->model.how_ended, TRACE_COMPLETE);
	return analysis;
}

static void compare(const struct play *play)
{
	const int full = record(play);
	struct analysis *want = analyze(full);
	ck_assert_int_eq(lseek(full, 0, SEEK_SET), 0);
	struct analysis *got = analyze(cull(full, play->cull_ns));
	ck_assert_uint_eq(got->model.capture.cull_ns, play->cull_ns);
	ck_assert_uint_eq(seen.events, input_events);
	ck_assert_uint_lt(seen.listed, input_events);
	check_same(got, want);
	analysis_destroy(got);
	analysis_destroy(want);
	tracebuild_deinit(&culled_trace);
	scene_deinit(&scene);
}

HT_TEST(culled_traces_say_the_same)
{
	for (uint64_t seed = 1; seed <= 6; seed++)
		compare(&(struct play){.seed = seed,
			.cull_ns = seed * NS_PER_S,
			.pause_ns = seed * NS_PER_S / 100,
			.steps = 4000});
}

HT_TEST(times_of_any_length)
{
	static const uint64_t cull_ms[] = {1, 100, 1024, 5000, 60000, 3600000};
	for (unsigned i = 0; i < HT_ARRAY_SIZE(cull_ms); i++)
		compare(&(struct play){.seed = 100 + i,
			.cull_ns = cull_ms[i] * 1000000,
			.pause_ns = 1 + cull_ms[i] * 1000000 / 10,
			.steps = 3000});
}

/* At each reading of the heap, the sums must be those of that moment. */
HT_TEST(readings_of_the_heap)
{
	for (uint64_t seed = 1; seed <= 6; seed++)
		compare(&(struct play){.seed = seed,
			.cull_ns = 2 * NS_PER_S,
			.pause_ns = seed * NS_PER_S / 200,
			.steps = 3000,
			.has_heap = true,
			.has_before = true});
}

HT_TEST(names_of_threads_change)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		compare(&(struct play){.seed = seed,
			.cull_ns = seed * NS_PER_S,
			.pause_ns = NS_PER_S / 50,
			.steps = 3000,
			.has_names = true});
}

HT_TEST(frees_that_come_late)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		compare(&(struct play){.seed = seed,
			.cull_ns = seed * NS_PER_S,
			.pause_ns = NS_PER_S / 50,
			.steps = 3000,
			.has_before = true,
			.has_inversions = true});
}

HT_SUITE("format/cull")
