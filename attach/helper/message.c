/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/helper/message.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "attach/proc/clock.h"

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(MESSAGE_FDS_MAX * sizeof(int))];
};

ssize_t message_send(
	int socket, const void *data, size_t bytes, const int *fd, size_t fd_count, int flags)
{
	union control control = {0};
	struct iovec iov = {.iov_base = (void *)data, .iov_len = bytes};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t sent;
	if (fd_count > MESSAGE_FDS_MAX) {
		errno = EINVAL;
		return -1;
	}
	if (fd_count) {
		header.msg_control = control.space;
		header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(rights), fd, fd_count * sizeof(int));
	}
	do
		sent = sendmsg(socket, &header, flags | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent;
}

ssize_t message_receive(
	int socket, void *data, size_t bytes, int *ret_fd, size_t *fd_count, int flags)
{
	union control control;
	struct iovec iov = {.iov_base = data, .iov_len = bytes};
	struct msghdr header;
	size_t room = *fd_count < MESSAGE_FDS_MAX ? *fd_count : MESSAGE_FDS_MAX;
	ssize_t got;
	do {
		header = (struct msghdr){.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control.space,
			.msg_controllen = CMSG_LEN(room * sizeof(int))};
		got = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	const struct cmsghdr *rights = got < 0 ? NULL : CMSG_FIRSTHDR(&header);
	bool has = rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS;
	*fd_count = has ? (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
	if (*fd_count)
		memcpy(ret_fd, CMSG_DATA(rights), *fd_count * sizeof(int));
	return got;
}

/* Milliseconds until the deadline, rounded up, so that poll does not spin in the last one. */
static int poll_timeout_ms(uint64_t deadline_mono_ns)
{
	uint64_t now = clock_mono_ns();
	if (now >= deadline_mono_ns)
		return 0;
	return (int)((deadline_mono_ns - now + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS);
}

bool message_await(int fd, uint64_t deadline_mono_ns)
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
