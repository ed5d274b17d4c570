/* SPDX-License-Identifier: Apache-2.0 */
#include "format/helper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/clock.h"

#define LOOK_MS 1

extern char **environ;

pid_t helper_fork(int death_signal)
{
	const pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, death_signal);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

struct ht_err *helper_fork_pair(const char *what, pid_t *ret_pid, int *ret_fd)
{
	int pair[2];
	*ret_pid = *ret_fd = -1;
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
	*ret_fd = -1;
	return ht_err_sys(sys, "cannot fork %s", what);
}

pid_t helper_spawn_self(char *const argv[], bool is_silent)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none;
	pid_t pid = 0;
	sigemptyset(&none);
	if (posix_spawnattr_init(&attributes) != 0)
		return 0;
	if (posix_spawn_file_actions_init(&files) == 0) {
		posix_spawnattr_setsigmask(&attributes, &none);
		posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
		for (int fd = STDIN_FILENO; is_silent && fd <= STDERR_FILENO; fd++)
			posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
		/* Not argv[0]: another file may have this program's path by now. */
		if (posix_spawn(&pid, "/proc/self/exe", &files, &attributes, argv, environ) != 0)
			pid = 0;
		posix_spawn_file_actions_destroy(&files);
	}
	posix_spawnattr_destroy(&attributes);
	return pid;
}

/* --- in the child --- */

static int compare_fds(const void *a, const void *b)
{
	const int *left = a, *right = b;
	return (*left > *right) - (*left < *right);
}

/* close_range is not known to every kernel (before 5.9), and forbidden in some containers. */
static bool close_span(int from, int to)
{
	if (from > to || close_range((unsigned)from, (unsigned)to, 0) == 0)
		return true;
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return false;
	for (const struct dirent *entry; (entry = readdir(dir));) {
		int fd = (int)strtol(entry->d_name, NULL, 10);
		if (entry->d_name[0] != '.' && fd >= from && fd <= to && fd != dirfd(dir))
			close(fd);
	}
	closedir(dir);
	return true;
}

bool helper_close_all_but(int *kept, size_t count)
{
	int from = 0;
	qsort(kept, count, sizeof(*kept), compare_fds);
	for (size_t i = 0; i < count; i++) {
		if (kept[i] < 0)
			continue;
		if (!close_span(from, kept[i] - 1))
			return false;
		from = kept[i] + 1;
	}
	return close_span(from, INT_MAX);
}

void helper_silence(int fd)
{
	const int null = open("/dev/null", O_RDWR);
	if (null < 0 || null == fd)
		return;
	dup2(null, fd);
	close(null);
}

void helper_reset_signals(void)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
}

/* --- in the parent --- */

int helper_wait(pid_t pid)
{
	int status;
	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			return -1;
	return status;
}

bool helper_has_ended(pid_t pid, int *ret_status)
{
	*ret_status = -1;
	const pid_t got = waitpid(pid, ret_status, WNOHANG);
	return got == pid || (got < 0 && errno != EINTR);
}

bool helper_ends_within(pid_t pid, uint64_t patience_ns)
{
	int status;
	for (uint64_t looks = patience_ns / CLOCK_NS_PER_MS; !helper_has_ended(pid, &status);
		looks--) {
		if (!looks)
			return false;
		poll(NULL, 0, LOOK_MS);
	}
	return true;
}
