/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stub/remote.h"

#include <string.h>

#include "attach/stub/attempt.h"
#include "attach/stub/preference.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/descriptor.h"
#include "attach/process/proc_open.h"
#include "attach/process/standstill.h"

#define CANDIDATES_MAX	   32u
#define LOOK_NS		   CLOCK_NS_PER_MS
#define OTHERS_PATIENCE_NS (100 * CLOCK_NS_PER_MS) /* for a thread of the first choice */

struct seen {
	pid_t tid[CANDIDATES_MAX];
	struct stopcost_seen thread[CANDIDATES_MAX];
	size_t next; /* the entry to be replaced next */
};

static pid_t table_of(const struct attempt *attempt)
{
	return attempt->remains ? attempt->remains->table : 0;
}

/* Can the thread be stopped for the stub? A request to stop does not reach a thread in an
 * uninterruptible wait, or one that is stopped. The thread must have the process's descriptor
 * table, as the agent's socket must not be in a table of the thread's own. */
static bool can_stop(const struct attempt *attempt, pid_t tid)
{
	struct proc_status status;
	bool worker = true, has_table = false;
	struct ht_err *err = proc_status(attempt->proc, tid, &status);
	HT_THEN(err, proc_is_worker(attempt->proc, tid, &worker));
	HT_THEN(err, descriptor_has_table(attempt->proc, tid, table_of(attempt), &has_table));
	ht_err_free(err);
	return !err && !strchr("DTtZX", status.state) && !worker && has_table;
}

/* Finds a thread's last look by its tid, as the order of the threads changes from look to look. */
static struct stopcost_seen *seen_of(struct seen *seen, pid_t tid)
{
	size_t at = 0;
	while (at < CANDIDATES_MAX && seen->tid[at] != tid)
		at++;
	if (at == CANDIDATES_MAX) {
		at = seen->next++ % CANDIDATES_MAX;
		seen->tid[at] = tid;
		seen->thread[at] = (struct stopcost_seen){0};
	}
	return &seen->thread[at];
}

static bool is_timely(
	const struct attempt *attempt, struct seen *seen, const struct choose_thread *thread)
{
	return stopcost_is_timely(
		attempt->proc, thread->tid, thread->cost, seen_of(seen, thread->tid));
}

struct haste {
	bool any_thread;
	bool any_time;
};

static struct ht_err *try_each(struct attempt *attempt, struct seen *seen, struct haste haste,
	struct worker_reply *reply, struct attempt_outcome *ret)
{
	HT_CLEANUP(choose_threads_deinit) struct choose_threads threads = {0};
	HT_TRY(choose_threads(attempt->proc, attempt->filtered, &threads));
	struct preference preference;
	struct ht_err *err =
		preference_read(attempt->proc, &threads, attempt->filtered, &preference);
	for (size_t i = 0, looks = 0;
		!err && !ret->ran && i < threads.count && looks < CANDIDATES_MAX; i++) {
		const struct choose_thread *thread = &threads.thread[i];
		if (!haste.any_thread && preference_is_second(&preference, thread))
			continue;
		looks++;
		bool timely = is_timely(attempt, seen, thread) || haste.any_time;
		if (!timely || !can_stop(attempt, thread->tid))
			continue;
		attempt->tid = thread->tid;
		attempt->computes = thread->cost == STOPCOST_RUNNING;
		err = worker_run(attempt->map ? "attaching" : "taking it out",
			clock_mono_ns() + ATTEMPT_DEADLINE_NS, attempt_run, attempt, reply);
		memcpy(ret, reply->data, sizeof(*ret));
	}
	return err;
}

/* Waits for a thread that a stop does not disturb, or not any more. */
static struct ht_err *try_threads(
	struct attempt *attempt, struct worker_reply *reply, struct attempt_outcome *ret)
{
	uint64_t began_ns = clock_mono_ns();
	struct haste haste = {0};
	struct seen seen = {0};
	struct ht_err *err = NULL;

	*ret = (struct attempt_outcome){0};
	while (!err && !ret->ran && !haste.any_time) {
		uint64_t waited_ns = clock_mono_ns() - began_ns;
		haste.any_thread = waited_ns > OTHERS_PATIENCE_NS;
		haste.any_time = waited_ns > STOPCOST_PATIENCE_NS;
		err = try_each(attempt, &seen, haste, reply, ret);
		if (!err && !ret->ran)
			err = proc_check_same(attempt->proc);
		if (!err && !ret->ran)
			clock_sleep_ns(LOOK_NS);
	}
	if (err || ret->ran)
		return err;
	attempt->tid = 0;
	const char *why = standstill_reason(attempt->proc);
	return ht_err_new(HT_ERR_REFUSED, "no thread of the process could be stopped: %s",
		why ? why
		    : "all are in uninterruptible calls (vfork), frozen (cgroup), stopped, held by "
		      "another tracer, inside restartable sequences, in the middle of a long write "
		      "or read, single-step themselves, or have descriptors of their own");
}

struct ht_err *remote_map(const struct proc *proc, const struct remote_slack *slack,
	const struct stub_map *map, bool filtered, const struct remote_heir *heir,
	struct remote_image *ret)
{
	struct attempt attempt = {
		.proc = proc, .slack = slack, .filtered = filtered, .map = map, .heir = heir};
	struct worker_reply reply = WORKER_NO_REPLY;
	struct attempt_outcome outcome;
	struct ht_err *err = try_threads(&attempt, &reply, &outcome);
	*ret = (struct remote_image){
		.memfd = reply.fd[ATTEMPT_MEMFD],
		.daemon_fd = reply.fd[ATTEMPT_DAEMON],
		.agent_socket = reply.fd[ATTEMPT_AGENT],
		.agent_fd = outcome.agent_fd,
		.tid = outcome.untouched || !reply.begun ? 0 : attempt.tid,
		.tid_offset = outcome.tid_offset,
		.thread_pointer = outcome.thread_pointer,
		.stop_ns = outcome.stop_ns,
		.clock_forbidden = outcome.clock_forbidden,
		.not_taken = outcome.not_taken,
	};
	if (err)
		return err;
	if (outcome.clock_forbidden)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d has forbidden its threads to read the time stamp counter "
			"(PR_SET_TSC), which heaptap needs for each event",
			proc->pid);
	if (!outcome.stuck)
		return NULL;
	return ht_err_new(HT_ERR_REFUSED,
		"thread %d did not finish heaptap's attach code; it was stopped, or the machine is "
		"too busy; try again",
		attempt.tid);
}

struct ht_err *remote_unmap(const struct proc *proc, const struct remote_slack *slack,
	const struct remote_remains *remains, bool filtered, struct remote_unmapped *ret)
{
	struct attempt attempt = {
		.proc = proc, .slack = slack, .filtered = filtered, .remains = remains};
	struct worker_reply reply;
	struct attempt_outcome outcome;
	HT_TRY(try_threads(&attempt, &reply, &outcome));
	*ret = (struct remote_unmapped){outcome.stop_ns, outcome.put_back};
	return NULL;
}
