/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces of one program for tests that put them side by side: each has its own addresses, order of
 * stacks, directories and lines.
 */
#pragma once

#include <stdio.h>
#include <string.h>

#include "tests/unit/analyzer/scene.h"

#define SIDE_SECOND_NS 1000000000u

struct side {
	struct scene scene;
	uint64_t lo;	/* of the module */
	uint64_t shift; /* offset of all code in the module, as if it came from another build */
	const char *directory;
	uint32_t nodes;
	uint64_t addr;
	struct analysis *analysis;
	struct view *view;
};

/* Begins a capture that samples one allocation in `sample_bytes`; 0: it records each. */
static inline void side_begin_sample(struct side *side, uint64_t lo, uint64_t shift,
	const char *directory, uint64_t sample_bytes)
{
	char path[128];
	*side = (struct side){.lo = lo, .shift = shift, .directory = directory, .addr = 0x10000};
	scene_init_sample(&side->scene, sample_bytes);
	snprintf(path, sizeof(path), "%s/program", directory);
	tracebuild_module(&side->scene.trace, 1, path, "12345678901234567890", lo, lo + 0x1000000);
}

static inline void side_begin(struct side *side, uint64_t lo, uint64_t shift, const char *directory)
{
	side_begin_sample(side, lo, shift, directory, 0);
}

/* Adds a frame below `parent`; the frame has no name if `function` is NULL. */
static inline uint32_t side_frame(
	struct side *side, uint32_t parent, const char *function, const char *file, uint32_t line)
{
	const uint64_t offset = side->shift + 0x40u * ++side->nodes;
	char path[4200];
	if (function) {
		if (file)
			snprintf(path, sizeof(path), "%s/%s", side->directory, file);
		tracebuild_symbol(
			&side->scene.trace, 1, offset - 1, function, file ? path : NULL, line);
	}
	return tracebuild_node(&side->scene.trace, parent, side->lo + offset);
}

/* Allocates a block at a new address, `at_ms` after the start of the window. Returns the
 * address. */
static inline uint64_t side_alloc(struct side *side, uint64_t at_ms, uint64_t size, uint32_t stack)
{
	const uint64_t now = SCENE_START_NS + at_ms * 1000000;
	if (side->scene.now < now)
		side->scene.now = now;
	side->addr += 0x100000;
	scene_malloc(&side->scene, 0, side->addr, size, stack);
	return side->addr;
}

/* Ends the window after this many seconds, and reads the trace. */
static inline void side_end(struct side *side, uint64_t seconds)
{
	const uint64_t end = SCENE_START_NS + seconds * SIDE_SECOND_NS - 2 * SCENE_STEP_NS;
	if (side->scene.now < end)
		side->scene.now = end;
	side->analysis = scene_analyze(&side->scene);
	side->view = scene_view(side->analysis, NULL);
}

static inline void side_deinit(struct side *side)
{
	view_destroy(side->view);
	analysis_destroy(side->analysis);
	scene_deinit(&side->scene);
}
