/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/helper/inherited.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "attach/proc/procfs.h"
#include "format/abi_control.h"

#define MIB		1048576ul
#define DESCRIPTORS_MIN 30u /* a capture uses 13 at once, and 12 more for its control clients */
/* Room for the agent's memory, and for a child's image while the child is cleaned. */
#define ADDRESS_SPACE_MIN (2 * abi_image_bytes(ABI_SLOT_MAX) + 256 * MIB)
#define DATA_MIN	  (64 * MIB) /* a capture of a Java program uses at most 10 MiB */
#define STACK_MIN	  MIB	     /* a capture of a small program uses 128 KiB */

static bool is_stand_in[STDERR_FILENO + 1];

struct ht_err *inherited_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* open takes the lowest free number. */
		if (open("/", O_PATH) != fd)
			return ht_err_sys(
				errno, "descriptor %d is closed, and cannot be opened", fd);
		is_stand_in[fd] = true;
	}
	return NULL;
}

void inherited_give_back_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (is_stand_in[fd])
			close(fd);
}

struct ht_err *inherited_leave_descriptors(int keep_fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return ht_err_sys(errno, "cannot open /dev/null");
	if (dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return ht_err_sys(errno, "cannot leave the command's input and output");
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return ht_err_sys(errno, "cannot list heaptap's descriptors");
	for (const struct dirent *entry; (entry = readdir(dir));) {
		int fd = (int)strtol(entry->d_name, NULL, 10);
		if (fd > STDERR_FILENO && fd != keep_fd && fd != dirfd(dir))
			close(fd);
	}
	closedir(dir);
	return NULL;
}

void inherited_ending_signals(sigset_t *ret)
{
	struct sigaction hangup;

	sigemptyset(ret);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGTERM);
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
		sigaddset(ret, SIGHUP);
}

int inherited_open_signals(void)
{
	sigset_t set;
	inherited_ending_signals(&set);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void inherited_signals(void)
{
	sigset_t set;

	inherited_ending_signals(&set);
	/* See usersignals.h. */
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
}

void inherited_parent_signals(void)
{
	inherited_signals();
	signal(SIGQUIT, SIG_IGN);
}

static rlim_t open_count(void)
{
	rlim_t count = 0;
	DIR *dir = opendir("/proc/self/fd");
	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

/* Columns of /proc/self/statm. */
enum { IN_ALL = 0, IN_DATA = 5, IN_COUNT };

static rlim_t in_use(size_t column)
{
	unsigned long pages[IN_COUNT + 1] = {0};
	FILE *file = fopen("/proc/self/statm", "re");
	for (size_t i = 0; file && i <= column; i++)
		if (fscanf(file, "%lu", &pages[i]) != 1)
			break;
	if (file)
		fclose(file);
	return pages[column] * HT_PAGE_BYTES;
}

static struct ht_err *check_descriptors(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return NULL;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
		limit.rlim_cur >= open_count() + DESCRIPTORS_MIN)
		return NULL;
	return ht_err_new(HT_ERR_REFUSED,
		"heaptap itself may open only %lu files, too few; raise the limit (ulimit -n)",
		(unsigned long)limit.rlim_cur);
}

/* The guardian has the same limit: it would crash where heaptap has crashed, and the target would
 * stay hooked. */
static struct ht_err *check_stack(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_MIN)
		return NULL;
	limit.rlim_cur = limit.rlim_max < STACK_MIN ? limit.rlim_max : STACK_MIN;
	if (setrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur == STACK_MIN)
		return NULL;
	return ht_err_new(HT_ERR_REFUSED,
		"heaptap itself may have a stack of only %lu KiB, and needs %lu; raise "
		"the limit (ulimit -s)",
		(unsigned long)limit.rlim_cur / 1024, STACK_MIN / 1024);
}

static struct ht_err *check_memory(
	int resource, size_t column, rlim_t needed, const char *what, const char *option)
{
	struct rlimit limit;
	if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 ||
		limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= in_use(column) + needed)
		return NULL;
	return ht_err_new(HT_ERR_REFUSED,
		"heaptap itself may use only %lu MiB of %s, and needs %lu MiB more than it has "
		"now; raise the limit (ulimit %s)",
		(unsigned long)limit.rlim_cur / MIB, what, (unsigned long)needed / MIB, option);
}

struct ht_err *inherited_check_room(void)
{
	HT_TRY(procfs_check());
	HT_TRY(check_descriptors());
	HT_TRY(check_stack());
	HT_TRY(check_memory(RLIMIT_AS, IN_ALL, ADDRESS_SPACE_MIN, "address space", "-v"));
	return check_memory(RLIMIT_DATA, IN_DATA, DATA_MIN, "data", "-d");
}
