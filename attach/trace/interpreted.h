/* SPDX-License-Identifier: Apache-2.0
 *
 * Interpreted JavaScript functions of the target's first thread and of some workers. The agent
 * distinguishes functions by the addresses of their BytecodeArrays, which holds only until V8 puts
 * another object there. So each thread has generations, each from one full garbage collection to
 * the next, or to the thread's end. The trace says until when each generation holds.
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
	raddr_t pointer;	 /* thread pointer; 0: unknown, or no thread */
	struct same_thread same; /* not set for the first thread */
	raddr_t isolate;	 /* the thread's isolate when the generation began */
	uint16_t generation;	 /* the current generation; 0: none */
};

_Static_assert(ABI_SCRIPTS_THREADS == V8_NAMES_THREADS, "each has names");

/* Input for names, valid once the agent is in the target. All borrowed until
 * interpreted_finish. */
struct interpreted_use {
	const struct survey *survey;
	const struct image *image;
	const struct remote_image *remote;
	const bool *is_gone; /* the target has ended or runs another program */
	struct publish *publish;
	struct sink *sink;
	/* Set by scripts_configure. */
	struct v8_names *names;
	char *problem; /* receives why some functions have no names */
	size_t problem_bytes;
};

struct interpreted {
	struct interpreted_use use;	 /* unset before interpreted_configure */
	struct receiver *receiver;	 /* of the last call; NULL: no call yet */
	struct publish_interpreter code; /* 0 bytes: functions cannot be distinguished */
	/* The target's first thread, and workers. */
	struct interpreted_thread thread[ABI_SCRIPTS_THREADS];
	uint16_t generation; /* the last generation that began; 0: none */
	bool no_workers;     /* workers have used up their share of nodes and generations */
	uint64_t next_ns;    /* when to look for workers next */
	uint32_t see_from;   /* thread record at which that look begins: one look sees only some
				threads */
	uint32_t place_from; /* thread record of the first worker for which the last look had no
				time */
};

/* Finds what is needed to name functions of a V8 with this layout. `ret_places`: for
 * v8_names_options. */
HT_MUST_CHECK
struct ht_err *interpreted_prepare(struct interpreted *interpreted, struct proc *proc,
	const struct v8_layout *layout, struct v8_places *ret_places);
/* Begins with the first snapshot, if interpreted_prepare found everything. */
void interpreted_configure(struct interpreted *interpreted, const struct interpreted_use *use);
/* Calls receiver_drain once it is known until when the generations hold. `for_workers`: also look
 * for workers; set it in each tick. */
HT_MUST_CHECK
struct ht_err *interpreted_drain(
	struct interpreted *interpreted, struct receiver *receiver, bool for_workers);
/* As interpreted_drain, with receiver_drain_last. `is_mapped`: the agent is in the target and may
 * still write. */
HT_MUST_CHECK
struct ht_err *interpreted_drain_last(
	struct interpreted *interpreted, struct receiver *receiver, bool is_mapped);
/* Closes the descriptors of the threads. Call it before the names are destroyed. */
void interpreted_finish(struct interpreted *interpreted);
