/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/quiesce.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "attach/inject/judge.h"
#include "attach/target/clock.h"
#include "attach/target/tracee.h"
#include "attach/target/worker.h"

/* A thread stops when it is next scheduled: on a busy machine that takes a while. */
#define STOP_DEADLINE_NS   (1000 * CLOCK_NS_PER_MS)
#define POLL_NS		   10000u
#define WORKER_DEADLINE_NS (3000 * CLOCK_NS_PER_MS)
#define JUDGE_AFTER_PASSES 3u /* a hit that is still there then is worth an unwind */

struct watched {
	pid_t tid;
	bool outside;
	unsigned passes;
};

struct quiesce {
	struct quiesce_options options;
	struct watched *watched;
	size_t count;
	struct quiesce_report report;
};

struct ht_err *quiesce_create(const struct quiesce_options *options, struct quiesce **ret)
{
	struct proc_tids tids;
	struct ht_err *err = proc_tids_read(options->proc, &tids);
	if (err)
		return err;
	struct quiesce *quiesce = calloc(1, sizeof(*quiesce));
	struct watched *watched = calloc(tids.count + 1, sizeof(*watched));
	if (quiesce && watched) {
		for (size_t i = 0; i < tids.count; i++)
			watched[i].tid = tids.tid[i];
		*quiesce = (struct quiesce){
			.options = *options, .watched = watched, .count = tids.count};
		quiesce->report.threads = tids.count;
		*ret = quiesce;
	} else {
		free(quiesce);
		free(watched);
		err = ht_err_new(HT_ERR_NOMEM, "no memory for %zu threads", tids.count);
	}
	proc_tids_deinit(&tids);
	return err;
}

void quiesce_destroy(struct quiesce *quiesce)
{
	if (!quiesce)
		return;
	free(quiesce->watched);
	free(quiesce);
}

/* In vfork the thread's memory is in the hands of a child that no task list shows. */
static bool in_vfork(const struct proc_syscall *call)
{
	return call->where == PROC_IN_SYSCALL &&
	       (call->nr == SYS_vfork || call->nr == SYS_clone || call->nr == SYS_clone3);
}

static bool same_place(const struct proc_syscall *a, const struct proc_syscall *b)
{
	return a->where == b->where && a->nr == b->nr && a->sp == b->sp && a->pc == b->pc;
}

/* Is what was found only stale words? A thread whose books are idle can be in our code only by its
 * PC, live or saved in a signal frame. */
static bool is_clean(const struct stackscan_found *found, enum quiesce_books books)
{
	return found->signal == 0 && (found->plain == 0 || books == QUIESCE_IDLE);
}

enum verdict { OUTSIDE, INSIDE, MUST_STOP, GONE };

/* Judges a blocked thread from /proc alone. */
static struct ht_err *look_without_stop(const struct quiesce *quiesce, const struct proc_maps *maps,
	pid_t tid, enum verdict *ret, size_t *ret_entries)
{
	const struct quiesce_options *o = &quiesce->options;
	struct proc_syscall before, after;
	struct stackscan_found found = {0};

	*ret_entries = 0;
	struct ht_err *err = proc_syscall_read(o->proc, tid, &before);
	if (err)
		return err;
	*ret = MUST_STOP;
	if (before.where == PROC_THREAD_GONE)
		*ret = GONE;
	else if (in_vfork(&before))
		*ret = INSIDE;
	if (*ret != MUST_STOP || before.where == PROC_RUNNING)
		return NULL;
	if (stackscan_ours(&o->ranges, before.pc)) {
		*ret = INSIDE;
		return NULL;
	}
	err = stackscan_run(o->proc, maps, &o->ranges, before.sp, &found);
	if (!err)
		err = proc_syscall_read(o->proc, tid, &after);
	if (err || !same_place(&before, &after))
		return err;
	*ret_entries = found.entry_count;
	*ret = is_clean(&found, o->books(o->context, tid)) ? OUTSIDE : INSIDE;
	return NULL;
}

/* --- stopped threads: in a worker ------------------------------------------------------------- */

#define JOBS_MAX 256u

struct job {
	const struct quiesce *quiesce;
	const struct proc_maps *maps;
	pid_t tid[JOBS_MAX];
	bool judge[JOBS_MAX];
	size_t count;
};

struct answers {
	uint8_t verdict[JOBS_MAX];
	uint16_t rewritten, entries_left, stopped;
	uint64_t stop_max_ns;
};

