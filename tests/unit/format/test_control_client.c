/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what a client reports of sockets that answer well, wrongly, late or never.
 */
#include "format/control_client.h"

#include <fcntl.h>
#include <signal.h>
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

#define FOREVER_NS 0u
#define LATE_NS	   20000000u

static const struct control_request request = {.verb = CONTROL_STATUS};
static struct control_client client = {.pid = 4711, .start_ticks = 77};
static int listener;

static void listen_there(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char *path = tmpdir_path("run");
	snprintf(client.directory, sizeof(client.directory), "%s", path);
	free(path);
	client.user = geteuid();
	int directory = control_open_directory(client.directory, client.user, true);
	ck_assert_int_ge(directory, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/4711.77", directory);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	close(directory);
}

/* Forks a process that takes one request and sends `answer`; NULL: it closes without an answer. */
static pid_t answer_with(const char *answer)
{
	listen_there();
	pid_t pid = fork();
	if (pid)
		return pid;
	char line[CONTROL_LINE_MAX];
	int fd = accept(listener, NULL, NULL);
	ssize_t got = read(fd, line, sizeof(line));
	if (answer && got > 0)
		(void)!write(fd, answer, strlen(answer));
	_exit(0);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(listener);
}

HT_TEST(an_answer_comes_back)
{
	enum control_client_state state;
	struct control_reply reply;
	pid_t pid = answer_with("heaptap/1 ok pid=4711 comm=a%20b\n");
	ck_no_err(control_client_ask(&client, &request, FOREVER_NS, &state, &reply));
	ck_assert_int_eq(state, CONTROL_CLIENT_ANSWERED);
	ck_assert(reply.ok);
	ck_assert_uint_eq(reply.pid, 4711);
	ck_assert_str_eq(reply.comm, "a b");
	end(pid);
}

HT_TEST(a_wrong_answer_is_an_error)
{
	enum control_client_state state;
	struct control_reply reply;
	char large[CONTROL_LINE_MAX * 2];
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	const char *const wrong[] = {"heaptap/7 ok\n", "\n", "heaptap/1 ok pid=x\n", large};
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		pid_t pid = answer_with(wrong[i]);
		ck_err_says(control_client_ask(&client, &request, FOREVER_NS, &state, &reply),
			HT_ERR_FORMAT, "4711");
		end(pid);
		char *path = tmpdir_path("run/4711.77");
		ck_assert_int_eq(unlink(path), 0);
		free(path);
	}
}

HT_TEST(server_that_ends_without_answer_has_died)
{
	enum control_client_state state;
	struct control_reply reply;
	pid_t pid = answer_with(NULL);
	ck_no_err(control_client_ask(&client, &request, FOREVER_NS, &state, &reply));
	ck_assert_int_eq(state, CONTROL_CLIENT_DIED);
	end(pid);
}

static void open_gate(void *context)
{
	const int *gate = context;
	ck_assert_int_eq(write(*gate, "x", 1), 1);
}

/* Forks a process that takes one request and sends `answer` when the gate is open. */
static pid_t answer_behind(const int gate[2], const char *answer)
{
	char line[CONTROL_LINE_MAX];
	listen_there();
	pid_t pid = fork();
	if (pid)
		return pid;
	int fd = accept(listener, NULL, NULL);
	ssize_t got = read(fd, line, sizeof(line));
	close(gate[1]);
	if (got > 0 && read(gate[0], line, 1) == 1)
		(void)!write(fd, answer, strlen(answer));
	_exit(0);
}

HT_TEST(other_work_is_done_while_an_answer_is_awaited)
{
	enum control_client_state state;
	struct control_reply reply;
	int gate[2];
	ck_assert_int_eq(pipe2(gate, O_CLOEXEC), 0);
	pid_t pid = answer_behind(gate, "heaptap/1 ok phase=2\n");
	ck_no_err(control_client_await(&client, &request, open_gate, &gate[1], &state, &reply));
	ck_assert_int_eq(state, CONTROL_CLIENT_ANSWERED);
	ck_assert_uint_eq(reply.phase, CONTROL_ENDED);
	end(pid);
}

/* The server accepts no connection. Connections wait in its queue; once that is full, they fail. */
HT_TEST(does_not_wait_for_a_silent_server)
{
	enum control_client_state state = CONTROL_CLIENT_ANSWERED;
	struct control_reply reply;
	listen_there();
	ck_no_err(control_client_ask(&client, &request, LATE_NS, &state, &reply));
	ck_assert_int_eq(state, CONTROL_CLIENT_SILENT);
	for (int i = 0; i < 5; i++) {
		state = CONTROL_CLIENT_ANSWERED;
		ck_no_err(control_client_ask(&client, &request, LATE_NS, &state, &reply));
		ck_assert_int_eq(state, CONTROL_CLIENT_SILENT);
	}
	close(listener);
}

HT_TEST(socket_of_a_killed_server_is_stale)
{
	enum control_client_state state = CONTROL_CLIENT_ANSWERED;
	struct control_reply reply;
	listen_there();
	close(listener);
	ck_no_err(control_client_ask(&client, &request, LATE_NS, &state, &reply));
	ck_assert_int_eq(state, CONTROL_CLIENT_STALE);
	client.pid = 4712;
	ck_no_err(control_client_ask(&client, &request, LATE_NS, &state, &reply));
	ck_assert_int_eq(state, CONTROL_CLIENT_STALE);
}

HT_TEST(sockets_are_listed_and_nothing_else)
{
	struct control_clients clients = {0};
	listen_there();
	static const char *const names[] = {"notes", ".hidden", "1.2.3.4", "007.1", "4711.77.12"};
	int directory = open(client.directory, O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < HT_ARRAY_SIZE(names); i++)
		close(openat(directory, names[i], O_CREAT | O_WRONLY, 0600));
	close(directory);
	ck_no_err(control_client_add(client.directory, client.user, &clients));
	/* A capture, and a heaptap that waits. */
	ck_assert_uint_eq(clients.count, 2);
	const size_t first = clients.client[0].waiter != 0;
	ck_assert_int_eq(clients.client[first].pid, 4711);
	ck_assert_uint_eq(clients.client[first].start_ticks, 77);
	ck_assert_int_eq(clients.client[first].waiter, 0);
	ck_assert_int_eq(clients.client[!first].pid, 4711);
	ck_assert_int_eq(clients.client[!first].waiter, 12);
	ck_assert_str_eq(clients.client[0].directory, client.directory);
	control_clients_deinit(&clients);
	/* A directory in which other users can write is ignored: its sockets may be theirs. */
	ck_assert_int_eq(chmod(client.directory, 0777), 0);
	ck_no_err(control_client_add(client.directory, client.user, &clients));
	ck_no_err(control_client_add("/nonexistent", client.user, &clients));
	ck_assert_uint_eq(clients.count, 0);
	close(listener);
}

HT_TEST(no_capture_error_names_the_places)
{
	struct control_client found;
	/* No process has this number. */
	ck_err_says(control_client_find(INT32_MAX, &found), HT_ERR_REFUSED, "/heaptap");
	ck_err_says(control_client_find_any(INT32_MAX, &found), HT_ERR_REFUSED, "/heaptap");
}

HT_SUITE("format/control_client")
