/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests on the control socket: valid, late, hostile, and very many.
 */
#include "attach/control/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

#define MANY 1000

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static struct server *server;
static int listener;
static uint64_t now_ns;

/* The handler's calls and last request, and whether the handler refuses requests. */
static struct {
	unsigned calls;
	struct control_request request;
	bool refuses;
} seen;

static void handle(void *context, const struct control_request *request, struct control_reply *ret)
{
	ck_assert_ptr_eq(context, &seen);
	seen.calls++;
	seen.request = *request;
	ret->ok = !seen.refuses;
	ret->pid = 4711;
}

static void begin(void)
{
	char *path = tmpdir_path("socket");
	ck_assert_uint_lt(strlen(path), sizeof(address.sun_path));
	memcpy(address.sun_path, path, strlen(path) + 1);
	free(path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(listener, 64), 0);
	memset(&seen, 0, sizeof(seen));
	now_ns = 1;
	server = server_create(listener, handle, &seen);
	ck_assert_ptr_nonnull(server);
}

static void end(void)
{
	server_destroy(server);
	close(listener);
	unlink(address.sun_path);
}

/* Returns -1 if the queue is full. */
static int connect_some(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(fd, 0);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	ck_assert_int_eq(errno, EAGAIN);
	close(fd);
	return -1;
}

static int client(const char *text)
{
	int fd = connect_some();
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
	return fd;
}

static void serve(void)
{
	server_serve(server, now_ns);
}

/* Returns false if nothing has come and the connection is open. */
static bool has_answer(int fd, struct control_reply *ret)
{
	static char line[CONTROL_LINE_MAX];
	ssize_t got = recv(fd, line, sizeof(line), MSG_DONTWAIT);
	if (got < 0 && errno == EAGAIN)
		return false;
	ck_assert_int_gt(got, 0);
	ck_assert_int_eq(line[got - 1], '\n');
	ck_assert_ptr_null(control_reply_parse(line, (size_t)got - 1, ret));
	return true;
}

static bool is_closed(int fd)
{
	char byte;
	ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
	return got == 0 || (got < 0 && errno != EAGAIN);
}

static struct control_reply answer_of(int fd)
{
	struct control_reply reply;
	ck_assert(has_answer(fd, &reply));
	ck_assert(is_closed(fd));
	close(fd);
	return reply;
}

HT_TEST(a_request_has_its_answer_and_the_connection_ends)
{
	begin();
	int fd = client("heaptap/1 mark text=a%20b\n");
	serve();
	ck_assert_uint_eq(seen.calls, 1);
	ck_assert_int_eq(seen.request.verb, CONTROL_MARK);
	ck_assert_mem_eq(seen.request.text, "a b", 3);
	struct control_reply reply = answer_of(fd);
	ck_assert(reply.ok);
	ck_assert_uint_eq(reply.pid, 4711);
	end();
}

HT_TEST(a_request_may_come_byte_by_byte)
{
	const char *text = "heaptap/1 status\n";
	begin();
	int fd = client("");
	for (const char *at = text; *at; at++) {
		serve();
		ck_assert_uint_eq(seen.calls, 0);
		ck_assert_int_eq(send(fd, at, 1, 0), 1);
	}
	serve();
	ck_assert_uint_eq(seen.calls, 1);
	ck_assert(answer_of(fd).ok);
	end();
}

/* An owner that does not poll regularly must poll while server_is_busy. */
HT_TEST(it_is_busy_while_a_request_is_awaited)
{
	begin();
	serve();
	ck_assert(!server_is_busy(server));
	int fd = client("heaptap/1 sta");
	serve();
	ck_assert(server_is_busy(server));
	ck_assert_int_eq(send(fd, "tus\n", 4, MSG_NOSIGNAL), 4);
	serve();
	ck_assert(!server_is_busy(server));
	close(fd);
	fd = client("heaptap/1 stop wait=1\n");
	serve();
	ck_assert_uint_eq(seen.calls, 2);
	ck_assert(!server_is_busy(server));
	close(fd);
	end();
}

HT_TEST(garbage_is_answered_with_what_is_wrong)
{
	static char large[CONTROL_LINE_MAX + 100];
	static const char *const garbage[] = {"\n", "GET / HTTP/1.1\r\n", "heaptap/9 status\n",
		"heaptap/1 explode\n", "\x01\xff\xfe\n"};
	begin();
	for (size_t i = 0; i < HT_ARRAY_SIZE(garbage); i++) {
		int fd = client(garbage[i]);
		serve();
		struct control_reply reply = answer_of(fd);
		ck_assert(!reply.ok);
		ck_assert_uint_ne(reply.exit_status, 0);
		ck_assert_str_ne(reply.message, "");
	}
	memset(large, 'x', sizeof(large) - 1);
	int fd = client(large);
	serve();
	ck_assert_ptr_nonnull(strstr(answer_of(fd).message, "too long"));
	ck_assert_uint_eq(seen.calls, 0);
	end();
}

HT_TEST(one_request_a_connection)
{
	begin();
	int fd = client("heaptap/1 status\nheaptap/1 stop\n");
	serve();
	serve();
	ck_assert_uint_eq(seen.calls, 1);
	ck_assert_int_eq(seen.request.verb, CONTROL_STATUS);
	ck_assert(answer_of(fd).ok);
	end();
}

HT_TEST(a_silent_client_is_sent_away)
{
	begin();
	int silent = client(""), slow = client("heaptap/1 sta");
	now_ns += SERVER_PATIENCE_NS;
	serve();
	now_ns += SERVER_PATIENCE_NS;
	serve();
	ck_assert(!is_closed(silent));
	now_ns++;
	serve();
	ck_assert(!answer_of(silent).ok);
	ck_assert(!answer_of(slow).ok);
	end();
}

