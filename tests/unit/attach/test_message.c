/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages with descriptors: all descriptors arrive, or as many as this process has numbers for;
 * and the wait for a message.
 */
#include "attach/helper/message.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "tests/support/ht_check.h"

#define SENT 3u

static void make_pair(int ret[2])
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret), 0);
}

static ino_t inode_of(int fd)
{
	struct stat status;
	ck_assert_int_eq(fstat(fd, &status), 0);
	return status.st_ino;
}

/* Sends SENT descriptors, which are not the same file. */
static void send_some(int socket, int ret_fd[SENT])
{
	static const char word[] = "word";
	for (size_t i = 0; i < SENT; i += 2) {
		int pipe_fds[2];
		ck_assert_int_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
		ret_fd[i] = pipe_fds[0];
		if (i + 1 < SENT)
			ret_fd[i + 1] = pipe_fds[1];
	}
	ck_assert_int_eq(message_send(socket, word, sizeof(word), ret_fd, SENT, 0), sizeof(word));
}

HT_TEST(descriptors_arrive_in_order)
{
	int pair[2], sent[SENT], got[MESSAGE_FDS_MAX];
	char word[16];
	size_t count = HT_ARRAY_SIZE(got);
	make_pair(pair);
	send_some(pair[0], sent);
	ck_assert_int_eq(message_receive(pair[1], word, sizeof(word), got, &count, 0), 5);
	ck_assert_str_eq(word, "word");
	ck_assert_uint_eq(count, SENT);
	for (size_t i = 0; i < SENT; i++) {
		ck_assert_int_ne(got[i], sent[i]);
		ck_assert_uint_eq(inode_of(got[i]), inode_of(sent[i]));
		ck_assert_int_eq(fcntl(got[i], F_GETFD), FD_CLOEXEC);
	}
}

HT_TEST(no_more_than_there_is_room_for)
{
	int pair[2], sent[SENT], got[SENT] = {-1, -1, -1};
	char word[16];
	size_t count = 1;
	make_pair(pair);
	send_some(pair[0], sent);
	ck_assert_int_eq(message_receive(pair[1], word, sizeof(word), got, &count, 0), 5);
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_eq(inode_of(got[0]), inode_of(sent[0]));
	ck_assert_int_eq(got[1], -1);
}

HT_TEST(no_number_is_left)
{
	int pair[2], sent[SENT], got[SENT];
	char word[16];
	size_t count = SENT;
	struct rlimit limit, none;
	make_pair(pair);
	send_some(pair[0], sent);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){0, limit.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ssize_t bytes = message_receive(pair[1], word, sizeof(word), got, &count, 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(bytes, 5);
	ck_assert_uint_eq(count, 0);
}

HT_TEST(without_descriptors)
{
	int pair[2], got[1];
	char word[16];
	size_t count = 1;
	make_pair(pair);
	ck_assert_int_eq(message_send(pair[0], "ab", 2, NULL, 0, 0), 2);
	ck_assert_int_eq(message_receive(pair[1], word, sizeof(word), got, &count, 0), 2);
	ck_assert_uint_eq(count, 0);
	count = 1;
	ck_assert_int_eq(
		message_receive(pair[1], word, sizeof(word), got, &count, MSG_DONTWAIT), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_uint_eq(count, 0);
	close(pair[0]);
	ck_assert_int_eq(message_receive(pair[1], word, sizeof(word), got, &count, 0), 0);
	/* No SIGPIPE. */
	ck_assert_int_eq(message_send(pair[1], "ab", 2, NULL, 0, 0), -1);
	ck_assert_int_eq(errno, EPIPE);
}

HT_TEST(too_many)
{
	int pair[2], fd[MESSAGE_FDS_MAX + 1] = {0};
	make_pair(pair);
	ck_assert_int_eq(message_send(pair[0], "ab", 2, fd, HT_ARRAY_SIZE(fd), 0), -1);
	ck_assert_int_eq(errno, EINVAL);
}

HT_TEST(awaited_until_a_deadline)
{
	int pair[2];
	make_pair(pair);
	ck_assert(!message_await(pair[0], 0));
	ck_assert_int_eq(write(pair[1], "b", 1), 1);
	ck_assert(message_await(pair[0], clock_mono_ns() + 60 * CLOCK_NS_PER_S));
	close(pair[1]);
	ck_assert(message_await(pair[0], 0));
}

HT_SUITE("attach/helper/message")
