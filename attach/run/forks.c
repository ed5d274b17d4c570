/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/forks.h"

#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/capture/guard_wait.h"
#include "attach/helper/inherited.h"
#include "attach/cli/print.h"
#include "attach/daemon/runstate.h"
#include "attach/helper/pulse.h"
#include "attach/helper/worker.h"
#include "attach/hold/birth.h"
#include "attach/proc/clock.h"
#include "attach/process/kin.h"
#include "attach/process/proc_open.h"
#include "attach/run/launch.h"
#include "attach/undo/children.h"
#include "format/helper.h"

#define AT_ONCE	  16u /* recorders of a command that work at the same time */
#define TOTAL	  128u /* traces of children: recorders that begin, and further programs of a child */
#define KNOWN_MAX 4096u

#define POLL_NS	   (20 * CLOCK_NS_PER_MS)
#define BIRTH_NS   (15 * CLOCK_NS_PER_S)
#define SHARING_NS (5 * CLOCK_NS_PER_S)
#define CLEAN_NS   (10 * CLOCK_NS_PER_S)
#define SETTLE_NS  (3 * CLOCK_NS_PER_S)
#define END_NS	   (60 * CLOCK_NS_PER_S)
#define WORDS_S	   5

enum stage {
	STAGE_HOLDS, /* the recorder may hold a thread of the target, and waits for its child */
	STAGE_CHILD,
};

/* Messages from a recorder to the process that forked it. */
struct note {
	uint32_t claimed;
	uint32_t stage;
	int32_t child; /* 0: none is known yet */
};

/* Shared by all recorders of a command. */
struct shared {
	struct note note[AT_ONCE];
	uint32_t started, unrecorded, why_is_set;
	uint32_t is_over; /* the command has ended */
	char why[256];	  /* the first reason */
};

struct recorder {
	pid_t pid;
	struct note *note;
};

struct forks {
	struct session_forks session; /* must be the first field: its address is that of `forks` */
	struct session_target target; /* of `look` and `settle`; zero between their calls */
	struct shared *shared;
	const struct options *options;
	forks_record *record;
	uint64_t end_ns, next_poll_ns;
	struct recorder recorder[AT_ONCE];
	size_t recorder_count;
	pid_t known[KNOWN_MAX]; /* children of the target, as they were last listed */
	size_t known_count;
	/* Counts of this session: requests that a recorder serves, children found without a
	 * request, and how many of the latter are not recorded. */
	uint64_t asked, found, passed_over;
};

/* --- the bound
 * --------------------------------------------------------------------------------------------------
 */

static void count_unrecorded(struct shared *shared, uint64_t count, const char *why)
{
	if (!count)
		return;
	__atomic_fetch_add(&shared->unrecorded, (uint32_t)count, __ATOMIC_RELAXED);
	if (!__atomic_exchange_n(&shared->why_is_set, 1, __ATOMIC_ACQ_REL))
		snprintf(shared->why, sizeof(shared->why), "%s", why);
}

bool forks_take(struct forks *forks)
{
	return __atomic_fetch_add(&forks->shared->started, 1, __ATOMIC_RELAXED) < TOTAL;
}

/* NULL: AT_ONCE recorders work now, or TOTAL traces have begun. */
static struct note *claim(struct forks *forks)
{
	if (forks->recorder_count == AT_ONCE)
		return NULL;
	for (size_t i = 0; i < AT_ONCE; i++) {
		struct note *note = &forks->shared->note[i];
		if (__atomic_exchange_n(&note->claimed, 1, __ATOMIC_ACQ_REL))
			continue;
		if (forks_take(forks))
			return note;
		__atomic_store_n(&note->claimed, 0, __ATOMIC_RELEASE);
		return NULL;
	}
	return NULL;
}

static bool is_open(const struct session_forks *session)
{
	const struct forks *forks = (const struct forks *)session;
	if (forks->end_ns && clock_mono_ns() >= forks->end_ns)
		return false;
	if (__atomic_load_n(&forks->shared->started, __ATOMIC_RELAXED) >= TOTAL)
		return false;
	for (size_t i = 0; i < AT_ONCE; i++)
		if (!__atomic_load_n(&forks->shared->note[i].claimed, __ATOMIC_RELAXED))
			return true;
	return false;
}

/* --- in the recorder
 * -------------------------------------------------------------------------------------------- */

struct job {
	const struct follow_ask *ask;
	struct note *note;
};

static void note_born(void *context, pid_t pid)
{
	struct note *note = context;
	__atomic_store_n(&note->child, pid, __ATOMIC_RELAXED);
	__atomic_store_n(&note->stage, STAGE_CHILD, __ATOMIC_RELEASE);
}

