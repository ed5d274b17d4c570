/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/quiesce.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "attach/helper/worker.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/proc_open.h"
#include "attach/proof/judge.h"
#include "attach/proof/regwords.h"
#include "attach/thread/crowd.h"
#include "attach/thread/preempted.h"
#include "attach/thread/proc_where.h"
#include "attach/thread/stopcost.h"
#include "attach/thread/tracee.h"

#define WORKER_DEADLINE_NS  (15 * CLOCK_NS_PER_S)
#define MOVE_NS		    STOPCOST_MOVE_NS
#define HOOK_FRAME_BYTES    1024u	 /* a hook's frame, with all that the agent uses below */
#define SCAN_TOGETHER_BYTES (256u << 10) /* read of one thread's stacks while others are held */
#define JUDGE_AFTER_PASSES  3u		 /* passes after which a hit is judged by an unwind */
#define MAIN_PATIENCE_NS    (20 * CLOCK_NS_PER_MS)
/* With the pauses between the passes (prove.c) these take 7.5 ms: longer than the usual tick of 4
 * ms, at which the kernel updates the CPU time of a running thread. */
#define PUT_OFF_PASSES 4u

struct watched {
	pid_t tid;
	bool outside;
	bool is_program; /* not a kernel thread such as io_uring's */
	bool alone;	 /* its stacks are long: no other thread is stopped meanwhile */
	bool doubtful;	 /* a look found that it may be inside */
	bool asked;	 /* to stop, in an earlier pass */
	unsigned passes;
	uint64_t ran_ns; /* it has run if its CPU time exceeds this; 0: not looked at yet */
	bool computed;	 /* it was seen preempted in the program's own code */
	uint64_t sleeps; /* how often it had slept then */
	struct stopcost_seen seen;
};

struct quiesce {
	struct quiesce_options options;
	struct watched *watched;
	size_t count;
	uint64_t patience_mono_ns; /* until then a stop must do no harm */
	uint64_t began_ns;
	unsigned passes;
	struct quiesce_report report;
};

enum quiesce_books quiesce_calls_nothing(void *context, const struct proc *of, pid_t tid)
{
	(void)context;
	(void)of;
	(void)tid;
	return QUIESCE_IDLE;
}

static uint64_t patience_end(uint64_t deadline_mono_ns)
{
	uint64_t now = clock_mono_ns(), patience_ns = STOPCOST_PATIENCE_NS;
	if (deadline_mono_ns && deadline_mono_ns < now + 2 * patience_ns)
		patience_ns = deadline_mono_ns > now ? (deadline_mono_ns - now) / 2 : 0;
	return now + patience_ns;
}

struct ht_err *quiesce_create(const struct quiesce_options *options, struct quiesce **ret)
{
	HT_CLEANUP(proc_tids_deinit) struct proc_tids tids = {0};
	HT_TRY(proc_tids_read(options->proc, &tids));
	struct quiesce *quiesce = calloc(1, sizeof(*quiesce));
	struct watched *watched = calloc(tids.count + 1, sizeof(*watched));
	if (!quiesce || !watched) {
		free(quiesce);
		free(watched);
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu threads", tids.count);
	}
	for (size_t i = 0; i < tids.count; i++)
		watched[i].tid = tids.tid[i];
	*quiesce = (struct quiesce){.options = *options,
		.watched = watched,
		.count = tids.count,
		.patience_mono_ns = patience_end(options->deadline_mono_ns),
		.began_ns = clock_mono_ns(),
		.report.threads = tids.count};
	*ret = quiesce;
	return NULL;
}

void quiesce_destroy(struct quiesce *quiesce)
{
	if (!quiesce)
		return;
	free(quiesce->watched);
	free(quiesce);
}

/* The child of a vfork uses the thread's memory and is in no task list of the target. */
static bool in_vfork(const struct proc_syscall *call)
{
	return call->where == PROC_IN_SYSCALL &&
	       (call->nr == SYS_vfork || call->nr == SYS_clone || call->nr == SYS_clone3);
}

