/* SPDX-License-Identifier: Apache-2.0
 *
 * A program runs to its first instruction, waits there, and goes on as if it had not waited.
 */
#include "attach/hold/park.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/helper/worker.h"
#include "attach/memory/memory.h"
#include "attach/memory/pagemap.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/process/proc_open.h"
#include "attach/thread/proc_where.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/unit/attach/ptracecall.h"

#define LIMIT_NS (60 * CLOCK_NS_PER_S)
#define LIMIT_MS 60000

/* A child that execs when the test writes to `go_fd`. */
struct child {
	pid_t pid;
	int go_fd;
	struct park park;
};

/* How many of the next PTRACE_GETSIGINFO and of the next PTRACE_POKETEXT calls fail. */
static unsigned failing_looks, failing_pokes;
/* The caller of ptrace is killed at its call with this number, counted from 1; 0: it is not. */
static unsigned calls_until_death;

static long ptrace_called(enum __ptrace_request request, pid_t tid, void *addr, void *data)
{
	if (calls_until_death && --calls_until_death == 0)
		kill(getpid(), SIGKILL);
	if (request == PTRACE_POKETEXT && failing_pokes) {
		failing_pokes--;
		errno = EIO;
		return -1;
	}
	if (request != PTRACE_GETSIGINFO || !failing_looks)
		return ptrace_really(request, tid, addr, data);
	failing_looks--;
	errno = ENOMEM;
	return -1;
}

