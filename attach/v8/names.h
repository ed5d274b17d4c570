/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of JavaScript functions for addresses in JIT code, looked up in the running target: soon
 * after an address was seen, since V8 moves and frees code.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/v8/collections.h"
#include "attach/v8/function.h"
#include "attach/v8/translation.h"

struct v8_names;

/* An interpreted function has a number: the generation in which it was seen, above this many
 * bits. */
#define V8_NUMBER_BITS 32u

/* The functions at one place: those that V8 inlined there, innermost first, and last the function
 * whose code it is. */
struct v8_functions {
	unsigned count;
	struct v8_function function[V8_INLINED_MAX];
};

/* Receives the names for a place: the address of code, or the number of an interpreted function.
 * `functions` is valid during the call. */
typedef struct ht_err *v8_names_sink(
	void *context, bool interpreted, uint64_t place, const struct v8_functions *functions);

struct v8_names_options {
	const struct proc *proc;      /* borrowed */
	const struct proc_maps *maps; /* borrowed; may be refreshed between calls */
	struct v8_places places;      /* from v8_collections_places */
	v8_names_sink *sink;
	void *context;
};

HT_MUST_CHECK
struct ht_err *v8_names_create(const struct v8_names_options *options,
	const struct v8_layout *layout, struct v8_names **ret);
void v8_names_destroy(struct v8_names *names); /* accepts NULL */

/* Records a frame. `pc`: the interrupted PC, or the return address minus 1. `closure`: the frame's
 * word for its JSFunction; 0: unknown. Reads nothing from the target. */
void v8_names_see(struct v8_names *names, raddr_t pc, uint64_t closure);
/* As v8_names_see for an interpreted frame; `array`: address of its BytecodeArray, without the tag.
 * Returns the function's number; 0: none, because there is no room or another generation has begun
 * in its thread. */
uint64_t v8_names_see_interpreted(
	struct v8_names *names, uint64_t generation, raddr_t array, uint64_t closure);
/* Looks up at least one recorded address, and more until `deadline_mono_ns`. Passes each address
 * that gets a name to the sink, once. */
HT_MUST_CHECK
struct ht_err *v8_names_look_up(struct v8_names *names, uint64_t deadline_mono_ns);
/* Looks up all addresses without a name, until `deadline_mono_ns`. */
HT_MUST_CHECK
struct ht_err *v8_names_look_up_rest(struct v8_names *names, uint64_t deadline_mono_ns);
/* Interpreted functions are looked up in the isolate of the thread in which they were seen (one of
 * V8_NAMES_THREADS, numbered by the caller), and only until the next full collection after the
 * thread's generation began: earlier addresses may have other contents by now. No generation begins
 * during a collection, because objects seen then may still move. `same`: as for
 * v8_collections_find; borrowed until v8_names_drop. False: the thread is in no isolate yet, a
 * collection runs, or there is no memory; the thread is then dropped. */
#define V8_NAMES_THREADS 8u

bool v8_names_find_isolate(struct v8_names *names, unsigned thread, raddr_t thread_pointer,
	const struct same_thread *same);
/* The current isolate of the thread; 0: none or unknown. */
raddr_t v8_names_isolate(const struct v8_names *names, raddr_t thread_pointer);

enum v8_names_check {
	V8_NAMES_HOLD,	/* nothing was freed or moved since the generation began */
	V8_NAMES_MOVES, /* a collection runs: look again */
	V8_NAMES_MOVED, /* a collection has run: begin a new generation */
	V8_NAMES_LOST,	/* unknown: the isolate is gone */
};

/* After V8_NAMES_MOVED no names are emitted until another generation begins. */
enum v8_names_check v8_names_check(struct v8_names *names, unsigned thread);
/* Forgets what was seen in the thread and begins a generation, which belongs to that thread only.
 * It starts from the state at the last check, or when the isolate was found. */
void v8_names_begin(struct v8_names *names, unsigned thread, uint64_t generation);
/* Forgets the thread. */
void v8_names_drop(struct v8_names *names, unsigned thread);

struct v8_names_counts {
	uint64_t seen, named; /* addresses in JIT code and of interpreted functions */
	uint64_t dropped;     /* for want of room */
};

struct v8_names_counts v8_names_counts(const struct v8_names *names);