static bool same_place(const struct proc_syscall *a, const struct proc_syscall *b)
{
	return a->where == b->where && a->nr == b->nr && a->sp == b->sp && a->pc == b->pc;
}

/* Are all words found on the stacks stale? If the agent's record of a thread is idle, only a PC,
 * live or saved in a signal frame, can be in our code. Unread parts of the stack may hold such a
 * PC. */
static bool is_clean(const struct stackscan_found *found, enum quiesce_books books)
{
	return found->signal == 0 && found->unread == 0 &&
	       (found->plain == 0 || books == QUIESCE_IDLE);
}

/* Does the stack below `sp`, where a hook was entered, still hold a return address into our
 * code? */
static struct ht_err *frame_stands(const struct quiesce_options *o, raddr_t sp, bool *ret)
{
	*ret = false;
	return sp < HOOK_FRAME_BYTES
		       ? NULL
		       : stackscan_holds(o->proc, &o->ranges, sp - HOOK_FRAME_BYTES, sp, ret);
}

/* Are the hook's frame and `sp` both on the thread's own stack: the one that the C library
 * allocated, with the thread block at its end, or the first thread's? */
static bool same_stack(const struct proc_maps *maps, const struct quiesce_frame *f, raddr_t sp)
{
	const struct proc_map *map = proc_maps_find(maps, f->sp);
	if (!map || map != proc_maps_find(maps, sp))
		return false;
	bool has_block =
		f->thread_pointer < map->hi && f->sp < f->thread_pointer && sp < f->thread_pointer;
	return has_block || strcmp(map->name, "[stack]") == 0;
}

/* May a hook that the thread is not in now be resumed later? If its frame is on the thread's
 * current stack, words cannot tell: a hook that a signal handler jumped out of looks the same. */
enum suspended { NONE_SUSPENDED, MAY_BE_SUSPENDED, IS_SUSPENDED };

static struct ht_err *find_suspended(const struct quiesce_options *o, const struct proc_maps *maps,
	pid_t tid, raddr_t sp, enum suspended *ret)
{
	struct quiesce_frame frame[QUIESCE_FRAMES_MAX];
	struct ht_err *err = NULL;
	bool abandoned = false;
	size_t count = o->frames ? o->frames(o->context, o->proc, tid, frame, &abandoned) : 0;

	*ret = abandoned ? MAY_BE_SUSPENDED : NONE_SUSPENDED;
	for (size_t i = 0; !err && *ret != IS_SUSPENDED && i < count; i++) {
		bool stands = frame[i].unfollowed;
		if (!stands)
			err = frame_stands(o, frame[i].sp, &stands);
		if (!err && stands)
			*ret = same_stack(maps, &frame[i], sp) ? MAY_BE_SUSPENDED : IS_SUSPENDED;
	}
	return err;
}

/* INSIDE is 0: a verdict that never arrives counts as inside. */
enum verdict { INSIDE, OUTSIDE, MUST_STOP, TAKES_LONG, GONE };

/* Judges a blocked thread from /proc alone. */
static struct ht_err *look_without_stop(const struct quiesce *quiesce, const struct proc_maps *maps,
	pid_t tid, enum verdict *ret, size_t *ret_entries)
{
	const struct quiesce_options *o = &quiesce->options;
	struct proc_syscall before, after;
	struct stackscan_found found = {0};
	enum suspended suspended = NONE_SUSPENDED;

	*ret_entries = 0;
	HT_TRY(proc_syscall_read(o->proc, tid, &before));
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
	struct ht_err *err =
		stackscan_run(o->proc, maps, &o->ranges, before.sp, STACKSCAN_ALL, &found);
	HT_THEN(err, find_suspended(o, maps, tid, before.sp, &suspended));
	HT_THEN(err, proc_syscall_read(o->proc, tid, &after));
	if (err || !same_place(&before, &after))
		return err;
	*ret_entries = found.entry_count;
	bool clean = is_clean(&found, o->books(o->context, o->proc, tid));
	*ret = clean && suspended == NONE_SUSPENDED ? OUTSIDE : INSIDE;
	return NULL;
}