static struct child child_start(const char *const argv[])
{
	int fd[2];
	char byte;
	ck_assert_int_eq(pipe2(fd, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		close(fd[1]);
		if (read(fd[0], &byte, 1) == 1)
			execvp(argv[0], (char **)argv);
		_exit(99);
	}
	ck_assert_int_gt(pid, 0);
	close(fd[0]);
	return (struct child){.pid = pid, .go_fd = fd[1]};
}

struct outcome {
	bool parked;
	struct park park;
};

static struct ht_err *park_job(void *context, struct worker_reply *reply)
{
	struct child *child = context;
	struct outcome *outcome = (struct outcome *)reply->data;
	struct ht_err *err = park_seize(child->pid);
	if (!err && write(child->go_fd, "", 1) != 1)
		err = ht_err_sys(errno, "cannot send to the child");
	HT_THEN(err, park_at_start(child->pid, getppid(), &outcome->park, &outcome->parked));
	return err;
}

static struct ht_err *park(struct child *child, bool *ret)
{
	struct worker_reply reply;
	struct ht_err *err =
		worker_run("parking", clock_mono_ns() + LIMIT_NS, park_job, child, &reply);
	child->park = ((struct outcome *)reply.data)->park;
	*ret = ((struct outcome *)reply.data)->parked;
	close(child->go_fd);
	return err;
}

static struct ht_err *do_nothing(void *context)
{
	(void)context;
	return NULL;
}

static struct ht_err *leave_job(void *context, struct worker_reply *reply)
{
	const struct child *child = context;
	(void)reply;
	return park_leave(child->pid, &child->park, do_nothing, NULL);
}

static struct ht_err *leave(struct child *child)
{
	struct worker_reply reply;
	return worker_run("leaving", clock_mono_ns() + LIMIT_NS, leave_job, child, &reply);
}

static int wait_for(const struct child *child)
{
	int status;
	ck_assert_int_eq(waitpid(child->pid, &status, 0), child->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool waits_in_pause(const struct proc *proc)
{
	struct proc_syscall call;
	ck_no_err(proc_syscall_read(proc, proc->pid, &call));
	return call.where == PROC_IN_SYSCALL && call.nr == SYS_pause;
}

/* The code must equal the file again once the breakpoint is gone. */
static void check_code(const struct proc *proc)
{
	static uint8_t mapped[1 << 20], stored[1 << 20];
	struct proc_maps maps;
	size_t looked_at = 0;
	ck_no_err(proc_maps_read(proc, &maps));
	for (size_t i = 0; i < maps.count; i++) {
		const struct proc_map *map = &maps.map[i];
		size_t length =
			map->hi - map->lo < sizeof(mapped) ? map->hi - map->lo : sizeof(mapped);
		if (!map->exec || !map->inode)
			continue;
		int fd = open(map->name, O_RDONLY | O_CLOEXEC);
		ssize_t got = pread(fd, stored, length, (off_t)map->offset);
		ck_assert_int_gt(got, 0);
		close(fd);
		ck_no_err(memory_read(proc, map->lo, mapped, (size_t)got));
		ck_assert_msg(!memcmp(mapped, stored, (size_t)got), "%s", map->name);
		looked_at++;
	}
	proc_maps_deinit(&maps);
	/* Program, dynamic linker, library. */
	ck_assert_uint_ge(looked_at, 3);
}

/* Checks that no page of code is private to the process: a private page would take memory, and show
 * in /proc. */
static void check_pages(const struct proc *proc)
{
	struct proc_maps maps;
	ck_no_err(proc_maps_read(proc, &maps));
	for (size_t i = 0; i < maps.count; i++) {
		const struct proc_map *map = &maps.map[i];
		if (map->exec && map->inode)
			ck_assert_msg(
				pagemap_own(proc, map->lo, map->hi - map->lo) == PAGEMAP_OWN_NONE,
				"%s", map->name);
	}
	proc_maps_deinit(&maps);
}

static void park_and_leave(const char *const argv[], int status_at_end)
{
	struct child child = child_start(argv);
	struct proc_status status;
	struct proc proc;
	bool parked;
	ck_no_err(park(&child, &parked));
	ck_assert(parked);
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	run_until(waits_in_pause(&proc), LIMIT_MS);
	ck_no_err(proc_status(&proc, 0, &status));
	ck_assert_int_eq(status.tracer, 0);
	check_code(&proc);
	check_pages(&proc);
	ck_no_err(leave(&child));
	ck_assert_int_eq(wait_for(&child), status_at_end);
	proc_close(&proc);
}

static const char *const seven[] = {"sh", "-c", "exit 7", NULL};

HT_TEST(waits_and_goes_on)
{
	park_and_leave(seven, 7);
}

/* A kernel may forbid tracers to write to read-only code (Debian's kernels allow it). */
HT_TEST(code_cannot_be_written)
{
	struct child child = child_start(seven);
	bool parked;
	failing_pokes = UINT_MAX;
	ck_err_says(park(&child, &parked), HT_ERR_SYS, "cannot write to the code");
	ck_assert_int_eq(wait_for(&child), 128 + SIGKILL);
	/* After one failure the write is tried again. */
	failing_pokes = 1;
	park_and_leave(seven, 7);
}

/* The worker dies at each ptrace call in turn, with breakpoints in place or not: the program must
 * die too, and never by a breakpoint's signal. */
HT_TEST(worker_is_killed_at_each_call)
{
	bool parked = false;
	unsigned calls = 1;
	for (; !parked; calls++) {
		struct child child = child_start(seven);
		calls_until_death = calls;
		ht_err_free(park(&child, &parked));
		calls_until_death = 0;
		if (parked)
			ck_no_err(leave(&child));
		/* Before the seize no command to exec is sent, so the child ends by itself. */
		ck_assert_int_eq(wait_for(&child), parked ? 7 : calls == 1 ? 99 : 128 + SIGKILL);
	}
	ck_assert_uint_gt(calls, 10);
}

static void audit(const char *does)
{
	HT_FREED char *path = realpath(run_built("tests/targets/libauditor.so"), NULL);
	ck_assert_ptr_nonnull(path);
	setenv("LD_AUDIT", path, 1);
	setenv("AUDITOR", does, 1);
}

/* The auditor's child loads libraries in its copy of the memory: it must meet no breakpoint. */
HT_TEST(an_auditor_forks)
{
	audit("fork");
	park_and_leave(seven, 7);
	audit("vfork");
	park_and_leave(seven, 7);
}

HT_TEST(an_auditor_makes_a_thread)
{
	bool parked;
	audit("thread");
	struct child child = child_start(seven);
	ck_err_says(park(&child, &parked), HT_ERR_REFUSED, "makes a thread");
	ck_assert_int_eq(wait_for(&child), 128 + SIGKILL);
}

/* A fatal signal ends the parked program too; a signal that is ignored by default does nothing. */
HT_TEST(signals_meanwhile)
{
	struct child child = child_start(seven);
	bool parked;
	ck_no_err(park(&child, &parked));
	kill(child.pid, SIGWINCH);
	kill(child.pid, SIGSTOP);
	kill(child.pid, SIGCONT);
	ck_no_err(leave(&child));
	ck_assert_int_eq(wait_for(&child), 7);
	child = child_start(seven);
	ck_no_err(park(&child, &parked));
	ck_assert(parked);
	kill(child.pid, SIGTERM);
	siginfo_t info;
	ck_assert_int_eq(waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT), 0);
	ck_err(leave(&child), HT_ERR_TARGET_GONE);
	ck_assert_int_eq(wait_for(&child), 128 + SIGTERM);
}

HT_TEST(no_program)
{
	struct child child = child_start((const char *const[]){"/no/such", NULL});
	bool parked = true;
	ck_no_err(park(&child, &parked));
	ck_assert(!parked);
	ck_assert_int_eq(wait_for(&child), 99);
}

/* If parking fails after the hold, the worker kills the command. */
HT_TEST(dies_with_the_worker)
{
	struct child child =
		child_start((const char *const[]){run_built("tests/targets/linked-static"), NULL});
	bool parked;
	ck_err_says(park(&child, &parked), HT_ERR_REFUSED, "statically linked");
	ck_assert_int_eq(wait_for(&child), 128 + SIGKILL);
}

/* A breakpoint that was met must not be taken for the program's own trap, which would end the
 * program. */
HT_TEST(stop_reason_that_cannot_be_read)
{
	bool parked;
	failing_looks = 1;
	struct child child = child_start(seven);
	ck_no_err(park(&child, &parked));
	ck_assert(parked);
	ck_no_err(leave(&child));
	ck_assert_int_eq(wait_for(&child), 7);
	failing_looks = 2;
	child = child_start(seven);
	ck_err_says(park(&child, &parked), HT_ERR_SYS, "cannot read the signal");
	ck_assert_int_eq(wait_for(&child), 128 + SIGKILL);
}

HT_SUITE("attach/park")
