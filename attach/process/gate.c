/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/gate.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#define LINGER "heaptap-linger"

socklen_t gate_address(const struct proc *proc, const char *prefix, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	/* A leading NUL: the abstract namespace. */
	int length = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "%s-%d-%lu", prefix,
		proc->pid, (unsigned long)proc->start_ticks);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

int gate_open(const struct proc *proc)
{
	struct sockaddr_un addr;
	socklen_t bytes = gate_address(proc, LINGER, &addr);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&addr, bytes) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void gate_knock(const struct proc *proc)
{
	struct sockaddr_un addr;
	socklen_t bytes = gate_address(proc, LINGER, &addr);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	(void)!sendto(fd, "", 1, MSG_NOSIGNAL, (struct sockaddr *)&addr, bytes);
	close(fd);
}