/* --- stopped threads: in a worker ------------------------------------------------------------- */

#define JOBS_MAX   CROWD_MAX
#define JUDGED_MAX 4u /* unwinds in one crowd, whose threads wait, stopped, some 10 ms for each */

struct job {
	const struct quiesce *quiesce;
	const struct proc_maps *maps;
	pid_t tid[JOBS_MAX];
	bool judge[JOBS_MAX];
	size_t count, judged;
};

struct answers {
	uint8_t verdict[JOBS_MAX];
	uint32_t rewritten, entries_left, stopped;
	uint64_t stop_max_ns;
};

_Static_assert(sizeof(struct answers) <= WORKER_REPLY_BYTES, "answers fit a reply");

/* Looks even if nothing is rewritten: code may copy an address in a way that escape_is_possible
 * does not know. */
static struct ht_err *look_at_registers(const struct quiesce_options *o, pid_t tid,
	struct user_regs_struct *regs, struct answers *answers)
{
	const struct regwords regwords = {
		.ranges = &o->ranges, .real = o->rewrite ? o->real : NULL, .context = o->context};
	struct regwords_report report;
	struct ht_err *err = regwords_look(&regwords, tid, regs, &report);
	answers->rewritten += (uint32_t)report.rewritten;
	answers->entries_left += (uint32_t)report.left;
	return err;
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
		HT_TRY(memory_read_u64(o->proc, found->entry[i], &word));
		raddr_t real = stackscan_is_entry(&o->ranges, word) ? o->real(o->context, word) : 0;
		if (!real)
			continue;
		/* Only the stopped thread uses this word, so the write need not be atomic. */
		HT_TRY(memory_write(o->proc, found->entry[i], &real, sizeof(real)));
		answers->rewritten++;
	}
	return NULL;
}

/* Judges the words found on the stacks of a stopped thread, and `pc`, where it continues. */
static struct ht_err *weigh(const struct job *job, size_t at, const struct tracee *tracee,
	const struct stackscan_found *found, raddr_t pc, enum verdict *ret)
{
	const struct quiesce_options *o = &job->quiesce->options;
	enum judge_result result = JUDGE_UNDECIDED;
	enum suspended suspended;

	*ret = INSIDE;
	struct ht_err *err =
		find_suspended(o, job->maps, tracee->tid, regs_sp(&tracee->regs), &suspended);
	if (err || suspended == IS_SUSPENDED || stackscan_ours(&o->ranges, pc))
		return err;
	if (suspended == NONE_SUSPENDED &&
		is_clean(found, o->books(o->context, o->proc, tracee->tid)))
		result = JUDGE_OUTSIDE;
	else if (job->judge[at] && suspended == NONE_SUSPENDED)
		err = judge_frames(o->proc, tracee->tid, &o->ranges, &result);
	else if (job->judge[at])
		err = judge_whole(o->proc, tracee->tid, &o->ranges, &result);
	if (!err && result == JUDGE_OUTSIDE)
		*ret = OUTSIDE;
	return err;
}