static struct ht_err *birth_job(void *context, struct worker_reply *reply)
{
	const struct job *job = context;
	struct birth birth;
	struct ht_err *err = birth_follow(job->ask, note_born, job->note, &birth);
	memcpy(reply->data, &birth, sizeof(birth));
	return err;
}

/* A worker that was late has been killed, which lets the threads run, and has sent no reply. */
static struct birth await_birth(const struct follow_ask *ask, struct note *note)
{
	struct job job = {ask, note};
	struct worker_reply reply;
	struct birth birth;
	ht_err_free(worker_run(
		"following a child", clock_mono_ns() + BIRTH_NS, birth_job, &job, &reply));
	memcpy(&birth, reply.data, sizeof(birth));
	if (!birth.pid)
		birth = (struct birth){.pid = note->child};
	return birth;
}

/* A child in vfork runs in its parent's memory: it can be recorded only when it has become another
 * program. */
static struct ht_err *await_memory(const struct proc *parent, const struct proc *child)
{
	uint64_t since_ns = clock_mono_ns();
	for (bool shares = true;;) {
		struct ht_err *err = proc_check_same(child);
		HT_THEN(err, kin_shares(parent, child->pid, &shares));
		if (err || !shares)
			return err;
		if (clock_mono_ns() - since_ns > SHARING_NS)
			return ht_err_new(
				HT_ERR_REFUSED, "it runs in the memory of process %d", parent->pid);
		clock_sleep_ns(clock_pause_ns(since_ns));
	}
}

/* Removes the agent and the hooks that the child has inherited, before it is recorded itself. */
static struct ht_err *clean(
	struct forks *forks, const struct heritage *heritage, const struct proc *child)
{
	struct children_report report;
	HT_TRY(await_memory(forks->target.proc, child));
	children_clean_inherited(
		forks->target.proc, heritage, child->pid, clock_mono_ns() + CLEAN_NS, &report);
	return report.left ? ht_err_new(HT_ERR_REFUSED, "%s", report.why) : NULL;
}

static bool is_told_to_end(void)
{
	sigset_t pending;
	return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM);
}

static struct ht_err *record_child(
	struct forks *forks, const struct heritage *heritage, const struct birth *birth)
{
	struct launch launch = {
		.pid = birth->pid, .fd = -1, .followed = birth->result, .wait = birth->wait};
	struct proc child;
	if (!birth->pid)
		return ht_err_new(HT_ERR_TARGET_GONE, "heaptap did not see it start");
	if (birth->ended)
		return ht_err_new(HT_ERR_TARGET_GONE, "it ended before heaptap could record it");
	HT_TRY(proc_open(birth->pid, &child));
	struct ht_err *err =
		birth->result == FOLLOW_NOTHING ? clean(forks, heritage, &child) : NULL;
	const struct forks_process recorded = {.options = forks->options,
		.end_ns = forks->end_ns,
		.forks = forks,
		.is_child = true,
		.start_ticks = child.start_ticks,
		.heritage = heritage};
	proc_close(&child);
	proc_close(forks->target.proc);
	munmap(forks->target.image->local, forks->target.image->bytes);
	if (!err && is_told_to_end())
		err = ht_err_new(HT_ERR_TARGET_GONE, "the command ended");
	if (!err)
		return forks->record(&recorded, &launch);
	launch_leave(&launch);
	return err;
}

/* Closes the daemon's descriptors: locks, sockets, and all of the target but the three in
 * `kept`. */
static bool leave_daemon(const struct proc *proc)
{
	int kept[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, proc->mem_fd, proc->dir_fd,
		proc->pidfd};
	setpgid(0, 0);
	if (!helper_close_all_but(kept, HT_ARRAY_SIZE(kept)))
		return false;
	(void)pulse_watch();
	/* This process is in the terminal's background; it prints each report in one write. */
	signal(SIGTTOU, SIG_IGN);
	__fpurge(stdout);
	setvbuf(stderr, NULL, _IOFBF, 1u << 16);
	return true;
}

static void collect(struct forks *forks);

static void signal_all(const struct forks *forks, int sig)
{
	for (size_t i = 0; i < forks->recorder_count; i++)
		kill(forks->recorder[i].pid, sig);
}

/* Sends SIGTERM to the recorders whose child still runs. The recorder of a child that has ended
 * ends by itself: a signal would only cut its trace short. */
static void end_those_that_last(const struct forks *forks)
{
	for (size_t i = 0; i < forks->recorder_count; i++) {
		pid_t child = __atomic_load_n(&forks->recorder[i].note->child, __ATOMIC_RELAXED);
		if (!child || !strchr("?ZX", runstate_of(child)))
			kill(forks->recorder[i].pid, SIGTERM);
	}
}

