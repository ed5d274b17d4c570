/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/blocked.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ht_check.h"

volatile long *blocked_note;

long blocked_epoll(void)
{
	struct epoll_event event;
	return epoll_wait(epoll_create1(0), &event, 1, -1);
}

long blocked_epoll_timed(void)
{
	struct epoll_event event;
	return epoll_wait(epoll_create1(0), &event, 1, BLOCKED_S * 1000);
}

long blocked_nanosleep(void)
{
	return nanosleep(&(struct timespec){.tv_sec = BLOCKED_S}, NULL);
}

long blocked_poll(void)
{
	return poll(NULL, 0, BLOCKED_S * 1000);
}

long blocked_ppoll(void)
{
	return ppoll(NULL, 0, &(struct timespec){.tv_sec = BLOCKED_S}, NULL);
}

long blocked_select(void)
{
	return select(0, NULL, NULL, NULL, &(struct timeval){.tv_sec = BLOCKED_S});
}

static int timed_socket(int type, int option)
{
	static const struct timeval timeout = {.tv_sec = BLOCKED_S};
	int pair[2];
	if (socketpair(AF_UNIX, type, 0, pair) < 0 ||
		setsockopt(pair[0], SOL_SOCKET, option, &timeout, sizeof(timeout)) < 0)
		return -1;
	return pair[0];
}

long blocked_recv(void)
{
	char byte;
	return recv(timed_socket(SOCK_STREAM, SO_RCVTIMEO), &byte, 1, 0);
}

long blocked_read(void)
{
	char byte;
	return read(timed_socket(SOCK_SEQPACKET, SO_RCVTIMEO), &byte, 1);
}

long blocked_send(void)
{
	static char bytes[1 << 16];
	int fd = timed_socket(SOCK_STREAM, SO_SNDTIMEO);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	return send(fd, bytes, sizeof(bytes), 0);
}

long blocked_accept(void)
{
	static const struct timeval timeout = {.tv_sec = BLOCKED_S};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un any = {.sun_family = AF_UNIX};
	if (bind(fd, (void *)&any, sizeof(any.sun_family)) < 0 || listen(fd, 1) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0)
		return -1;
	return accept(fd, NULL, NULL);
}

long blocked_pipe(void)
{
	int ends[2];
	char byte;
	return pipe(ends) < 0 ? -1 : read(ends[0], &byte, 1);
}

long blocked_sigtimedwait(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return sigtimedwait(&set, NULL, &(struct timespec){.tv_sec = BLOCKED_S});
}

long blocked_semop(void)
{
	int id = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf down = {.sem_op = -1};
	if (blocked_note)
		*blocked_note = id;
	return semtimedop(id, &down, 1, &(struct timespec){.tv_sec = BLOCKED_S});
}

long blocked_futex(void)
{
	static int word;
	return syscall(SYS_futex, &word, 0 /* FUTEX_WAIT */, 0,
		&(struct timespec){.tv_sec = BLOCKED_S}, NULL, 0);
}

_Noreturn void blocked_wait_for_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	child_wait();
}

long blocked_waitpid(void)
{
	pid_t child = fork();
	if (child == 0)
		blocked_wait_for_parent();
	return waitpid(child, NULL, 0);
}