static struct ht_err *judge_stopped(const struct job *job, size_t at, struct tracee *tracee,
	struct answers *answers, enum verdict *ret)
{
	const struct quiesce_options *o = &job->quiesce->options;
	struct stackscan_found found;
	struct user_regs_struct regs = tracee->regs;
	HT_TRY(stackscan_run(o->proc, job->maps, &o->ranges, regs_sp(&tracee->regs),
		job->count == 1 ? STACKSCAN_ALL : SCAN_TOGETHER_BYTES, &found));
	if (found.cut) {
		*ret = TAKES_LONG;
		return NULL;
	}
	struct ht_err *err = look_at_registers(o, tracee->tid, &regs, answers);
	if (!err && o->rewrite)
		err = rewrite_stack(o, &found, answers);
	else if (!err)
		answers->entries_left += (uint32_t)found.entry_count;
	if (err)
		return err;
	HT_TRY(weigh(job, at, tracee, &found, regs_pc(&regs), ret));
	if (memcmp(&regs, &tracee->regs, sizeof(regs)) == 0)
		return NULL;
	/* If the PC is unchanged, the kernel decides whether to restart an interrupted call; from
	 * another PC the call must not be restarted. */
	tracee->regs = regs_pc(&regs) == regs_pc(&tracee->regs)
			       ? regs
			       : tracee_resume_regs(&regs, tracee->filtered);
	return NULL;
}

struct look {
	const struct job *job;
	struct answers *answers;
	bool checked;
};

/*
 * One check is enough for a whole crowd: all its threads have been seized by now. Only an exec
 * gives the process another memory, and an exec waits until we have collected the death of each
 * seized thread. So a thread that is examined later was held all the time. The main thread, whose
 * number an exec takes over, is in a crowd of its own.
 */
static struct ht_err *check_once(struct look *look)
{
	struct ht_err *err =
		look->checked ? NULL : proc_check_same(look->job->quiesce->options.proc);
	look->checked = !err;
	return err;
}

static struct ht_err *look_stopped(void *context, size_t at, struct tracee *tracee)
{
	struct look *look = context;
	enum verdict verdict = INSIDE;
	struct ht_err *err = check_once(look);
	HT_THEN(err, judge_stopped(look->job, at, tracee, look->answers, &verdict));
	look->answers->verdict[at] = (uint8_t)verdict;
	return err;
}

static void note_gone(void *context, size_t at)
{
	const struct look *look = context;
	look->answers->verdict[at] = GONE;
}

_Static_assert(INSIDE == 0, "heaptap has no information about it");

static struct ht_err *look_job(void *context, struct worker_reply *reply)
{
	const struct job *job = context;
	struct look look = {.job = job, .answers = (struct answers *)reply->data};
	const struct crowd crowd = {.proc = job->quiesce->options.proc,
		.tid = job->tid,
		.count = job->count,
		.filtered = job->quiesce->options.filtered,
		.together = job->judged == 0,
		.look = look_stopped,
		.gone = note_gone,
		.context = &look};
	struct crowd_report report;
	struct ht_err *err = crowd_stop(&crowd, &report);

	look.answers->stopped = (uint32_t)report.stopped;
	look.answers->stop_max_ns = report.stop_max_ns;
	return err;
}

/* A thread that waits for a core stops before its next instruction. If it is stopped again before
 * it has run, it never leaves the place where it was seen. If it is stopped when it has only just
 * been woken, it restarts the wait that is over. */
static bool has_run(const struct quiesce *quiesce, struct watched *watched)
{
	uint64_t ran_ns = proc_ran_ns(quiesce->options.proc, watched->tid);
	bool looked = watched->ran_ns != 0;
	if (!looked)
		watched->ran_ns = ran_ns + MOVE_NS;
	return !ran_ns || (looked && ran_ns > watched->ran_ns);
}

/* Was the thread seen preempted in the program's own code, and has it not slept since? Then it may
 * be stopped at once, whether or not it has run since. */
static bool has_computed(const struct quiesce *quiesce, struct watched *watched)
{
	const struct proc *proc = quiesce->options.proc;
	struct proc_status status = {0};
	bool told = !ht_err_drop(proc_status(proc, watched->tid, &status));
	if (told && watched->computed && status.sleeps == watched->sleeps)
		return true;
	watched->computed = told && preempted_is(proc, watched->tid);
	watched->sleeps = status.sleeps;
	return watched->computed;
}

