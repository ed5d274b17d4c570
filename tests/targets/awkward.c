/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that does to a profiler what programs do. Commands:
 *
 *      fork       a child goes on, allocates without end, and ends with this process; answers its
 *                 PID
 *      take       closes every descriptor from 3 on and opens its own in their place
 *      check      "fine" when all of these are still open, with nothing in them but its own byte
 *      filter     enters a seccomp filter that kills for all but a few calls
 *      doze N     sleeps N times, and for as long as it wanted to
 *      null N     N threads that do nothing but free(NULL)
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <signal.h>
#include <time.h>

#include "tests/targets/speak.h"

#define FD_LO  3
#define FD_HI  1010
#define NAP_NS 20000000

static void work(void)
{
	for (unsigned i = 0; i < 50; i++)
		free(malloc(16 + i));
	usleep(100);
}

static void fork_child(void)
{
	pid_t parent = getpid(), child = fork();
	if (child < 0)
		speak_fail("no child");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			work();
		_exit(0);
	}
	speak_add("%d", child);
}

static void take_descriptors(void)
{
	closefrom(FD_LO);
	int file = memfd_create("own", 0);
	if (write(file, "x", 1) != 1)
		speak_fail("no file");
	for (int fd = FD_LO; fd < FD_HI; fd++)
		if (fd != file && dup2(file, fd) != fd)
			speak_fail("no descriptor %d", fd);
	speak_add("taken");
}

static void check_descriptors(void)
{
	struct stat stat;
	for (int fd = FD_LO; fd < FD_HI; fd++)
		if (fstat(fd, &stat) || stat.st_size != 1)
			speak_fail("descriptor %d is not what it was", fd);
	speak_add("fine");
}

static void enter_filter(void)
{
	static const unsigned allowed[] = {SYS_read, SYS_write, SYS_brk, SYS_mmap,
		SYS_clock_nanosleep, SYS_rt_sigreturn, SYS_exit_group};
	enum { COUNT = sizeof(allowed) / sizeof(allowed[0]) };
	struct sock_filter code[COUNT + 3] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	for (unsigned i = 0; i < COUNT; i++)
		code[i + 1] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, allowed[i], (uint8_t)(COUNT - i), 0);
	code[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET, SECCOMP_RET_KILL_PROCESS);
	code[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {COUNT + 3, code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		speak_fail("no filter");
	speak_add("filtered");
}

/* The filter forbids restart_syscall(2), and a sleep that is cut short ends the program. */
static void doze(unsigned long naps)
{
	struct timespec begin, end, nap = {.tv_nsec = NAP_NS};
	for (; naps > 0; naps--) {
		clock_gettime(CLOCK_MONOTONIC, &begin);
		int error = clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		clock_gettime(CLOCK_MONOTONIC, &end);
		long long took =
			(end.tv_sec - begin.tv_sec) * 1000000000ll + end.tv_nsec - begin.tv_nsec;
		if (error || took < NAP_NS)
			speak_fail("a nap of %lld ns: errno %d", took, error);
		work();
	}
	speak_add("dozed");
}

static void *free_null(void *arg)
{
	void *volatile null = arg;
	free(malloc(1));
	for (;;)
		free(null);
	return NULL;
}

int main(void)
{
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		for (unsigned i = 0; i < 100; i++)
			work();
		if (!strcmp(command, "fork"))
			fork_child();
		else if (!strcmp(command, "take"))
			take_descriptors();
		else if (!strcmp(command, "check"))
			check_descriptors();
		else if (!strcmp(command, "filter"))
			enter_filter();
		else if (!strncmp(command, "doze ", 5))
			doze(strtoul(command + 5, NULL, 10));
		else if (!strncmp(command, "null ", 5))
			for (unsigned long i = strtoul(command + 5, NULL, 10); i > 0; i--)
				pthread_create(&(pthread_t){0}, NULL, free_null, NULL);
		speak_send();
	}
	_exit(0);
}