/* Has the command ended? The SIGTERM of end_those_that_last alone does not show it: the session may
 * have taken the signal as the end of its window. */
static bool is_over(const struct forks *forks, pid_t parent)
{
	return __atomic_load_n(&forks->shared->is_over, __ATOMIC_RELAXED) || getppid() != parent;
}

/* Waits for the recorders of the child's own children. */
static void await_own(struct forks *forks, pid_t parent)
{
	bool told = false;
	for (collect(forks); forks->recorder_count; collect(forks)) {
		if (!told && is_over(forks, parent)) {
			end_those_that_last(forks);
			told = true;
		}
		clock_sleep_ns(5 * CLOCK_NS_PER_MS);
	}
}

static _Noreturn void recorder_main(struct forks *forks, struct note *note,
	const struct follow_ask *ask, pid_t pid, pid_t parent)
{
	const struct heritage heritage = {.daemon_pid = parent,
		.journal = forks->target.journal,
		.slack = forks->target.slack,
		.next = forks->target.heritage};
	if (!leave_daemon(forks->target.proc))
		_exit(1);
	forks->recorder_count = forks->known_count = 0;
	forks->asked = forks->found = forks->passed_over = 0;
	struct birth birth = {.pid = pid};
	if (ask)
		birth = await_birth(ask, note);
	struct ht_err *err = record_child(forks, &heritage, &birth);
	forks->target = (struct session_target){0};
	if (err)
		count_unrecorded(forks->shared, 1, err->message);
	ht_err_free(err);
	await_own(forks, parent);
	signal(SIGALRM, SIG_DFL);
	alarm(WORDS_S);
	fflush(stderr);
	fflush(stdout);
	_exit(0);
}

/* --- in the daemon
 * ---------------------------------------------------------------------------------------------- */

static bool start(struct forks *forks, const struct follow_ask *ask, pid_t pid)
{
	struct note *note = claim(forks);
	pid_t self = getpid();

	if (!note)
		return false;
	note->child = pid;
	__atomic_store_n(&note->stage, ask ? STAGE_HOLDS : STAGE_CHILD, __ATOMIC_RELEASE);
	pid_t recorder = helper_fork(SIGTERM);
	if (recorder == 0)
		recorder_main(forks, note, ask, pid, self);
	if (recorder < 0) {
		__atomic_store_n(&note->claimed, 0, __ATOMIC_RELEASE);
		return false;
	}
	forks->recorder[forks->recorder_count++] = (struct recorder){recorder, note};
	return true;
}

static void go_on(const struct forks *forks)
{
	struct abi_control *control = image_control(forks->target.image);
	__atomic_store_n(&control->exec_held, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&control->exec_asks, 0, __ATOMIC_RELEASE);
}

static bool holds(const struct recorder *recorder)
{
	return __atomic_load_n(&recorder->note->stage, __ATOMIC_ACQUIRE) == STAGE_HOLDS;
}

static bool any_holds(const struct forks *forks)
{
	for (size_t i = 0; i < forks->recorder_count; i++)
		if (holds(&forks->recorder[i]))
			return true;
	return false;
}

/* Reaps recorders that have ended. If one of them held a thread of the target, the thread is free
 * now and must not wait for another recorder. */
static void collect(struct forks *forks)
{
	for (size_t i = 0; i < forks->recorder_count;) {
		struct recorder *recorder = &forks->recorder[i];
		int status;
		if (!helper_has_ended(recorder->pid, &status)) {
			i++;
			continue;
		}
		if (forks->target.image && holds(recorder))
			go_on(forks);
		__atomic_store_n(&recorder->note->claimed, 0, __ATOMIC_RELEASE);
		*recorder = forks->recorder[--forks->recorder_count];
	}
}

/* Serves a thread of the target that is about to make a child. */
static void answer(struct forks *forks)
{
	struct follow_ask ask;

	if (!guard_wait_find(forks->target.image, forks->target.proc, true, &ask) ||
		any_holds(forks))
		return;
	if (is_open(&forks->session) && start(forks, &ask, 0))
		forks->asked++;
	else
		go_on(forks);
}

static bool has(const pid_t *list, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (list[i] == pid)
			return true;
	return false;
}

static bool is_recorded(const struct forks *forks, pid_t pid)
{
	for (size_t i = 0; i < forks->recorder_count; i++)
		if (__atomic_load_n(&forks->recorder[i].note->child, __ATOMIC_RELAXED) == pid)
			return true;
	return false;
}