/* If all cores are busy, waiting until all threads have run takes a time slice of each. A thread
 * that was preempted in a hook, as its record says, must run first: a stop before that would find
 * it inside. */
static bool is_out(const struct quiesce *quiesce, struct watched *watched)
{
	const struct quiesce_options *o = &quiesce->options;
	return has_run(quiesce, watched) ||
	       (!watched->asked && o->books(o->context, o->proc, watched->tid) != QUIESCE_INSIDE &&
		       has_computed(quiesce, watched));
}

static bool is_timely(const struct quiesce *quiesce, struct watched *watched)
{
	const struct quiesce_options *o = &quiesce->options;
	struct proc_syscall call;
	struct ht_err *err = proc_syscall_read(o->proc, watched->tid, &call);
	enum stopcost cost =
		err ? STOPCOST_RESTART : stopcost_of(o->proc, watched->tid, &call, o->filtered);
	ht_err_free(err);
	if (cost == STOPCOST_NEVER)
		return false;
	if (clock_mono_ns() > quiesce->patience_mono_ns)
		return true;
	return cost == STOPCOST_RUNNING
		       ? is_out(quiesce, watched)
		       : stopcost_is_timely(o->proc, watched->tid, cost, &watched->seen);
}

static void note(
	struct quiesce *quiesce, struct watched *watched, enum verdict verdict, bool stopped)
{
	watched->outside = verdict == OUTSIDE || verdict == GONE;
	quiesce->report.asleep += verdict == OUTSIDE && !stopped;
	quiesce->report.awake += verdict == OUTSIDE && stopped;
	if (watched->outside)
		return;
	quiesce->report.inside += verdict == INSIDE;
	quiesce->report.left++;
	quiesce->report.tid = watched->tid;
	quiesce->report.why =
		verdict == MUST_STOP
			? "it waits in a call that a stop would lengthen, or for a processor"
		: verdict == TAKES_LONG ? "its stack could not be read completely yet"
					: "one of its frames is, or may be, inside heaptap's code";
}

static struct ht_err *run_job(struct quiesce *quiesce, struct job *job, struct watched **who)
{
	struct worker_reply reply;
	if (job->count == 0)
		return NULL;
	struct ht_err *err = worker_run("checking the threads",
		clock_mono_ns() + WORKER_DEADLINE_NS, look_job, job, &reply);
	if (err && err->code != HT_ERR_REFUSED)
		return err;
	/* The stop came too late, or failed: all verdicts are INSIDE, and the next pass looks
	 * again. */
	if (err)
		memset(&reply, 0, sizeof(reply));
	ht_err_free(err);
	const struct answers *answers = (const struct answers *)reply.data;
	for (size_t i = 0; i < job->count; i++) {
		if (answers->verdict[i] == INSIDE)
			who[i]->ran_ns = proc_ran_ns(quiesce->options.proc, who[i]->tid) + MOVE_NS;
		who[i]->asked = true;
		who[i]->alone |= answers->verdict[i] == TAKES_LONG;
		who[i]->doubtful |= answers->verdict[i] == INSIDE;
		note(quiesce, who[i], (enum verdict)answers->verdict[i], true);
	}
	quiesce->report.stopped += answers->stopped;
	quiesce->report.rewritten += answers->rewritten;
	quiesce->report.entries_left += answers->entries_left;
	if (answers->stop_max_ns > quiesce->report.stop_max_ns)
		quiesce->report.stop_max_ns = answers->stop_max_ns;
	job->count = job->judged = 0;
	return NULL;
}

/* A thread that was not seen outside is checked, once, for being a kernel thread: it runs no code
 * of the program. */
