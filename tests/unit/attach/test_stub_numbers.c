/* SPDX-License-Identifier: Apache-2.0
 *
 * Other threads of a program can put files of their own on the numbers of descriptors that the stub
 * has just made. Here the test, as tracer, makes the stub's thread itself do so between two calls.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/stub/stub.h"
#include "format/abi_control.h"
#include "tests/support/child.h"
#include "tests/support/cpu.h"
#include "tests/support/ht_check.h"

#define IMAGE_BYTES abi_image_bytes(2u)
#define FD_FLOOR    100
#define NOWHERE	    (1ull << 45)

static void *page;
static int own_fd;

static void target(const void *arg)
{
	(void)arg;
	child_ready(0);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	cpu_enter(page, cpu_odd_fx());
	raise(SIGSTOP);
	child_wait();
}

/* Puts a stub at place(), whose lease is over at once. */
static void put_stub(void)
{
	static struct stub stub;
	struct stub_map map = {.image = NOWHERE,
		.image_bytes = IMAGE_BYTES,
		.fd_floor = FD_FLOOR,
		.name = "heaptap-test"};
	struct stub_thread thread = {.resume = cpu_odd_regs()};

	page = mmap(
		NULL, HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(page, MAP_FAILED);
	ck_no_err(stub_make_map(&map, (raddr_t)(uintptr_t)page, &thread, &stub));
	memcpy(page, stub.bytes, stub.length);
	ck_assert_int_eq(mprotect(page, HT_PAGE_BYTES, PROT_READ | PROT_EXEC), 0);
}

static int wait_stop(pid_t pid)
{
	int status;
	ck_assert_int_eq(waitpid(pid, &status, __WALL), pid);
	ck_assert_msg(WIFSTOPPED(status), "status %x", status);
	return WSTOPSIG(status);
}

static void go_to_call(pid_t pid, struct user_regs_struct *ret)
{
	ck_assert_int_eq(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
	ck_assert_int_eq(wait_stop(pid), SIGTRAP | 0x80);
	ck_assert_int_eq(ptrace(PTRACE_GETREGS, pid, NULL, ret), 0);
}

/* Lets the thread run until `marks` calls of fcntl(F_SETSIG), by which the stub marks its files,
 * have returned. Returns the registers behind the last one. */
static struct user_regs_struct go_to_mark(pid_t pid, unsigned marks)
{
	struct user_regs_struct regs;
	while (marks) {
		go_to_call(pid, &regs);
		go_to_call(pid, &regs);
		marks -= regs.orig_rax == SYS_fcntl && regs.rsi == F_SETSIG;
	}
	return regs;
}

static void put_own_file_over(pid_t pid, const struct user_regs_struct *here, int fd)
{
	struct user_regs_struct regs = *here;
	regs.rip -= 2; /* the syscall instruction */
	regs.rax = SYS_dup2;
	regs.rdi = (unsigned long long)own_fd;
	regs.rsi = (unsigned long long)fd;
	ck_assert_int_eq(ptrace(PTRACE_SETREGS, pid, NULL, &regs), 0);
	go_to_call(pid, &regs);
	go_to_call(pid, &regs);
	ck_assert_int_eq((int)regs.rax, fd);
	ck_assert_int_eq(ptrace(PTRACE_SETREGS, pid, NULL, here), 0);
}

static bool has_fd(pid_t pid, int fd)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	return access(path, F_OK) == 0;
}

static struct child start(void)
{
	own_fd = memfd_create("own", MFD_CLOEXEC);
	ck_assert_int_eq(write(own_fd, "ten bytes.", 10), 10);
	put_stub();
	struct child child = child_fork(target, NULL);
	ck_assert_int_eq(wait_stop(child.pid), SIGSTOP);
	ck_assert_int_eq(ptrace(PTRACE_SETOPTIONS, child.pid, NULL,
				 PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL),
		0);
	return child;
}

/* Lets the stub end. Checks that it closed none of the program's files, and changed neither
 * descriptor nor file. */
static void check_own_file(struct child *child, int fd)
{
	struct stat st;
	ck_assert_int_eq(ptrace(PTRACE_CONT, child->pid, NULL, NULL), 0);
	ck_assert_int_eq(wait_stop(child->pid), SIGSTOP);
	ck_assert_int_eq(fstat(own_fd, &st), 0);
	ck_assert_int_eq(st.st_size, 10);
	ck_assert(has_fd(child->pid, fd));
	ck_assert(!has_fd(child->pid, FD_FLOOR));
	child_kill(child);
}

HT_TEST(no_file_of_the_program_gets_another_size)
{
	struct child child = start();
	struct user_regs_struct regs = go_to_mark(child.pid, 1);
	put_own_file_over(child.pid, &regs, (int)regs.r12);
	check_own_file(&child, (int)regs.r12);
}

HT_TEST(no_file_of_the_program_gets_another_descriptor)
{
	struct child child = start();
	struct user_regs_struct regs = go_to_mark(child.pid, 3);
	put_own_file_over(child.pid, &regs, (int)regs.r14);
	check_own_file(&child, (int)regs.r14);
}

HT_SUITE("attach/inject/stub_numbers")
