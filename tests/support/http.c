/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/tmpdir.h"

#define START_MS 60000
#define WORDS	 32u

static bool has_address(struct http *http)
{
	unsigned port;
	char *out = run_out(&http->run);
	bool ret =
		sscanf(out, "%255s", http->address) == 1 && strchr(out, '\n') &&
		sscanf(http->address, "http://127.0.0.1:%u/?token=%63s", &port, http->token) == 2;
	free(out);
	if (ret)
		http->port = (uint16_t)port;
	return ret || run_has_ended(&http->run);
}

bool http_start(struct http *http, const char *const words[])
{
	/* The server writes its traces to its working directory: use the test's directory. */
	char *folder = tmpdir_path("."), *program = realpath(run_built("heaptap"), NULL);
	const char *argv[WORDS] = {"env", "-C", folder, program, "serve"};
	for (size_t i = 0; words[i]; i++)
		argv[i + 5] = words[i];
	*http = (struct http){0};
	run_start(&http->run, argv);
	free(folder);
	free(program);
	run_until(has_address(http), START_MS);
	if (http->port)
		return true;
	char *err = run_err(&http->run);
	ck_assert_msg(strstr(err, "is not in this build"), "%s", err);
	printf("skipped: serve: this build has no libmicrohttpd or no libjs-dygraphs\n");
	free(err);
	run_deinit(&http->run);
	return false;
}

int http_stop(struct http *http)
{
	kill(http->run.pid, SIGINT);
	int status = run_wait(&http->run, START_MS);
	run_deinit(&http->run);
	return status;
}

int http_connect(const struct http *http)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons(http->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

char *http_send(const struct http *http, const char *request, size_t *ret_length)
{
	size_t length = 0, capacity = 1u << 16;
	char *answer = malloc(capacity);
	int fd = http_connect(http);
	ssize_t n = 1;
	ck_assert_msg(fd >= 0, "cannot connect to port %u", http->port);
	/* send fails if the server has closed the connection before it read the whole request. */
	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		n = 0;
	while (n > 0) {
		if (capacity - length < 2)
			answer = realloc(answer, capacity *= 2);
		n = recv(fd, answer + length, capacity - length - 1, 0);
		length += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	answer[length] = '\0';
	if (ret_length)
		*ret_length = length;
	return answer;
}

unsigned http_status(const char *answer)
{
	unsigned status = 0;
	return sscanf(answer, "HTTP/1.1 %u ", &status) == 1 ? status : 0;
}

static char *ask(const struct http *http, const char *method, const char *path, unsigned status)
{
	char request[4096];
	snprintf(request, sizeof(request),
		"%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nX-Heaptap-Token: %s\r\n"
		"Content-Length: 0\r\nConnection: close\r\n\r\n",
		method, path, http->port, http->token);
	char *answer = http_send(http, request, NULL);
	ck_assert_msg(http_status(answer) == status, "%s %s: %.400s", method, path, answer);
	char *body = strstr(answer, "\r\n\r\n");
	ck_assert_ptr_nonnull(body);
	memmove(answer, body + 4, strlen(body + 4) + 1);
	return answer;
}

char *http_get(const struct http *http, const char *path, unsigned status)
{
	return ask(http, "GET", path, status);
}

static json_t *parse(char *body)
{
	json_t *ret = report_parse(body);
	ck_assert_ptr_nonnull(json_object_get(ret, "schema"));
	free(body);
	return ret;
}

json_t *http_json(const struct http *http, const char *path, unsigned status)
{
	return parse(ask(http, "GET", path, status));
}

json_t *http_post(const struct http *http, const char *path, unsigned status)
{
	return parse(ask(http, "POST", path, status));
}

bool http_has_browser(void)
{
	static const char *const needed[] = {"/usr/bin/chromium", "/usr/bin/chromedriver",
		"/usr/lib/python3/dist-packages/selenium"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(needed); i++)
		if (access(needed[i], R_OK) < 0) {
			printf("skipped: serve: the page in a browser: %s is not there\n",
				needed[i]);
			return false;
		}
	return true;
}
