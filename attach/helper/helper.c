/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/helper/helper.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/proc/clock.h"

struct ht_err *helper_fork(const char *what, pid_t *ret_pid, int *ret_fd)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return ht_err_sys(errno, "cannot make a socket pair for %s", what);
	*ret_pid = fork();
	int sys = errno;
	bool is_parent = *ret_pid != 0;
	close(pair[is_parent]);
	*ret_fd = pair[!is_parent];
	if (*ret_pid >= 0)
		return NULL;
	close(*ret_fd);
	return ht_err_sys(sys, "cannot fork %s", what);
}

/* Milliseconds until the deadline, rounded up, so that poll does not spin in the last one. */
static int poll_timeout_ms(uint64_t deadline_mono_ns)
{
	uint64_t now = clock_mono_ns();
	if (now >= deadline_mono_ns)
		return 0;
	return (int)((deadline_mono_ns - now + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS);
}

bool helper_wait_readable(int fd, uint64_t deadline_mono_ns)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	for (;;) {
		int timeout = poll_timeout_ms(deadline_mono_ns);
		int ready = poll(&wait, 1, timeout);
		if (ready > 0)
			return true;
		if (ready == 0 && timeout == 0)
			return false;
	}
}

bool helper_reap_by(pid_t pid, uint64_t deadline_mono_ns)
{
	for (;;) {
		pid_t got = waitpid(pid, NULL, WNOHANG);
		if (got == pid || (got < 0 && errno != EINTR))
			return true;
		if (clock_mono_ns() > deadline_mono_ns)
			return false;
		clock_sleep_ns(CLOCK_NS_PER_MS);
	}
}

int helper_reap(pid_t pid)
{
	int status;
	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			return -1;
	return status;
}