HT_TEST(silent_clients_do_not_block_others)
{
	static int fds[MANY];
	int connected = 0;
	begin();
	/* The queue is bounded: some connections fail at once with EAGAIN. */
	for (int i = 0; i < MANY; i++) {
		fds[i] = connect_some();
		connected += fds[i] >= 0;
		if (i % 10 == 9)
			serve();
		now_ns++;
	}
	ck_assert_int_gt(connected, MANY / 2);
	unsigned passes = 0;
	int fd = connect_some();
	for (; fd < 0; fd = connect_some(), passes++)
		serve();
	ck_assert_int_gt(send(fd, "heaptap/1 status\n", 17, 0), 0);
	struct control_reply reply;
	for (; !has_answer(fd, &reply); passes++)
		serve();
	ck_assert(reply.ok);
	ck_assert_uint_lt(passes, 10);
	for (int i = 0; i < MANY; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	close(fd);
	end();
}

HT_TEST(a_pass_takes_a_bounded_number)
{
	int fds[SERVER_ACCEPTS_MAX + 5];
	begin();
	for (size_t i = 0; i < HT_ARRAY_SIZE(fds); i++)
		fds[i] = client("heaptap/1 status\n");
	serve();
	ck_assert_uint_eq(seen.calls, SERVER_ACCEPTS_MAX);
	serve();
	ck_assert_uint_eq(seen.calls, SERVER_ACCEPTS_MAX + 5);
	for (size_t i = 0; i < HT_ARRAY_SIZE(fds); i++)
		ck_assert(answer_of(fds[i]).ok);
	end();
}

HT_TEST(those_that_wait_are_answered_at_the_end)
{
	const struct control_reply last = {.ok = true, .exit_status = 6, .message = "a page"};
	struct control_reply reply;
	begin();
	int fd = client("heaptap/1 stop wait=1\n");
	serve();
	ck_assert(seen.request.wait);
	now_ns += 100 * SERVER_PATIENCE_NS;
	serve();
	ck_assert(!has_answer(fd, &reply));
	server_close_listener(server);
	server_tell_end(server, &last);
	reply = answer_of(fd);
	ck_assert_uint_eq(reply.exit_status, 6);
	ck_assert_str_eq(reply.message, "a page");
	end();
}

HT_TEST(few_may_wait_and_others_are_served_meanwhile)
{
	int fds[SERVER_WAITING_MAX];
	begin();
	for (size_t i = 0; i < SERVER_WAITING_MAX; i++) {
		fds[i] = client("heaptap/1 stop wait=1\n");
		serve();
	}
	int more = client("heaptap/1 stop wait=1\n");
	serve();
	ck_assert_ptr_nonnull(strstr(answer_of(more).message, "too many clients wait"));
	for (int i = 0; i < 50; i++) {
		more = client("heaptap/1 status\n");
		serve();
		ck_assert(answer_of(more).ok);
	}
	/* A connection that has gone makes room for another. */
	close(fds[0]);
	serve();
	more = client("heaptap/1 stop wait=1\n");
	serve();
	ck_assert(!is_closed(more));
	end();
}

HT_TEST(a_stop_that_is_refused_is_not_waited_for)
{
	begin();
	seen.refuses = true;
	int fd = client("heaptap/1 stop wait=1\n");
	serve();
	ck_assert(!answer_of(fd).ok);
	end();
}

/* heaptap was stopped. The client has given up meanwhile, and has reported that to its user. */
HT_TEST(a_request_without_a_client_is_not_carried_out)
{
	begin();
	int fd = client("heaptap/1 stop\n");
	close(fd);
	serve();
	ck_assert_uint_eq(seen.calls, 0);
	/* nc shuts its side down in the same way at the end of its input. */
	fd = client("heaptap/1 status\n");
	ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
	serve();
	ck_assert_uint_eq(seen.calls, 1);
	ck_assert(answer_of(fd).ok);
	end();
}

HT_TEST(a_client_that_leaves_is_forgotten)
{
	begin();
	for (int i = 0; i < 100; i++) {
		int fd = client(i % 2 ? "heaptap/1 status\n" : "heaptap/1 st");
		struct linger hard = {1, 0};
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
		close(fd);
		serve();
	}
	int fd = client("heaptap/1 status\n");
	serve();
	ck_assert(answer_of(fd).ok);
	end();
}

/* Asks as an unprivileged user; returns 0 if the server refuses the request, else another number.
 */
static int ask_as_nobody(void)
{
	static char line[CONTROL_LINE_MAX];
	static struct control_reply reply;
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return 2;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return 3;
	(void)!write(fd, "heaptap/1 stop\n", 15);
	ssize_t got = read(fd, line, sizeof(line));
	if (got <= 0 || control_reply_parse(line, (size_t)got - 1, &reply))
		return 4;
	return reply.ok || reply.exit_status != 4;
}

HT_TEST(another_user_is_refused)
{
	int status, listed = 0;
	if (geteuid() != 0) {
		printf("skipped: another_user_is_refused: only root can become another user\n");
		return;
	}
	begin();
	/* Only root may enter the directories above the socket. */
	ck_assert_int_eq(chmod(address.sun_path, 0666), 0);
	char *slash = strrchr(address.sun_path, '/');
	*slash = '\0';
	listed = chmod(address.sun_path, 0755);
	*slash = '/';
	ck_assert_int_eq(listed, 0);
	pid_t child = fork();
	if (child == 0)
		_exit(ask_as_nobody());
	while (waitpid(child, &status, WNOHANG) == 0)
		serve();
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(seen.calls, 0);
	end();
}

HT_SUITE("attach/control/server")
