/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/push/send.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/foreign.h"
#include "format/helper.h"

#define CONNECT_S    5u
#define NS_PER_S     1e9
#define ANSWER_MAX   65536u
#define STATUS_BYTES 4u /* "\n200" */
#define CONFIG_FD    3
#define NOT_FOUND    127

/* Writes curl's options to a file that only curl can read, because all users can read the arguments
 * of a process. */
static int write_config(
	const struct push_address *address, const struct push_head *head, uint64_t timeout_ns)
{
	const int fd = memfd_create("heaptap-push", MFD_CLOEXEC);
	const double seconds = (double)timeout_ns / NS_PER_S;
	if (fd < 0)
		return -1;
	dprintf(fd,
		"url = \"%s%s\"\nheader = \"Content-Type: %s\"\nheader = \"Idempotency-Key: %s\"\n"
		"header = \"Expect:\"\nuser-agent = \"heaptap/" HEAPTAP_VERSION "\"\n"
		"data-binary = \"@-\"\nproto = \"=http,https\"\nconnect-timeout = %.3f\n"
		"max-time = %.3f\nmax-filesize = %u\nsilent\nshow-error\ngloboff\n"
		"write-out = \"\\n%%{http_code}\"\n",
		address->url, head->target, head->type, head->key,
		seconds < CONNECT_S ? seconds : CONNECT_S, seconds, ANSWER_MAX);
	if (address->tenant)
		dprintf(fd, "header = \"X-Scope-OrgID: %s\"\n", address->tenant);
	if (lseek(fd, 0, SEEK_SET) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static void become_curl(int in, int out, int err, int config)
{
	/* -q: no ~/.curlrc. */
	char *argv[] = {
		(char *)"curl", (char *)"-q", (char *)"--config", (char *)"/proc/self/fd/3", NULL};
	helper_reset_signals();
	/* Move descriptors above 3, so that dup2 overwrites none of them before it is copied. */
	in = fcntl(in, F_DUPFD_CLOEXEC, CONFIG_FD + 1);
	out = fcntl(out, F_DUPFD_CLOEXEC, CONFIG_FD + 1);
	err = fcntl(err, F_DUPFD_CLOEXEC, CONFIG_FD + 1);
	config = fcntl(config, F_DUPFD_CLOEXEC, CONFIG_FD + 1);
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 || dup2(config, CONFIG_FD) < 0)
		_exit(1);
	execvp("curl", argv);
	_exit(NOT_FOUND);
}

/* The first line of the file, without control characters. */
static void first_line(int fd, size_t length, char line[PUSH_WHY_BYTES])
{
	char text[PUSH_WHY_BYTES];
	const size_t wanted = length < sizeof(text) - 1 ? length : sizeof(text) - 1;
	const ssize_t got = pread(fd, text, wanted, 0);
	text[got > 0 ? got : 0] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	foreign_copy(line, PUSH_WHY_BYTES, text);
}

static enum push_result result_of(long status)
{
	if (status >= 200 && status < 300)
		return PUSH_TAKEN;
	/* The endpoint refuses this content: malformed, too large, or of a wrong type. */
	if (status == 400 || status == 413 || status == 415 || status == 422)
		return PUSH_REFUSED;
	return PUSH_AWAY;
}

static void judge(int out, int err, struct push_answer *ret)
{
	char status[STATUS_BYTES + 1] = "", line[PUSH_WHY_BYTES];
	const off_t length = lseek(out, 0, SEEK_END);
	long number = 0;
	if (length >= (off_t)STATUS_BYTES &&
		pread(out, status, STATUS_BYTES, length - (off_t)STATUS_BYTES) == STATUS_BYTES)
		number = strtol(status, NULL, 10);
	if (number == 0) {
		ret->result = PUSH_AWAY;
		first_line(err, PUSH_WHY_BYTES, line);
		snprintf(ret->why, sizeof(ret->why), "%.*s", (int)sizeof(ret->why) - 1,
			*line ? line : "curl ended without an answer");
		return;
	}
	ret->result = result_of(number);
	first_line(out, (size_t)length - STATUS_BYTES, line);
	snprintf(ret->why, sizeof(ret->why), "HTTP status %ld%s%.*s", number, *line ? ": " : "",
		(int)sizeof(ret->why) - 40, line);
}

static struct ht_err *run(int in, int config, struct push_answer *ret)
{
	const int out = memfd_create("heaptap-answer", MFD_CLOEXEC);
	const int err = memfd_create("heaptap-errors", MFD_CLOEXEC);
	struct ht_err *failed = NULL;
	int status = -1;
	const pid_t pid = out < 0 || err < 0 ? -1 : helper_fork(SIGKILL);
	if (pid == 0)
		become_curl(in, out, err, config);
	if (pid < 0)
		failed = ht_err_sys(errno, "push: cannot start curl");
	else
		status = helper_wait(pid);
	if (!failed && WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
		failed = ht_err_new(HT_ERR_SYS,
			"push needs the program curl, which is not installed; the window waits");
	if (!failed)
		judge(out, err, ret);
	if (out >= 0)
		close(out);
	if (err >= 0)
		close(err);
	return failed;
}

struct ht_err *push_send(const struct push_address *address, const struct push_head *head, int fd,
	uint64_t timeout_ns, struct push_answer *ret)
{
	const int config = write_config(address, head, timeout_ns);
	if (config < 0)
		return ht_err_sys(errno, "push: cannot prepare a request");
	struct ht_err *err = run(fd, config, ret);
	close(config);
	return err;
}
