/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of the target's threads, looked at from outside: when a thread first records, and again
 * after it has recorded more, as it may have given itself another name since. Each new name becomes
 * a THREAD record, with the time of the look before.
 */
#pragma once

#include "attach/daemon/receiver.h"
#include "attach/proc/proc.h"

struct threadnames;

HT_MUST_CHECK
struct ht_err *threadnames_create(struct threadnames **ret);
void threadnames_destroy(struct threadnames *names);

/* Have threads appeared of late (by the looks)? Then some may end before a look at the usual pace.
 */
bool threadnames_come_fast(const struct threadnames *names);

/* Is there a thread whose number in our PID namespace is not known yet? */
bool threadnames_needs_number(
	const struct threadnames *names, const struct receiver_thread *thread, size_t count);
/* Says that number; 0: the thread has ended. */
void threadnames_number(
	struct threadnames *names, const struct receiver_thread *thread, pid_t outer);

/*
 * One look at `thread[count]`, which were collected after `look_tsc`: reads the names of those that
 * are new or have recorded since the last look, of THREADNAMES_LOOKS at most, in turn; puts those
 * that have changed. `same_numbers`: the target's PID namespace is ours.
 */
#define THREADNAMES_LOOKS 32u
HT_MUST_CHECK
struct ht_err *threadnames_look(struct threadnames *names, const struct proc *proc,
	struct sink *sink, const struct receiver_thread *thread, size_t count, uint64_t look_tsc,
	bool same_numbers);