_Static_assert(sizeof(struct answers) <= WORKER_REPLY_BYTES, "answers fit a reply");

static void rewrite_registers(
	const struct quiesce_options *o, struct user_regs_struct *regs, struct answers *answers)
{
	unsigned long long *reg[] = {&regs->rax, &regs->rbx, &regs->rcx, &regs->rdx, &regs->rsi,
		&regs->rdi, &regs->rbp, &regs->r8, &regs->r9, &regs->r10, &regs->r11, &regs->r12,
		&regs->r13, &regs->r14, &regs->r15, &regs->rip};
	for (size_t i = 0; i < HT_ARRAY_SIZE(reg); i++) {
		if (!stackscan_is_entry(&o->ranges, *reg[i]))
			continue;
		raddr_t real = o->real(o->context, *reg[i]);
		if (real) {
			*reg[i] = real;
			answers->rewritten++;
		}
	}
}

static struct ht_err *rewrite_stack(const struct quiesce_options *o,
	const struct stackscan_found *found, struct answers *answers)
{
	for (size_t i = 0; i < found->entry_count; i++) {
		uint64_t word;
		if (i >= STACKSCAN_ENTRIES_MAX) {
			answers->entries_left++;
			continue;
		}
		struct ht_err *err = memory_read_u64(o->proc, found->entry[i], &word);
		if (err)
			return err;
		raddr_t real = stackscan_is_entry(&o->ranges, word) ? o->real(o->context, word) : 0;
		if (!real)
			continue;
		err = memory_write_u64(o->proc, found->entry[i], real);
		if (err)
			return err;
		answers->rewritten++;
	}
	return NULL;
}

static struct ht_err *judge_stopped(const struct job *job, size_t at, struct tracee *tracee,
	struct answers *answers, enum verdict *ret)
{
	const struct quiesce_options *o = &job->quiesce->options;
	struct stackscan_found found;
	struct user_regs_struct regs = tracee->regs;
	struct ht_err *err =
		stackscan_run(o->proc, job->maps, &o->ranges, tracee->regs.rsp, &found);
	if (err)
		return err;
	if (o->rewrite) {
		rewrite_registers(o, &regs, answers);
		err = rewrite_stack(o, &found, answers);
		if (err)
			return err;
	} else {
		answers->entries_left += (uint16_t)found.entry_count;
	}
	if (stackscan_ours(&o->ranges, regs.rip))
		*ret = INSIDE;
	else if (is_clean(&found, o->books(o->context, tracee->tid)))
		*ret = OUTSIDE;
	else if (job->judge[at])
		*ret = judge_frames(tracee->tid, &o->ranges) == JUDGE_OUTSIDE ? OUTSIDE : INSIDE;
	else
		*ret = INSIDE;
	if (memcmp(&regs, &tracee->regs, sizeof(regs)) == 0)
		return NULL;
	/* The registers were changed: the kernel must not restart a call from the old ones. */
	regs = tracee_resume_regs(&regs, tracee->filtered);
	tracee->regs = regs;
	return NULL;
}

static struct ht_err *look_and_release(const struct job *job, size_t at, struct tracee *tracee,
	struct answers *answers, enum verdict *ret)
{
	struct user_regs_struct as_stopped = tracee->regs;
	struct ht_err *err = judge_stopped(job, at, tracee, answers, ret);
	bool changed = memcmp(&as_stopped, &tracee->regs, sizeof(as_stopped)) != 0;
	struct ht_err *release =
		changed ? tracee_release_at(tracee, &tracee->regs) : tracee_release(tracee);
	uint64_t held = clock_mono_ns() - tracee->ran_until_ns;

	answers->stopped++;
	if (held > answers->stop_max_ns)
		answers->stop_max_ns = held;
	return ht_err_first(err, release);
}

/* Looks at thread `at` if it has stopped by now. */
static struct ht_err *poll_one(const struct job *job, size_t at, struct tracee *tracee,
	struct answers *answers, bool *ret_done)
{
	enum tracee_result result;
	enum verdict verdict = INSIDE;
	struct ht_err *err = tracee_poll(tracee, &result);

	*ret_done = result != TRACEE_BUSY;
	if (err || !*ret_done)
		return err;
	if (result == TRACEE_GONE)
		verdict = GONE;
	else if (result == TRACEE_STOPPED)
		err = look_and_release(job, at, tracee, answers, &verdict);
	answers->verdict[at] = (uint8_t)verdict;
	return err;
}

