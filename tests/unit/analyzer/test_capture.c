/* SPDX-License-Identifier: Apache-2.0
 *
 * The capture that a server shows, through its keeper: a process that listens as a capture does is
 * joined, asked and left running; without one, a program is started.
 */
#include "analyzer/live/capture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/control_client.h"
#include "tests/support/ht_check.h"

#define START_TICKS 1u

/* A process that answers as if it captured this test process. */
struct fake {
	pid_t pid;
	char directory[CONTROL_PATH_MAX], path[CONTROL_PATH_MAX + CONTROL_NAME_MAX + 2];
};

/* Answers each request with `reply`, in which the number of marks grows by 1 with each request. */
__attribute__((noreturn)) static void answer(int listener, struct control_reply reply)
{
	char line[CONTROL_LINE_MAX];
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		if (read(fd, line, sizeof(line)) > 0) {
			size_t length = control_reply_encode(&reply, line);
			if (write(fd, line, length) < 0)
				_exit(1);
			reply.marks++;
		}
		close(fd);
	}
}

static void fake_start(struct fake *fake, const struct control_reply *reply)
{
	char directory[CONTROL_PLACES][CONTROL_PATH_MAX], name[CONTROL_NAME_MAX];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t count = control_directories(geteuid(), NULL, directory);
	int place = control_open_directory(directory[count - 1], geteuid(), true);
	control_name(getpid(), START_TICKS, 0, name);
	snprintf(fake->path, sizeof(fake->path), "%s/%s", directory[count - 1], name);
	snprintf(fake->directory, sizeof(fake->directory), "%s", directory[count - 1]);
	ck_assert_int_ge(place, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", place, name);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(listener, 8), 0);
	fake->pid = fork();
	if (!fake->pid)
		answer(listener, *reply);
	close(listener);
	close(place);
}

static void fake_end(struct fake *fake)
{
	kill(fake->pid, SIGKILL);
	waitpid(fake->pid, NULL, 0);
	unlink(fake->path);
	/* The directory stays if other captures have sockets in it. */
	(void)rmdir(fake->directory);
}

static struct ht_err *open_with(struct capture *capture, const char *heaptap)
{
	const struct capture_start start = {.heaptap = heaptap, .trace = -1, .log = -1};
	return capture_open(capture, getpid(), &start);
}

static void check_refused(const struct control_reply *reply, const char *words)
{
	struct fake fake;
	struct capture capture;
	fake_start(&fake, reply);
	ck_err_says(open_with(&capture, "/nowhere/heaptap"), HT_ERR_REFUSED, words);
	capture_close(&capture);
	fake_end(&fake);
}

HT_TEST(a_capture_that_runs_is_joined)
{
	const struct control_reply reply = {
		.ok = true, .trace = "/tmp/whole.htap", .partial = "/tmp/.part"};
	const struct control_request request = {.verb = CONTROL_STATUS};
	struct control_reply first, second;
	struct fake fake;
	struct capture capture;
	fake_start(&fake, &reply);
	ck_no_err(open_with(&capture, "/nowhere/heaptap"));
	ck_assert(!capture.started);
	ck_assert_str_eq(capture.trace, "/tmp/.part");
	/* Two questions at once have their answers in turn. */
	ck_assert(capture_ask(&capture, &request) && capture_ask(&capture, &request));
	ck_assert(capture_answer(&capture, &first) && capture_answer(&capture, &second));
	ck_assert(first.ok && second.ok);
	ck_assert_uint_eq(second.marks, first.marks + 1);
	capture_close(&capture);
	/* The process of the capture still runs. */
	ck_assert_int_eq(waitpid(fake.pid, NULL, WNOHANG), 0);
	fake_end(&fake);
}

HT_TEST(a_trace_that_cannot_be_shown_is_refused)
{
	check_refused(&(struct control_reply){.ok = true, .trace = "-"}, "standard output");
	check_refused(&(struct control_reply){.ok = true}, "path is too long");
	check_refused(&(struct control_reply){.message = "go away"}, "go away");
}

HT_TEST(a_capture_that_dies_is_reported)
{
	const struct control_reply reply = {.ok = true, .trace = "/tmp/whole.htap"};
	const struct control_request request = {.verb = CONTROL_STATUS};
	struct control_reply answer;
	struct fake fake;
	struct capture capture;
	fake_start(&fake, &reply);
	ck_no_err(open_with(&capture, "/nowhere/heaptap"));
	fake_end(&fake);
	ck_assert(capture_ask(&capture, &request) && capture_answer(&capture, &answer));
	ck_assert(!answer.ok);
	ck_assert_ptr_nonnull(strstr(answer.message, "no capture of process"));
	capture_close(&capture);
}

HT_TEST(a_program_that_records_nothing_is_reported)
{
	static const char *const program[] = {"/nowhere/heaptap", "/bin/false"};
	struct capture capture;
	for (size_t i = 0; i < HT_ARRAY_SIZE(program); i++) {
		ck_err_says(open_with(&capture, program[i]), HT_ERR_REFUSED,
			"is not recorded: the capture ended");
		ck_assert(capture.started);
		ck_assert_int_eq(capture_close(&capture), 1);
	}
}

HT_TEST(without_a_keeper_there_is_no_answer)
{
	const struct control_reply reply = {.ok = true, .trace = "/tmp/whole.htap"};
	const struct control_request request = {.verb = CONTROL_STATUS};
	struct control_reply answer;
	struct fake fake;
	struct capture capture;
	fake_start(&fake, &reply);
	ck_no_err(open_with(&capture, "/nowhere/heaptap"));
	kill(capture.keeper, SIGKILL);
	ck_assert_int_eq(waitpid(capture.keeper, NULL, 0), capture.keeper);
	capture.keeper = 0;
	ck_assert(!capture_ask(&capture, &request));
	ck_assert(!capture_answer(&capture, &answer));
	capture_close(&capture);
	fake_end(&fake);
}

HT_SUITE("unit/analyzer/capture")
