/* SPDX-License-Identifier: Apache-2.0
 *
 * A program whose only thread waits with a timeout, which heaptap stops only when the wait has just
 * begun: a command that comes while heaptap waits for that is executed after heaptap's checks, and
 * directly before its stub. Commands:
 *
 *      work            allocates and frees 100 blocks; all commands do, and answer "done"
 *      load            allocates and frees 100,000 blocks
 *      filter CALL     installs a seccomp filter that kills at CALL, memfd_create or munmap
 *      take            puts a file of its own on the descriptor of heaptap's socket in this process
 *      check           fails unless that file is still there
 *      dispatch        has the kernel raise SIGSYS, which it does not catch, at system calls from
 *                      outside libc (Syscall User Dispatch)
 *      undispatch      ends that
 *      limit MIB       limits the size of files that it writes
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/targets/speak.h"

#define WAIT_MS 20000

static int own_fd = -1;
static ino_t own_inode;

static void work(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++)
		free(malloc(16 + i));
}

static void enter_filter(unsigned call)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET, SECCOMP_RET_KILL_PROCESS), BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		speak_fail("no filter: errno %d", errno);
}

/* The only socket in this process is heaptap's. */
static void take(void)
{
	struct stat stat;
	for (int fd = 3; own_fd < 0 && fd < 1024; fd++)
		if (fstat(fd, &stat) == 0 && S_ISSOCK(stat.st_mode))
			own_fd = fd;
	int file = memfd_create("own", 0);
	if (own_fd < 0 || file < 0 || dup2(file, own_fd) != own_fd || fstat(own_fd, &stat))
		speak_fail("nothing to take: errno %d", errno);
	own_inode = stat.st_ino;
	close(file);
}

static void check(void)
{
	struct stat stat;
	if (fstat(own_fd, &stat) || stat.st_ino != own_inode)
		speak_fail("descriptor %d is not this program's own any more", own_fd);
}

/* Calls from libc are not dispatched, as those of Wine itself are not. */
static void dispatch(void)
{
	static volatile char selector = SYSCALL_DISPATCH_FILTER_BLOCK;
	unsigned long lo, hi;
	char perms[5], line[512];
	FILE *maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "/libc") && sscanf(line, "%lx-%lx %4s", &lo, &hi, perms) == 3 &&
			!strcmp(perms, "r-xp"))
			break;
	if (!maps || fclose(maps) ||
		prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, lo, hi - lo, &selector))
		speak_fail("no dispatch: errno %d", errno);
}

static void limit(rlim_t mebibytes)
{
	struct rlimit now;
	if (getrlimit(RLIMIT_FSIZE, &now))
		speak_fail("no limit: errno %d", errno);
	now.rlim_cur = mebibytes << 20;
	if (setrlimit(RLIMIT_FSIZE, &now))
		speak_fail("no limit: errno %d", errno);
}

int main(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN};
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event))
		speak_fail("no epoll");
	speak_ready();
	for (;;) {
		if (epoll_wait(epoll, &event, 1, WAIT_MS) <= 0)
			continue;
		const char *command = speak_hear();
		if (!strcmp(command, "stop"))
			break;
		work(100);
		if (!strcmp(command, "filter memfd_create"))
			enter_filter(SYS_memfd_create);
		else if (!strcmp(command, "filter munmap"))
			enter_filter(SYS_munmap);
		else if (!strcmp(command, "take"))
			take();
		else if (!strcmp(command, "dispatch"))
			dispatch();
		else if (!strcmp(command, "undispatch"))
			prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
		else if (!strncmp(command, "limit ", 6))
			limit(strtoul(command + 6, NULL, 10));
		else if (!strcmp(command, "load"))
			work(100000);
		else if (!strcmp(command, "check"))
			check();
		speak_add("done");
		speak_send();
	}
	_exit(0);
}
