/* SPDX-License-Identifier: Apache-2.0
 *
 * Interpreted JavaScript functions of the target's first thread and of some workers: the agent
 * tells them apart by where their BytecodeArray lies, which is true only as long as V8 puts nothing
 * else there. So each of these threads has generations, each from one collection of all garbage to
 * the next, or to the thread's end, and the trace says up to when each holds.
 */
#pragma once

#include "attach/daemon/receiver.h"
#include "attach/stub/remote.h"
#include "attach/plan/survey.h"
#include "attach/thread/same_thread.h"
#include "attach/unwind/publish.h"
#include "attach/v8/names.h"

/* A thread whose interpreted functions have names of their own. */
struct interpreted_thread {
	raddr_t pointer;	 /* its thread pointer; 0: unknown, or none */
	struct same_thread same; /* not set for the first thread */
	raddr_t isolate;	 /* when its generation began */
	uint16_t generation;	 /* in force; 0: none */
};

_Static_assert(ABI_SCRIPTS_THREADS == V8_NAMES_THREADS, "each has names");

/* All borrowed until interpreted_finish. */
struct interpreted_use {
	const struct survey *survey;
	const struct image *image;
	const struct remote_image *remote;
	const bool *is_gone; /* the target has ended or runs another program */
	struct publish *publish;
	struct sink *sink;
	struct v8_names *names;
	char *problem; /* receives why some functions have no names */
	size_t problem_bytes;
};

struct interpreted {
	struct interpreted_use use;	 /* unset before interpreted_configure */
	struct receiver *receiver;	 /* of the last call; NULL: there is none yet */
	struct publish_interpreter code; /* 0 bytes: they cannot be told apart, or not any more */
	/* The target's first thread, and workers. */
	struct interpreted_thread thread[ABI_SCRIPTS_THREADS];
	uint16_t generation; /* the last that has begun; 0: none */
	bool no_workers;     /* they have used up their share of nodes and generations */
	uint64_t next_ns;    /* when to look for workers */
	uint32_t see_from;   /* the slot where that begins: one look sees some of many threads */
	uint32_t place_from; /* and of workers the one that the last look had no time for */
};

/* Finds what the names of a V8 with this layout need. `ret_places`: for v8_names_options. */
HT_MUST_CHECK
struct ht_err *interpreted_prepare(struct interpreted *interpreted, struct proc *proc,
	const struct v8_layout *layout, struct v8_places *ret_places);
/* Begins with the first snapshot, if it can. */
void interpreted_configure(struct interpreted *interpreted, const struct interpreted_use *use);
/* receiver_drain, when it is known up to when the generations hold. */
HT_MUST_CHECK
struct ht_err *interpreted_drain(struct interpreted *interpreted, struct receiver *receiver);
/* The same, and looks for workers. Called each tick. */
HT_MUST_CHECK
struct ht_err *interpreted_follow(struct interpreted *interpreted, struct receiver *receiver);
/* receiver_drain_last. `is_mapped`: the agent is in the target and may still write. */
HT_MUST_CHECK
struct ht_err *interpreted_drain_last(
	struct interpreted *interpreted, struct receiver *receiver, bool is_mapped);
/* Closes what is open. Before the names go. */
void interpreted_finish(struct interpreted *interpreted);
