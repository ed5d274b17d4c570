/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/lock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static socklen_t name_of(const struct proc *proc, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	/* A leading NUL: the abstract namespace, where no file stays behind. */
	int length = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "heaptap-%d-%lu",
		proc->pid, (unsigned long)proc->start_ticks);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

bool lock_is_held(const struct proc *proc)
{
	struct sockaddr_un addr;
	socklen_t bytes = name_of(proc, &addr);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool held = fd >= 0 && connect(fd, (struct sockaddr *)&addr, bytes) == 0;
	if (fd >= 0)
		close(fd);
	return held;
}

struct ht_err *lock_take(const struct proc *proc, int *ret)
{
	struct sockaddr_un addr;
	socklen_t bytes = name_of(proc, &addr);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return ht_err_sys(errno, "cannot make a socket");
	if (bind(fd, (struct sockaddr *)&addr, bytes) == 0) {
		*ret = fd;
		return NULL;
	}
	close(fd);
	return ht_err_new(HT_ERR_REFUSED,
		"process %d is in the hands of another heaptap (or of the guardian of one that was "
		"killed, "
		"which will be done in a moment)",
		proc->pid);
}
