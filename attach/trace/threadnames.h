/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of the target's threads, read from /proc: when a thread first records, and again after
 * it has recorded more, as it may have changed its name. Each new name becomes a THREAD record,
 * with the time of the previous look.
 */
#pragma once

#include "attach/daemon/receiver.h"
#include "attach/proc/proc.h"

struct threadnames;

HT_MUST_CHECK
struct ht_err *threadnames_create(struct threadnames **ret);
void threadnames_destroy(struct threadnames *names);

/* Did one of the last 40 looks find a new thread? Then a thread may end before a look at the usual
 * rate. */
bool threadnames_come_fast(const struct threadnames *names);

/* Is there a thread whose number in our PID namespace is unknown? */
bool threadnames_needs_number(
	const struct threadnames *names, const struct receiver_thread *thread, size_t count);
/* Sets that number; 0: the thread has ended. */
void threadnames_number(
	struct threadnames *names, const struct receiver_thread *thread, pid_t outer);

/* Looks once at the `count` threads, which were collected after `look_tsc`. Reads the names of
 * threads that are new or have recorded since the last look, at most THREADNAMES_LOOKS of them in
 * turn, and puts those that changed. `same_numbers`: the target's PID namespace is ours. */
#define THREADNAMES_LOOKS 32u
HT_MUST_CHECK
struct ht_err *threadnames_look(struct threadnames *names, const struct proc *proc,
	struct sink *sink, const struct receiver_thread *thread, size_t count, uint64_t look_tsc,
	bool same_numbers);
