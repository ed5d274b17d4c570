/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/endpoint.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/run.h"

#define HEAD_BYTES 16384u
#define LIMIT_MS   10000u

static bool is_closed(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLRDHUP};
	return poll(&wait, 1, 1) > 0 && wait.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* Reads up to the empty line. Returns the length of the head; 0: the connection ended before, or
 * the head is too long. `ret_got`: how many bytes were read, the begun body included. */
static size_t read_head(int fd, char head[HEAD_BYTES], size_t *ret_got)
{
	size_t got = 0;
	for (;;) {
		const ssize_t more = read(fd, head + got, HEAD_BYTES - 1 - got);
		if (more <= 0)
			return 0;
		got += (size_t)more;
		head[got] = '\0';
		const char *end = strstr(head, "\r\n\r\n");
		if (end) {
			*ret_got = got;
			return (size_t)(end - head) + 4;
		}
	}
}

static void copy_header(const char *head, const char *name, char *to, size_t to_bytes)
{
	const char *at = strcasestr(head, name);
	*to = '\0';
	if (!at)
		return;
	at += strlen(name);
	snprintf(to, to_bytes, "%.*s", (int)strcspn(at, "\r\n"), at);
}

static void serve(struct endpoint_shared *shared, int fd)
{
	char head[HEAD_BYTES], length[32], answer[128];
	size_t got;
	const size_t head_bytes = read_head(fd, head, &got);
	if (!head_bytes)
		return;
	struct endpoint_request *request = &shared->request[shared->count % ENDPOINT_REQUESTS_MAX];
	const char *target = strchr(head, ' ') + 1;
	snprintf(request->target, sizeof(request->target), "%.*s", (int)strcspn(target, " "),
		target);
	copy_header(head, "\r\nIdempotency-Key: ", request->key, sizeof(request->key));
	copy_header(head, "\r\nAuthorization: ", request->authorization,
		sizeof(request->authorization));
	copy_header(head, "\r\nContent-Length: ", length, sizeof(length));
	const size_t wanted = strtoul(length, NULL, 10);
	size_t have = got - head_bytes;
	memcpy(shared->body, head + head_bytes, have);
	while (have < wanted && wanted <= ENDPOINT_BODY_BYTES) {
		const ssize_t more = read(fd, shared->body + have, wanted - have);
		if (more <= 0)
			return;
		have += (size_t)more;
	}
	request->body_bytes = have;
	request->status = shared->mood;
	shared->count++;
	while (shared->mood == ENDPOINT_HANGS && !is_closed(fd))
		;
	snprintf(answer, sizeof(answer),
		"HTTP/1.1 %d Mood\r\nContent-Length: 5\r\nConnection: close\r\n\r\nmood\n",
		shared->mood);
	if (write(fd, answer, strlen(answer)) < 0)
		return;
}

static void run(struct endpoint_shared *shared, int listener)
{
	signal(SIGPIPE, SIG_IGN);
	while (shared->mood == ENDPOINT_AWAY)
		run_pause();
	if (listen(listener, 8) < 0)
		_exit(1);
	shared->listens = true;
	for (;;) {
		const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		serve(shared, fd);
		close(fd);
	}
}

void endpoint_start(struct endpoint *endpoint)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof(address);
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	endpoint->port = ntohs(address.sin_port);
	endpoint->shared = mmap(NULL, sizeof(*endpoint->shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(endpoint->shared != MAP_FAILED);
	endpoint->shared->mood = ENDPOINT_AWAY;
	endpoint->pid = fork();
	ck_assert_int_ge(endpoint->pid, 0);
	if (endpoint->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(endpoint->shared, listener);
	}
	/* The child's copy of the listener keeps the port bound. */
	close(listener);
}

void endpoint_set(struct endpoint *endpoint, int mood)
{
	endpoint->shared->mood = mood;
	if (mood != ENDPOINT_AWAY)
		run_until(endpoint->shared->listens, LIMIT_MS);
}

void endpoint_stop(struct endpoint *endpoint)
{
	kill(endpoint->pid, SIGKILL);
	waitpid(endpoint->pid, NULL, 0);
	munmap(endpoint->shared, sizeof(*endpoint->shared));
}