/* Finds children that came without a request: by clone(2), or while another request was served. */
static void find_others(struct forks *forks)
{
	static pid_t list[KNOWN_MAX];
	uint64_t now = clock_mono_ns();

	/* While a recorder waits for its child, the list does not show which child that is. */
	if (now < forks->next_poll_ns || any_holds(forks))
		return;
	size_t count = kin_children(forks->target.proc, list, KNOWN_MAX);
	for (size_t i = 0; i < count; i++) {
		if (has(forks->known, forks->known_count, list[i]) || is_recorded(forks, list[i]))
			continue;
		forks->found++;
		forks->passed_over += !is_open(&forks->session) || !start(forks, NULL, list[i]);
	}
	memcpy(forks->known, list, count * sizeof(*list));
	forks->known_count = count;
	/* A list of a thousand threads takes long: looks take at most an eleventh of the time. */
	forks->next_poll_ns = now + POLL_NS + 10 * (clock_mono_ns() - now);
}

static void look(struct session_forks *session, const struct session_target *target)
{
	struct forks *forks = (struct forks *)session;
	forks->target = *target;
	collect(forks);
	answer(forks);
	find_others(forks);
	__atomic_store_n(&image_config(forks->target.image)->follow_forks, is_open(session),
		__ATOMIC_RELEASE);
	forks->target = (struct session_target){0};
}

static void settle(struct session_forks *session, const struct session_target *target)
{
	struct forks *forks = (struct forks *)session;
	uint64_t end_ns = clock_mono_ns() + SETTLE_NS;
	if (!target->image->local)
		return;
	forks->target = *target;
	__atomic_store_n(&image_config(forks->target.image)->follow_forks, 0, __ATOMIC_RELEASE);
	for (collect(forks); any_holds(forks) && clock_mono_ns() < end_ns; collect(forks))
		clock_sleep_ns(CLOCK_NS_PER_MS);
	for (size_t i = 0; i < forks->recorder_count; i++)
		if (holds(&forks->recorder[i]))
			kill(forks->recorder[i].pid, SIGKILL);
	uint64_t calls =
		__atomic_load_n(&image_control(forks->target.image)->forks, __ATOMIC_RELAXED);
	uint64_t seen = forks->asked + forks->found - forks->passed_over;
	uint64_t missed = calls > seen ? calls - seen : 0;
	count_unrecorded(forks->shared, missed > forks->passed_over ? missed : forks->passed_over,
		"too many at once or in total, or they ended before heaptap could record them");
	forks->asked = forks->found = forks->passed_over = 0;
	forks->target = (struct session_target){0};
}

/* --- the whole
 * --------------------------------------------------------------------------------------------------
 */

struct session_forks *forks_session(struct forks *forks)
{
	return forks ? &forks->session : NULL;
}

struct ht_err *forks_create(
	const struct options *options, uint64_t end_ns, forks_record *record, struct forks **ret)
{
	struct forks *forks = calloc(1, sizeof(*forks));
	if (!forks)
		return ht_err_new(HT_ERR_NOMEM, "no memory to record children");
	forks->shared = mmap(NULL, sizeof(*forks->shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (forks->shared == MAP_FAILED) {
		free(forks);
		return ht_err_new(HT_ERR_NOMEM, "no memory to record children");
	}
	forks->session = (struct session_forks){.is_open = is_open, .look = look, .settle = settle};
	forks->options = options;
	forks->record = record;
	forks->end_ns = end_ns;
	*ret = forks;
	return NULL;
}

void forks_destroy(struct forks *forks)
{
	if (forks)
		munmap(forks->shared, sizeof(*forks->shared));
	free(forks);
}

void forks_end(struct forks *forks)
{
	static const struct timespec step = {.tv_nsec = 5 * CLOCK_NS_PER_MS};
	uint64_t end_ns = clock_mono_ns() + END_NS;
	sigset_t set;
	inherited_ending_signals(&set);
	__atomic_store_n(&forks->shared->is_over, 1, __ATOMIC_RELAXED);
	collect(forks);
	end_those_that_last(forks);
	/* A second signal ends the recorders' captures at once, as it ends any capture. */
	for (; forks->recorder_count && clock_mono_ns() < end_ns; collect(forks))
		if (sigtimedwait(&set, NULL, &step) > 0)
			signal_all(forks, SIGTERM);
}

void forks_tell(const struct forks *forks)
{
	uint32_t count = __atomic_load_n(&forks->shared->unrecorded, __ATOMIC_RELAXED);
	if (count && !forks->options->quiet)
		print_text(stderr, "heaptap: %u child processes were not recorded: %s\n", count,
			forks->shared->why);
}
