/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and call chains as exports print them. Names of a trace are hostile: they may hold any
 * byte, and be a megabyte long. These functions return UTF-8 without control characters, at most
 * NAMES_BYTES - 1 bytes long.
 */
#pragma once

#include <stdio.h>

#include "analyzer/views/view.h"

#define NAMES_BYTES 4096u /* of a name and its NUL */

/* Copies `from`. Harmful characters become question marks; a name that is too long is cut and
 * ends in "...". */
void names_copy(char to[NAMES_BYTES], const char *from);
/* The last part of a path. */
const char *names_base(const char *path);
/* The function of a frame; without one, its module and offset, or its address. */
void names_frame(const struct view *view, const struct frame *frame, char to[NAMES_BYTES]);
/* The name of a node of the view's tree: as names_frame, "(folded)" for folded stacks, "(no stack)"
 * for the root. */
void names_node(const struct view *view, uint32_t node, char to[NAMES_BYTES]);
/* The module with this index; NULL: MODULES_NONE. */
const struct module *names_module_of(const struct view *view, uint32_t module);
/* The path of a module; "" for no module. */
void names_module(const struct view *view, uint32_t module, char to[NAMES_BYTES]);
/* The name of a thread; if unknown, that of the process; "(folded)" for CUBE_OTHER. */
void names_thread(const struct view *view, uint32_t thread, char to[NAMES_BYTES]);
/* The frame that stands for a node of the view's tree; NULL: the root, or folded stacks. */
const struct frame *names_frame_of(const struct view *view, uint32_t node);
/* The address of a frame as the process saw it; 0 for an interpreted one. */
uint64_t names_address(const struct view *view, const struct frame *frame);

/* Writes what names_copy made as a JSON string, with its quotes. */
void names_put_json(FILE *out, const char *name);

/* The nodes of a chain, outermost first: scratch that is used again for each chain. */
struct names_chain {
	uint32_t *node;
	size_t depth; /* 0: no stack */
};

HT_MUST_CHECK
struct ht_err *names_chain_init(struct names_chain *chain, const struct view *view);
void names_chain_deinit(struct names_chain *chain);
/* Takes the chain from the root of the view's tree to this node; 0: no stack. */
void names_chain_take(struct names_chain *chain, const struct view *view, uint32_t node);
/* Writes the chain in the format of collapsed stacks: "root;caller;leaf", or "(no stack)". A
 * semicolon in a name becomes a colon. */
void names_chain_put(FILE *out, const struct view *view, const struct names_chain *chain);
/* The text of names_chain_put as a malloc'd string. */
HT_MUST_CHECK
struct ht_err *names_chain_text(
	const struct view *view, const struct names_chain *chain, char **ret);
