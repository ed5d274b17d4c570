/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits on sockets, with a timeout of the socket and without.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "tests/targets/waits/waits.h"

static void set_timeout(int fd, int option)
{
	struct timeval time = {waits_ms / 1000, waits_ms % 1000 * 1000l};
	waits_check(setsockopt(fd, SOL_SOCKET, option, &time, sizeof(time)) == 0, "setsockopt");
}

static void make_pair(void)
{
	waits_check(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, waits_fd) == 0, "socketpair");
}

static void make_pair_timed(void)
{
	make_pair();
	set_timeout(waits_fd[0], SO_RCVTIMEO);
	set_timeout(waits_fd[0], SO_SNDTIMEO);
}

static void make_pair_full(void)
{
	make_pair();
	waits_fill(waits_fd[0]);
}

static void make_pair_full_timed(void)
{
	make_pair_timed();
	waits_fill(waits_fd[0]);
}

static void write_byte(void)
{
	waits_check(write(waits_fd[1], "", 1) == 1, "write");
}

/* Reads everything: the kernel wakes a writer only when much of its buffer is free. */
static void read_all(void)
{
	static char bytes[65536];
	fcntl(waits_fd[1], F_SETFL, O_NONBLOCK);
	while (read(waits_fd[1], bytes, sizeof(bytes)) > 0)
		;
}

static long in_recv(void)
{
	char byte;
	return recv(waits_fd[0], &byte, 1, 0);
}

static long in_recvfrom(void)
{
	char byte;
	struct sockaddr_un from;
	socklen_t length = sizeof(from);
	return recvfrom(waits_fd[0], &byte, 1, 0, (struct sockaddr *)&from, &length);
}

static long in_read(void)
{
	char byte;
	return read(waits_fd[0], &byte, 1);
}

static long in_recvmsg(void)
{
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	return recvmsg(waits_fd[0], &header, 0);
}

static long in_recvmmsg(void)
{
	char byte;
	struct iovec iov = {&byte, 1};
	struct mmsghdr header = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};
	struct timespec time = waits_time();
	return recvmmsg(waits_fd[0], &header, 1, 0, &time);
}

static long in_send(void)
{
	return send(waits_fd[0], "x", 1, 0);
}

static long in_sendmsg(void)
{
	struct iovec iov = {"x", 1};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	return sendmsg(waits_fd[0], &header, 0);
}

static long in_sendmmsg(void)
{
	struct iovec iov = {"x", 1};
	struct mmsghdr header = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};
	return sendmmsg(waits_fd[0], &header, 1, 0);
}

static long in_write(void)
{
	return write(waits_fd[0], "x", 1);
}

static long in_writev(void)
{
	struct iovec iov = {"x", 1};
	return writev(waits_fd[0], &iov, 1);
}

static long in_readv(void)
{
	char byte;
	struct iovec iov = {&byte, 1};
	return readv(waits_fd[0], &iov, 1);
}

/* Offset -1: preadv2 works like readv. */
static long in_preadv2(void)
{
	char byte;
	struct iovec iov = {&byte, 1};
	return preadv2(waits_fd[0], &iov, 1, -1, 0);
}

static long in_pwritev2(void)
{
	struct iovec iov = {"x", 1};
	return pwritev2(waits_fd[0], &iov, 1, -1, 0);
}

static void make_pair_timed_and_pipe(void)
{
	make_pair_timed();
	waits_check(pipe2(waits_fd + 2, O_CLOEXEC) == 0, "pipe2");
}

static long in_splice(void)
{
	return splice(waits_fd[0], NULL, waits_fd[3], NULL, 1, 0);
}

static struct sockaddr_un address;
static socklen_t address_length = sizeof(address);

static void make_listener(void)
{
	waits_fd[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	address.sun_family = AF_UNIX;
	waits_check(
		bind(waits_fd[0], (struct sockaddr *)&address, sizeof(sa_family_t)) == 0 &&
			listen(waits_fd[0], 0) == 0 &&
			getsockname(waits_fd[0], (struct sockaddr *)&address, &address_length) == 0,
		"listen");
}

static void make_listener_timed(void)
{
	make_listener();
	set_timeout(waits_fd[0], SO_RCVTIMEO);
}

static int connect_once(int flags)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	return connect(fd, (struct sockaddr *)&address, address_length);
}

static void connect_to_it(void)
{
	waits_check(connect_once(0) == 0, "connect");
}

static long in_accept(void)
{
	return accept(waits_fd[0], NULL, NULL) < 0 ? -1 : 0;
}

static long in_accept4(void)
{
	return accept4(waits_fd[0], NULL, NULL, SOCK_CLOEXEC) < 0 ? -1 : 0;
}

static void make_full_listener(void)
{
	make_listener();
	while (connect_once(SOCK_NONBLOCK) == 0)
		;
	waits_check(errno == EAGAIN, "filling a backlog");
	waits_fd[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static void make_full_listener_timed(void)
{
	make_full_listener();
	set_timeout(waits_fd[1], SO_SNDTIMEO);
}

static long in_connect(void)
{
	return connect(waits_fd[1], (struct sockaddr *)&address, address_length);
}

static void accept_one(void)
{
	waits_check(accept(waits_fd[0], NULL, NULL) >= 0, "accept");
}

const struct waits_case waits_socket[] = {
	{.name = "recv", make_pair, in_recv, write_byte},
	{.name = "recv-timed", make_pair_timed, in_recv},
	{.name = "recvfrom-timed", make_pair_timed, in_recvfrom},
	{.name = "read-socket-timed", make_pair_timed, in_read},
	{.name = "readv-socket-timed", make_pair_timed, in_readv},
	{.name = "recvmsg", make_pair, in_recvmsg, write_byte},
	{.name = "recvmsg-timed", make_pair_timed, in_recvmsg},
	{.name = "recvmmsg", make_pair, in_recvmmsg, write_byte},
	{.name = "recvmmsg-timed", make_pair_timed, in_recvmmsg},
	{.name = "send", make_pair_full, in_send, read_all},
	{.name = "send-timed", make_pair_full_timed, in_send},
	{.name = "sendmsg-timed", make_pair_full_timed, in_sendmsg},
	{.name = "sendmmsg-timed", make_pair_full_timed, in_sendmmsg},
	{.name = "write-socket-timed", make_pair_full_timed, in_write},
	{.name = "writev-socket-timed", make_pair_full_timed, in_writev},
	{.name = "preadv2-socket-timed", make_pair_timed, in_preadv2},
	{.name = "pwritev2-socket-timed", make_pair_full_timed, in_pwritev2},
	{.name = "splice-socket-timed", make_pair_timed_and_pipe, in_splice},
	{.name = "accept", make_listener, in_accept, connect_to_it},
	{.name = "accept-timed", make_listener_timed, in_accept},
	{.name = "accept4-timed", make_listener_timed, in_accept4},
	{.name = "connect", make_full_listener, in_connect, accept_one},
	{.name = "connect-timed", make_full_listener_timed, in_connect},
	{0},
};
