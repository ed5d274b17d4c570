/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of JavaScript functions for addresses in code that V8 made, looked up in the target while
 * it runs: V8 moves and frees code, so soon after an address was seen.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/v8/collections.h"
#include "attach/v8/function.h"

struct v8_names;

/* A function that is interpreted has a number: the generation it was seen in above so many bits. */
#define V8_NUMBER_BITS 32u

/* Receives what the code at an address is called, or the interpreted function of that number; valid
 * during the call. */
typedef struct ht_err *v8_names_sink(
	void *context, bool interpreted, uint64_t place, const struct v8_function *function);

struct v8_names_options {
	const struct proc *proc;      /* borrowed */
	const struct proc_maps *maps; /* borrowed; may be refreshed between calls */
	struct v8_places places;      /* v8_collections_places */
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
/*
 * The same of one that is interpreted; `array`: where its BytecodeArray was. Its number; 0: it has
 * none, as there is no room, or another generation has begun in its thread.
 */
uint64_t v8_names_see_interpreted(
	struct v8_names *names, uint64_t generation, raddr_t array, uint64_t closure);
/* Looks up addresses that were seen, one at least, and others until `deadline_mono_ns`; each is
 * sent to the sink once. */
HT_MUST_CHECK
struct ht_err *v8_names_look_up(struct v8_names *names, uint64_t deadline_mono_ns);
/* The same for all that have no name yet, until `deadline_mono_ns`. */
HT_MUST_CHECK
struct ht_err *v8_names_look_up_rest(struct v8_names *names, uint64_t deadline_mono_ns);
/*
 * Interpreted functions are looked up in the isolate of the thread that they were seen in, one of
 * V8_NAMES_THREADS that the caller numbers, and only as long as V8 has not collected all garbage
 * since the thread's generation began: what was seen before may be something else by now. Within a
 * collection none begins: what is seen there may move yet. `same`: v8_collections; borrowed until
 * the thread is dropped. False: the thread is in no isolate yet, or that is within one.
 */
#define V8_NAMES_THREADS 8u

bool v8_names_find_isolate(struct v8_names *names, unsigned thread, raddr_t thread_pointer,
	const struct same_thread *same);
/* Which isolate the thread is in; 0: in none, or it cannot be told. */
raddr_t v8_names_isolate(const struct v8_names *names, raddr_t thread_pointer);

enum v8_names_check {
	V8_NAMES_HOLD,	/* nothing was freed or moved since the generation began */
	V8_NAMES_MOVES, /* something may be just now: look again */
	V8_NAMES_MOVED, /* something may have been: a new generation is to begin */
	V8_NAMES_LOST,	/* it cannot be told: the isolate has gone */
};

/* Where it is V8_NAMES_MOVED no more names are put until another generation begins. */
enum v8_names_check v8_names_check(struct v8_names *names, unsigned thread);
/* Forgets what was seen in the thread; a generation is of one thread alone. It is as V8 was at the
 * last check, or when the isolate was found. */
void v8_names_begin(struct v8_names *names, unsigned thread, uint64_t generation);
/* The same; nothing more is seen in it. */
void v8_names_drop(struct v8_names *names, unsigned thread);

struct v8_names_counts {
	uint64_t seen, named; /* addresses in made code, and of interpreted functions */
	uint64_t dropped;     /* for want of room */
};

struct v8_names_counts v8_names_counts(const struct v8_names *names);
