/* SPDX-License-Identifier: Apache-2.0
 *
 * A program is brought to its start in both ways, waits there, and goes on as if it never had.
 */
#include "attach/inject/park.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/target/clock.h"
#include "attach/target/memory.h"
#include "attach/target/worker.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/unit/attach/ptracecall.h"

#define LIMIT_NS (60 * CLOCK_NS_PER_S)
#define LIMIT_MS 60000

/* A child that execs when it is told to. */
struct child {
	pid_t pid;
	int go_fd;
	enum park_way way;
	struct park park;
};

/* So many of the next looks at a signal fail. */
static unsigned failing_looks;

static long ptrace_called(enum __ptrace_request request, pid_t tid, void *addr, void *data)
{
	if (request != PTRACE_GETSIGINFO || !failing_looks)
		return ptrace_really(request, tid, addr, data);
	failing_looks--;
	errno = ENOMEM;
	return -1;
}

static struct child child_start(const char *const argv[], enum park_way way)
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
	return (struct child){.pid = pid, .go_fd = fd[1], .way = way};
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
	if (!err)
		err = park_at_start(
			child->pid, getppid(), child->way, &outcome->park, &outcome->parked);
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

/* Code is what the file has, whatever stood there for a moment. */
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

/* Seen by a tracer of the test's own. */
static void check_debug_registers(const struct child *child)
{
	int status;
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, child->pid, NULL, NULL), 0);
	ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, child->pid, NULL, NULL), 0);
	ck_assert_int_eq(waitpid(child->pid, &status, __WALL), child->pid);
	for (unsigned i = 0; i < 8; i++) {
		if (i == 4 || i == 5 || i == 6)
			continue;
		errno = 0;
		long value = ptrace(PTRACE_PEEKUSER, child->pid,
			offsetof(struct user, u_debugreg) + i * sizeof(uint64_t), NULL);
		ck_assert_msg(value == 0 && errno == 0, "register %u: %lx", i, value);
	}
	ck_assert_int_eq(ptrace(PTRACE_DETACH, child->pid, NULL, NULL), 0);
}

static void park_and_leave(enum park_way way, const char *const argv[])
{
	struct child child = child_start(argv, way);
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
	check_debug_registers(&child);
	run_until(waits_in_pause(&proc), LIMIT_MS);
	ck_no_err(leave(&child));
	ck_assert_int_eq(wait_for(&child), 7);
	proc_close(&proc);
}

static const char *const seven[] = {"sh", "-c", "exit 7", NULL};

START_TEST(met_by_a_debug_register)
{
	park_and_leave(PARK_DEBUG_REGISTER, seven);
}
END_TEST

START_TEST(met_by_a_breakpoint)
{
	park_and_leave(PARK_BREAKPOINT, seven);
}
END_TEST

/* What a signal ends it ends there, too; one that is ignored by default is nothing. */
START_TEST(signals_meanwhile)
{
	struct child child = child_start(seven, PARK_DEBUG_REGISTER);
	bool parked;
	ck_no_err(park(&child, &parked));
	kill(child.pid, SIGWINCH);
	kill(child.pid, SIGSTOP);
	kill(child.pid, SIGCONT);
	ck_no_err(leave(&child));
	ck_assert_int_eq(wait_for(&child), 7);
	child = child_start(seven, PARK_DEBUG_REGISTER);
	ck_no_err(park(&child, &parked));
	ck_assert(parked);
	kill(child.pid, SIGTERM);
	siginfo_t info;
	ck_assert_int_eq(waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT), 0);
	ck_err(leave(&child), HT_ERR_TARGET_GONE);
	ck_assert_int_eq(wait_for(&child), 128 + SIGTERM);
}
END_TEST

START_TEST(no_program)
{
	struct child child =
		child_start((const char *const[]){"/no/such", NULL}, PARK_DEBUG_REGISTER);
	bool parked = true;
	ck_no_err(park(&child, &parked));
	ck_assert(!parked);
	ck_assert_int_eq(wait_for(&child), 99);
}
END_TEST

/* Who gives up what it holds kills it. */
START_TEST(dies_with_the_worker)
{
	struct child child =
		child_start((const char *const[]){run_built("tests/targets/linked-static"), NULL},
			PARK_DEBUG_REGISTER);
	bool parked;
	ck_err_says(park(&child, &parked), HT_ERR_REFUSED, "statically linked");
	ck_assert_int_eq(wait_for(&child), 128 + SIGKILL);
}
END_TEST

/* A point that was met is not taken for the program's own trap, which would end it. */
START_TEST(what_it_stopped_for_cannot_be_read)
{
	bool parked;
	failing_looks = 1;
	struct child child = child_start(seven, PARK_DEBUG_REGISTER);
	ck_no_err(park(&child, &parked));
	ck_assert(parked);
	ck_no_err(leave(&child));
	ck_assert_int_eq(wait_for(&child), 7);
	failing_looks = 2;
	child = child_start(seven, PARK_DEBUG_REGISTER);
	ck_err_says(park(&child, &parked), HT_ERR_SYS, "cannot read the signal");
	ck_assert_int_eq(wait_for(&child), 128 + SIGKILL);
}
END_TEST

HT_SUITE("attach/park", met_by_a_debug_register, met_by_a_breakpoint, signals_meanwhile, no_program,
	dies_with_the_worker, what_it_stopped_for_cannot_be_read)
