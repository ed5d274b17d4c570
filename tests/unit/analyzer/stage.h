/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks with names for tests of views: nodes of a module, and of code that the program generated.
 */
#pragma once

#include <stdio.h>
#include <string.h>

#include "tests/unit/analyzer/scene.h"

#define STAGE_LO     0x400000u
#define STAGE_MODULE "/usr/bin/x"

struct stage {
	struct scene scene;
	uint32_t node_count;
	uint64_t addr;
};

/* Begins a capture that samples one allocation in `sample_bytes`; 0: it records each. */
static inline void stage_begin_sample(struct stage *stage, uint64_t sample_bytes)
{
	*stage = (struct stage){.addr = 0x10000};
	scene_init_sample(&stage->scene, sample_bytes);
	tracebuild_module(&stage->scene.trace, 1, STAGE_MODULE, "12345678901234567890", STAGE_LO,
		STAGE_LO + 0x100000);
}

static inline void stage_begin(struct stage *stage)
{
	stage_begin_sample(stage, 0);
}

/* Names the place at `pc` of a module, or of generated code (`module_id` 0): `inner` is inlined
 * into `outer`, which may be NULL. */
static inline void stage_name(struct stage *stage, uint32_t module_id, uint64_t pc,
	const char *inner, const char *outer, const char *file, uint64_t line)
{
	const char *const name[] = {inner, outer};
	struct rec symbol = {.kind = REC_SYMBOL,
		.symbol = {.module_id = module_id, .offset = pc - 1 - (module_id ? STAGE_LO : 0)}};
	for (size_t i = 0; i < 2 && name[i]; i++) {
		struct rec_frame *frame = &symbol.symbol.frame[symbol.symbol.frame_count++];
		*frame = (struct rec_frame){.function = {name[i], strlen(name[i])}, .line = line};
		if (file)
			frame->file = (struct rec_string){file, strlen(file)};
	}
	tracebuild_put(&stage->scene.trace, &symbol);
}

/* Adds a node below `parent` whose place has these frames, innermost first; `inner` NULL: the place
 * has no name. */
static inline uint32_t stage_node(
	struct stage *stage, uint32_t parent, const char *inner, const char *outer)
{
	const uint64_t pc = STAGE_LO + 0x10 * ++stage->node_count;
	if (inner)
		stage_name(stage, 1, pc, inner, outer, NULL, 0);
	return tracebuild_node(&stage->scene.trace, parent, pc);
}

/* Adds a node of generated code below `parent`; `name` NULL: it has no name. */
static inline uint32_t stage_made(
	struct stage *stage, uint32_t parent, const char *name, uint64_t line)
{
	const uint64_t pc = 0x10 * ++stage->node_count;
	if (name)
		stage_name(stage, 0, pc, name, NULL, "a.js", line);
	return tracebuild_node(&stage->scene.trace, parent, pc);
}

/* Allocates a block at a new address, and returns the address. */
static inline uint64_t stage_alloc(
	struct stage *stage, unsigned lane, uint64_t size, uint32_t stack)
{
	stage->addr += 0x1000;
	scene_malloc(&stage->scene, lane, stage->addr, size, stack);
	return stage->addr;
}

static inline void stage_free(struct stage *stage, uint64_t addr)
{
	scene_free(&stage->scene, 0, addr, 0);
}

/* Returns the chain that the view shows for a stack, innermost frame first: "leaf < caller < main";
 * "?" is a frame without a name. The text is valid until the next call. */
static inline const char *stage_chain(const struct view *view, uint32_t stack)
{
	static char text[4096];
	size_t length = 0;
	text[0] = '\0';
	for (uint32_t at = tree_leaf(&view->tree, &view->analysis->model.nodes, stack); at;
		at = view->tree.node[at].parent) {
		const uint32_t group = view->tree.node[at].group;
		const char *name =
			group == UINT32_MAX
				? "(folded)"
				: view->frames.frame[view->groups.group[group].frame].function;
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s",
			length ? " < " : "", name ? name : "?");
		ck_assert_uint_lt(length, sizeof(text));
	}
	return text;
}
