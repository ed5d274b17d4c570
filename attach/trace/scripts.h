/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of a target's JavaScript functions, for the trace of a capture.
 */
#pragma once

#include "attach/trace/interpreted.h"

struct scripts {
	struct v8_names *names; /* NULL: the target has no V8 that heaptap knows */
	int32_t frame_function; /* v8_layout.frame_function */
	struct interpreted interpreted;
	struct sink *sink;
	char *problem; /* borrowed; receives why functions have no names */
	size_t problem_bytes;
};

/* Is there a V8, and can its functions be named? If not, writes the reason to `problem`. `problem`
 * and `survey` are borrowed until scripts_close. */
HT_MUST_CHECK
struct ht_err *scripts_prepare(
	struct scripts *scripts, struct survey *survey, char *problem, size_t problem_bytes);
/* Writes into `config` which words of a JavaScript frame the agent records. Call it before
 * publish_snapshot. What `use` points to is borrowed until scripts_close; scripts_configure sets
 * the last three fields itself. */
void scripts_configure(
	struct scripts *scripts, struct interpreted_use use, struct abi_config *config);
/* A node_scan_observer; the context is the struct scripts. */
void scripts_see(void *context, struct rec_node *node, uint64_t function);
/* Drains the receiver, looks up some of the functions seen, and puts their names. Call it each
 * tick. */
HT_MUST_CHECK
struct ht_err *scripts_follow(struct scripts *scripts, struct receiver *receiver);
/* Put into the trace until when names hold, and then drain the receiver: scripts_drain by
 * receiver_drain, scripts_drain_last by receiver_drain_last. `is_mapped` as for
 * interpreted_drain_last. */
HT_MUST_CHECK
struct ht_err *scripts_drain(struct scripts *scripts, struct receiver *receiver);
HT_MUST_CHECK
struct ht_err *scripts_drain_last(
	struct scripts *scripts, struct receiver *receiver, bool is_mapped);
/* Looks up the remaining functions, unless the target is gone. Call it when the last node was seen.
 * `*ret_places`: addresses in V8's code that stacks contain; `*ret_names`: those that have names.
 * Both are unchanged without a V8 that heaptap knows. */
HT_MUST_CHECK
struct ht_err *scripts_finish(
	struct scripts *scripts, bool is_gone, uint64_t *ret_places, uint64_t *ret_names);
void scripts_close(struct scripts *scripts);
