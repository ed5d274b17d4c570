/* SPDX-License-Identifier: Apache-2.0
 *
 * A small capture for tests: threads that allocate and free, each in its own lane (thread record),
 * and a clock that runs one cycle per nanosecond.
 */
#pragma once

#include "analyzer/views/view.h"
#include "format/abi_hooks.h"
#include "tests/support/ht_check.h"
#include "tests/support/tracebuild.h"

#define SCENE_LANES	8u
#define SCENE_START_NS	1000000000u
#define SCENE_STEP_NS	1008u /* a multiple of ABI_TIME_UNIT */
#define SCENE_TID(lane) (100 + (lane))

struct scene {
	struct tracebuild trace;
	struct eventbuild lane[SCENE_LANES];
	uint64_t now; /* the current time, in cycles of the TSC and in ns of CLOCK_MONOTONIC */
};

static inline void scene_init_with(
	struct scene *scene, uint64_t sample_bytes, uint64_t capture_flags)
{
	*scene = (struct scene){.now = SCENE_START_NS};
	tracebuild_init(&scene->trace);
	scene->trace.sample_bytes = sample_bytes;
	scene->trace.capture_flags = capture_flags;
	tracebuild_start(&scene->trace, 4242, SCENE_START_NS, SCENE_START_NS);
}

/* Begins a capture that samples one allocation in `sample_bytes`; 0: it records each. */
static inline void scene_init_sample(struct scene *scene, uint64_t sample_bytes)
{
	scene_init_with(scene, sample_bytes, 0);
}

static inline void scene_init(struct scene *scene)
{
	scene_init_sample(scene, 0);
}

static inline void scene_deinit(struct scene *scene)
{
	for (unsigned i = 0; i < SCENE_LANES; i++)
		eventbuild_deinit(&scene->lane[i]);
	tracebuild_deinit(&scene->trace);
}

/* Returns the builder of the lane's next event, SCENE_STEP_NS after the event before. The first
 * event of a lane is THREAD. */
static inline struct eventbuild *scene_lane(struct scene *scene, unsigned lane)
{
	struct eventbuild *events = &scene->lane[lane];
	if (events->out.length == 0)
		eventbuild_thread(events, SCENE_TID(lane), 0);
	scene->now += SCENE_STEP_NS;
	return events;
}

static inline void scene_alloc(struct scene *scene, unsigned lane, enum abi_hook hook,
	uint64_t addr, uint64_t size, uint32_t stack)
{
	struct eventbuild *events = scene_lane(scene, lane);
	eventbuild_alloc(events, ABI_EVENT_ALLOC, hook, scene->now, addr, size, stack);
}

static inline void scene_malloc(
	struct scene *scene, unsigned lane, uint64_t addr, uint64_t size, uint32_t stack)
{
	scene_alloc(scene, lane, ABI_HOOK_MALLOC, addr, size, stack);
}

static inline void scene_free(struct scene *scene, unsigned lane, uint64_t addr, uint64_t usable)
{
	struct eventbuild *events = scene_lane(scene, lane);
	eventbuild_free(events, ABI_EVENT_FREE, ABI_HOOK_FREE, scene->now, addr, usable);
}

static inline void scene_realloc_begin(
	struct scene *scene, unsigned lane, uint64_t addr, uint64_t usable)
{
	struct eventbuild *events = scene_lane(scene, lane);
	eventbuild_free(
		events, ABI_EVENT_REALLOC_BEGIN, ABI_HOOK_REALLOC, scene->now, addr, usable);
}

static inline void scene_realloc_end(
	struct scene *scene, unsigned lane, uint64_t addr, uint64_t size, uint32_t stack)
{
	struct eventbuild *events = scene_lane(scene, lane);
	eventbuild_alloc(
		events, ABI_EVENT_REALLOC_END, ABI_HOOK_REALLOC, scene->now, addr, size, stack);
}

/* `kind`: ABI_EVENT_REALLOC_FREED or ABI_EVENT_REALLOC_FAIL. */
static inline void scene_realloc_done(struct scene *scene, unsigned lane, enum abi_event_kind kind)
{
	eventbuild_realloc_done(scene_lane(scene, lane), kind, scene->now);
}

/* Puts a lane's events into the trace. */
static inline void scene_flush(struct scene *scene, unsigned lane)
{
	if (scene->lane[lane].out.length)
		tracebuild_events(&scene->trace, lane, &scene->lane[lane]);
}

/* Flushes all lanes and puts a SYNC. */
static inline void scene_sync(struct scene *scene)
{
	for (unsigned i = 0; i < SCENE_LANES; i++)
		scene_flush(scene, i);
	scene->now += SCENE_STEP_NS;
	tracebuild_sync(&scene->trace, scene->now, scene->now);
}

/* Ends the trace and reads it, with the blocks that `query` chooses; NULL: with all. The caller
 * destroys the analysis. */
static inline struct analysis *scene_analyze_blocks(struct scene *scene, const struct query *query)
{
	scene_sync(scene);
	scene->now += SCENE_STEP_NS;
	tracebuild_end(&scene->trace, REC_END_DURATION, scene->now, scene->now);
	int fd = tracebuild_finish(&scene->trace);
	struct analysis *analysis = NULL;
	ck_no_err(analysis_create(fd, "scene", query, &analysis));
	return analysis;
}

static inline struct analysis *scene_analyze(struct scene *scene)
{
	return scene_analyze_blocks(scene, NULL);
}

/* Returns the view of `query`; NULL: of everything. The caller destroys the view. */
static inline struct view *scene_view(struct analysis *analysis, const struct query *query)
{
	struct view *view = NULL;
	struct query everything;
	query_init(&everything);
	ck_no_err(view_create(analysis, query ? query : &everything, true, &view));
	return view;
}

/* Returns the view of everything; if `shows_wrappers`, with all frames of each chain. The caller
 * destroys the view. */
static inline struct view *scene_view_of_all(struct analysis *analysis, bool shows_wrappers)
{
	struct query query;
	query_init(&query);
	query.shows_wrappers = shows_wrappers;
	return scene_view(analysis, &query);
}
