/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proc/proc.h"

#include <poll.h>

struct ht_err *proc_gone(const struct proc *proc)
{
	return ht_err_new(HT_ERR_TARGET_GONE, "process %d has ended", proc->pid);
}

bool proc_has_exited(const struct proc *proc)
{
	struct pollfd poll_fd = {.fd = proc->pidfd, .events = POLLIN};
	return poll(&poll_fd, 1, 0) == 1 && poll_fd.revents != 0;
}
