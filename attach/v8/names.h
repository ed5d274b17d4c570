/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of JavaScript functions for addresses in code that V8 made, looked up in the target while
 * it runs: V8 moves and frees code, so soon after an address was seen.
 */
#pragma once

#include "attach/v8/function.h"

struct v8_names;

/* Receives what the code at an address is called; valid during the call. */
typedef struct ht_err *v8_names_sink(void *context, raddr_t pc, const struct v8_function *function);

/* What stands for a function that was interpreted and cannot be named. */
#define V8_INTERPRETER "Builtins_InterpreterEntryTrampoline"

struct v8_names_options {
	const struct proc *proc;      /* borrowed */
	const struct proc_maps *maps; /* borrowed; may be refreshed between calls */
	v8_names_sink *sink;
	void *context;
};

HT_MUST_CHECK
struct ht_err *v8_names_create(const struct v8_names_options *options,
	const struct v8_layout *layout, struct v8_names **ret);
void v8_names_destroy(struct v8_names *names); /* accepts NULL */

/* A frame was seen whose instruction at `pc` runs. `closure`: what it has where JavaScript frames
 * have their JSFunction; 0: unknown. Takes no time. */
void v8_names_see(struct v8_names *names, raddr_t pc, uint64_t closure);
/* The same of one that is interpreted; `array`: where its BytecodeArray was. */
void v8_names_see_interpreted(struct v8_names *names, raddr_t array, uint64_t closure);
/* Looks up addresses that were seen, one at least, and others until `deadline_mono_ns`; each is
 * sent to the sink once. */
HT_MUST_CHECK
struct ht_err *v8_names_look_up(struct v8_names *names, uint64_t deadline_mono_ns);
/* The same for all that have no name yet, until `deadline_mono_ns`. */
HT_MUST_CHECK
struct ht_err *v8_names_look_up_rest(struct v8_names *names, uint64_t deadline_mono_ns);
/* Calls functions that were interpreted, and have no name, as the code that ran them: no lookups
 * after this. */
HT_MUST_CHECK
struct ht_err *v8_names_end(struct v8_names *names);

struct v8_names_counts {
	uint64_t seen, named; /* addresses in made code, and of interpreted functions */
	uint64_t dropped;     /* for want of room */
};

struct v8_names_counts v8_names_counts(const struct v8_names *names);
