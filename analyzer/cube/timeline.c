/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cube/timeline.h"

#include <string.h>

void timeline_init(struct timeline *timeline)
{
	memset(timeline, 0, sizeof(*timeline));
	timeline->step_ns = TIMELINE_FIRST_STEP_NS;
	timeline->newest_end_ns = timeline->step_ns;
}

/* Adds the later step `b` to `a`. */
static void join(struct timeline_step *a, const struct timeline_step *b)
{
	if (!b->touched)
		return;
	a->touched = true;
	a->allocations += b->allocations;
	a->allocated_bytes += b->allocated_bytes;
	a->frees += b->frees;
	a->freed_bytes += b->freed_bytes;
	a->temporary += b->temporary;
	a->live_bytes = b->live_bytes;
	a->before_bytes = b->before_bytes;
	if (b->live_max_bytes > a->live_max_bytes)
		a->live_max_bytes = b->live_max_bytes;
}

static void join_memory(struct timeline_memory *a, const struct timeline_memory *b)
{
	for (size_t kind = 0; kind < TIMELINE_MEMORY_KINDS; kind++) {
		if (!b->is_known[kind])
			continue;
		a->is_known[kind] = true;
		a->number[kind] = b->number[kind];
	}
}

void timeline_join(struct timeline *timeline)
{
	const size_t half = TIMELINE_STEPS / 2;
	for (size_t i = 0; i < half; i++) {
		struct timeline_step joined = timeline->step[2 * i];
		struct timeline_memory memory = timeline->memory[2 * i];
		join(&joined, &timeline->step[2 * i + 1]);
		join_memory(&memory, &timeline->memory[2 * i + 1]);
		timeline->step[i] = joined;
		timeline->memory[i] = memory;
	}
	memset(&timeline->step[half], 0, sizeof(timeline->step[0]) * half);
	memset(&timeline->memory[half], 0, sizeof(timeline->memory[0]) * half);
	timeline->step_ns *= 2;
	timeline->count = (timeline->count + 1) / 2;
	timeline->newest /= 2;
	timeline->newest_end_ns = (timeline->newest + 1) * timeline->step_ns;
}

static size_t index_at(struct timeline *timeline, uint64_t time_ns)
{
	while (time_ns / timeline->step_ns >= TIMELINE_STEPS)
		timeline_join(timeline);
	size_t index = time_ns / timeline->step_ns;
	if (index >= timeline->count)
		timeline->count = index + 1;
	return index;
}

void timeline_enter(struct timeline *timeline, uint64_t time_ns)
{
	if (time_ns < timeline->newest_end_ns)
		return;
	timeline->newest = index_at(timeline, time_ns);
	timeline->newest_end_ns = (timeline->newest + 1) * timeline->step_ns;
}

void timeline_add(struct timeline *timeline, const struct timeline_step *more)
{
	struct timeline_step *step = &timeline->step[timeline->newest];
	struct timeline_step added = *more;
	added.touched = true;
	if (timeline->newest >= timeline->count)
		timeline->count = timeline->newest + 1;
	/* The step begins with the live bytes of the step before. */
	if (added.live_max_bytes < timeline->live_bytes)
		added.live_max_bytes = timeline->live_bytes;
	join(step, &added);
	timeline->live_bytes = added.live_bytes;
	timeline->before_bytes = added.before_bytes;
}

void timeline_note(struct timeline *timeline, uint64_t time_ns, const struct memory *sample)
{
	struct timeline_memory known;
	memcpy(known.is_known, sample->is_known, sizeof(known.is_known));
	memcpy(known.number, sample->number, sizeof(known.number));
	join_memory(&timeline->memory[index_at(timeline, time_ns)], &known);
}

void timeline_finish(struct timeline *timeline)
{
	uint64_t live_bytes = 0, before_bytes = 0;
	for (size_t i = 0; i < timeline->count; i++) {
		struct timeline_step *step = &timeline->step[i];
		if (!step->touched) {
			step->live_bytes = step->live_max_bytes = live_bytes;
			step->before_bytes = before_bytes;
		}
		live_bytes = step->live_bytes;
		before_bytes = step->before_bytes;
	}
}