/* All are asked to stop; each is looked at and released the moment it does. Those that do not until
 * the deadline are released by the worker's end. */
static struct ht_err *look_job(void *context, struct worker_reply *reply)
{
	const struct job *job = context;
	struct answers *answers = (struct answers *)reply->data;
	static struct tracee tracee[JOBS_MAX];
	static bool done[JOBS_MAX];
	size_t left = 0;

	for (size_t i = 0; i < job->count; i++) {
		enum tracee_result result;
		struct ht_err *err = tracee_ask(job->tid[i], false, &tracee[i], &result);
		if (err)
			return err;
		tracee[i].filtered = job->quiesce->options.filtered;
		done[i] = result != TRACEE_BUSY;
		left += !done[i];
		/* A dying worker may still hold it: not an error, another pass will see. */
		answers->verdict[i] = (uint8_t)(result == TRACEE_GONE ? GONE : INSIDE);
	}
	uint64_t deadline = clock_mono_ns() + STOP_DEADLINE_NS;
	while (left && clock_mono_ns() < deadline) {
		for (size_t i = 0; i < job->count; i++) {
			if (done[i])
				continue;
			struct ht_err *err = poll_one(job, i, &tracee[i], answers, &done[i]);
			if (err)
				return err;
			left -= done[i];
		}
		/* Not a yield: they cannot stop before they have the core that we would spin on. */
		if (left)
			clock_sleep_ns(POLL_NS);
	}
	return NULL;
}

static void note(struct quiesce *quiesce, struct watched *watched, enum verdict verdict)
{
	watched->outside = verdict == OUTSIDE || verdict == GONE;
	if (watched->outside)
		return;
	quiesce->report.left++;
	quiesce->report.tid = watched->tid;
	quiesce->report.why = "a frame of it is, or may be, inside the agent";
}

static struct ht_err *run_job(struct quiesce *quiesce, struct job *job, struct watched **who)
{
	struct worker_reply reply;
	if (job->count == 0)
		return NULL;
	struct ht_err *err = worker_run("checking the target's threads",
		clock_mono_ns() + WORKER_DEADLINE_NS, look_job, job, &reply);
	if (err)
		return err;
	const struct answers *answers = (const struct answers *)reply.data;
	for (size_t i = 0; i < job->count; i++)
		note(quiesce, who[i], (enum verdict)answers->verdict[i]);
	quiesce->report.stopped += answers->stopped;
	quiesce->report.rewritten += answers->rewritten;
	quiesce->report.entries_left += answers->entries_left;
	if (answers->stop_max_ns > quiesce->report.stop_max_ns)
		quiesce->report.stop_max_ns = answers->stop_max_ns;
	job->count = 0;
	return NULL;
}

static struct ht_err *pass_with_maps(struct quiesce *quiesce, const struct proc_maps *maps)
{
	static struct job job;
	static struct watched *who[JOBS_MAX];
	struct ht_err *err = NULL;

	job = (struct job){.quiesce = quiesce, .maps = maps};
	for (size_t i = 0; !err && i < quiesce->count; i++) {
		struct watched *w = &quiesce->watched[i];
		enum verdict verdict;
		size_t entries;
		if (w->outside)
			continue;
		w->passes++;
		err = look_without_stop(quiesce, maps, w->tid, &verdict, &entries);
		if (err)
			break;
		bool judge = verdict == INSIDE && w->passes > JUDGE_AFTER_PASSES;
		if (verdict == OUTSIDE && quiesce->options.rewrite)
			verdict = MUST_STOP;
		if (verdict != MUST_STOP && !judge) {
			if (verdict == OUTSIDE)
				quiesce->report.entries_left += entries;
			note(quiesce, w, verdict);
			continue;
		}
		who[job.count] = w;
		job.judge[job.count] = w->passes > JUDGE_AFTER_PASSES;
		job.tid[job.count++] = w->tid;
		if (job.count == JOBS_MAX)
			err = run_job(quiesce, &job, who);
	}
	return err ? err : run_job(quiesce, &job, who);
}

struct ht_err *quiesce_pass(struct quiesce *quiesce, struct quiesce_report *ret)
{
	struct proc_maps maps;
	quiesce->report.left = 0;
	quiesce->report.why = NULL;
	struct ht_err *err = proc_maps_read(quiesce->options.proc, &maps);
	if (err)
		return err;
	err = pass_with_maps(quiesce, &maps);
	proc_maps_deinit(&maps);
	if (!err)
		*ret = quiesce->report;
	return err;
}
