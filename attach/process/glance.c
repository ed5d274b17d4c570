/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/glance.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/fd.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/proc_status.h"

#define FULL_TURNS	 8u
#define STATUS_MAX_BYTES 8192u

void glance_open(struct glance *glance, const struct proc *proc)
{
	*glance = (struct glance){
		.proc = proc, .status_fd = openat(proc->dir_fd, "status", O_RDONLY | O_CLOEXEC)};
}

void glance_close(struct glance *glance)
{
	fd_close(&glance->status_fd);
}

/* False: the text was cut, lacks a line, or the thread has ended. */
static bool status_glance(int fd, struct glance_status *ret)
{
	char text[STATUS_MAX_BYTES];
	ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
	if (length <= 0 || length == (ssize_t)sizeof(text) - 1)
		return false;
	text[length] = '\0';
	const uint64_t seccomp = proc_file_number(text, "\nSeccomp:\t", 10, UINT64_MAX);
	const uint64_t tracer = proc_file_number(text, "\nTracerPid:\t", 10, UINT64_MAX);
	*ret = (struct glance_status){.seccomp = (int)seccomp,
		.tracer = (pid_t)tracer,
		.stack_kib = proc_file_number(text, "\nVmStk:\t", 10, 0)};
	return !strstr(text, "\nState:\tZ") && seccomp != UINT64_MAX && tracer != UINT64_MAX;
}

struct ht_err *glance_status(const struct glance *glance, struct glance_status *ret)
{
	struct proc_status status;
	/* An open file of /proc stays with its process, even if another gets the number. */
	if (glance->status_fd >= 0 && status_glance(glance->status_fd, ret))
		return NULL;
	HT_TRY(proc_status(glance->proc, 0, &status));
	*ret = (struct glance_status){.seccomp = status.seccomp, .tracer = status.tracer};
	return NULL;
}

static bool seems_same(const struct proc *proc)
{
	struct pollfd end = {.fd = proc->pidfd, .events = POLLIN};
	uint8_t byte;
	return proc->mem_fd >= 0 && poll(&end, 1, 0) == 0 &&
	       pread(proc->mem_fd, &byte, sizeof(byte), 0) != 0;
}

enum proc_change glance_changed(struct glance *glance)
{
	bool is_full = glance->turn++ % FULL_TURNS == 0;
	return !is_full && seems_same(glance->proc) ? PROC_SAME : proc_changed(glance->proc);
}