static struct ht_err *look_at(const struct quiesce *quiesce, const struct proc_maps *maps,
	struct watched *w, enum verdict *ret, size_t *ret_entries)
{
	bool worker;
	struct ht_err *err = look_without_stop(quiesce, maps, w->tid, ret, ret_entries);
	if (!err && *ret == OUTSIDE && quiesce->options.rewrite)
		*ret = MUST_STOP;
	if (err || *ret == OUTSIDE || *ret == GONE || w->is_program)
		return err;
	err = proc_is_worker(quiesce->options.proc, w->tid, &worker);
	w->is_program = !worker;
	if (worker)
		*ret = OUTSIDE;
	return err;
}

/* Leaves the main thread unstopped for a time: while it is held, a signal sent to the process would
 * go to another thread (preference_is_second). If the main thread sleeps now and then, a look at
 * /proc sees it outside. */
static bool is_spared(const struct quiesce *quiesce, const struct watched *watched)
{
	uint64_t now_ns = clock_mono_ns();
	return watched->tid == quiesce->options.proc->pid && quiesce->count > 1 &&
	       !quiesce->options.rewrite && now_ns - quiesce->began_ns < MAIN_PATIENCE_NS &&
	       now_ns <= quiesce->patience_mono_ns;
}

/* All threads are asked in one crowd. If some are late, since they run or may not have left the
 * call that they were woken from, the crowd waits for them a few passes: asked later, they would
 * cost another time slice of each thread. */
static bool is_put_off(struct quiesce *quiesce, struct job *job, struct watched **who, size_t late)
{
	if (quiesce->passes > PUT_OFF_PASSES || late == 0 || job->count < 2)
		return false;
	for (size_t i = 0; i < job->count; i++)
		note(quiesce, who[i], MUST_STOP, false);
	return true;
}

static struct ht_err *pass_with_maps(struct quiesce *quiesce, const struct proc_maps *maps)
{
	static struct job job;
	static struct watched *who[JOBS_MAX];
	struct ht_err *err = NULL;

	size_t late = 0;

	quiesce->passes++;
	job = (struct job){.quiesce = quiesce, .maps = maps};
	for (size_t i = 0; !err && i < quiesce->count; i++) {
		struct watched *w = &quiesce->watched[i];
		enum verdict verdict;
		size_t entries;
		if (w->outside)
			continue;
		w->passes++;
		err = look_at(quiesce, maps, w, &verdict, &entries);
		if (err)
			break;
		w->doubtful |= verdict == INSIDE;
		bool judge = w->doubtful && w->passes > JUDGE_AFTER_PASSES;
		if (verdict != MUST_STOP && !(judge && verdict == INSIDE)) {
			if (verdict == OUTSIDE)
				quiesce->report.entries_left += entries;
			note(quiesce, w, verdict, false);
			continue;
		}
		bool spared = is_spared(quiesce, w);
		if (!is_timely(quiesce, w) || spared) {
			late += !spared && w->ran_ns != 0;
			note(quiesce, w, MUST_STOP, false);
			continue;
		}
		/* An exec by another thread takes over the main thread's number. While the main
		 * thread is held no other thread is, and its registers are not written to the new
		 * program. */
		bool alone = w->alone || w->tid == quiesce->options.proc->pid;
		if (alone)
			err = run_job(quiesce, &job, who);
		if (err)
			break;
		who[job.count] = w;
		job.judge[job.count] = judge;
		job.judged += judge;
		job.tid[job.count++] = w->tid;
		if (job.count == JOBS_MAX || job.judged == JUDGED_MAX || alone)
			err = run_job(quiesce, &job, who);
	}
	return err || is_put_off(quiesce, &job, who, late) ? err : run_job(quiesce, &job, who);
}

struct ht_err *quiesce_pass(struct quiesce *quiesce, struct quiesce_report *ret)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	quiesce->report.left = 0;
	quiesce->report.why = NULL;
	HT_TRY(proc_maps_read(quiesce->options.proc, &maps));
	HT_TRY(pass_with_maps(quiesce, &maps));
	*ret = quiesce->report;
	return NULL;
}
