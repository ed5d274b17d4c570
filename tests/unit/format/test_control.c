/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines between a capture and its clients, and the names of its socket.
 */
#include "format/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

/* Parses `line`, which has no newline. Returns what control_request_parse returns. */
static const char *parse(const char *line, struct control_request *ret)
{
	return control_request_parse(line, strlen(line), ret);
}

HT_TEST(a_request_comes_back_as_it_was)
{
	static char line[CONTROL_LINE_MAX];
	static struct control_request request, back;
	for (unsigned verb = 0; verb < CONTROL_VERBS; verb++) {
		request = (struct control_request){
			.verb = (enum control_verb)verb, .wait = verb == CONTROL_STOP};
		if (verb == CONTROL_MARK)
			for (size_t i = 0; i < CONTROL_MARK_MAX; i++)
				request.text[request.text_length++] = (char)i;
		size_t length = control_request_encode(&request, line);
		ck_assert_uint_le(length, CONTROL_LINE_MAX);
		ck_assert_ptr_eq(memchr(line, '\n', length), line + length - 1);
		ck_assert_ptr_null(control_request_parse(line, length - 1, &back));
		ck_assert_mem_eq(&back, &request, sizeof(back));
	}
}

HT_TEST(a_request_is_what_a_person_can_type)
{
	static struct control_request request;
	ck_assert_ptr_null(parse("heaptap/1 mark text=warm%20up", &request));
	ck_assert_int_eq(request.verb, CONTROL_MARK);
	ck_assert_uint_eq(request.text_length, 7);
	ck_assert_mem_eq(request.text, "warm up", 7);
	ck_assert_ptr_null(parse("heaptap/1 stop wait=1 later=x", &request));
	ck_assert_int_eq(request.verb, CONTROL_STOP);
	ck_assert(request.wait);
	ck_assert_ptr_null(parse("heaptap/1 stop wait=0", &request));
	ck_assert(!request.wait);
}

HT_TEST(each_wrong_request_has_its_words)
{
	static const struct {
		const char *line, *problem;
	} wrong[] = {
		{"", "does not begin with heaptap/1"},
		{"GET / HTTP/1.1\r", "does not begin with heaptap/1"},
		{"heaptap/2 status", "does not begin with heaptap/1"},
		{"heaptap/1", "does not begin with heaptap/1"},
		{"heaptap/1 ", "none of status, stop"},
		{"heaptap/1 explode", "none of status, stop"},
		{"heaptap/1 status=1", "none of status, stop"},
		{"heaptap/1  status", "none of status, stop"},
		{"heaptap/1 mark text", "no ="},
		{"heaptap/1 mark text=%4", "hexadecimal"},
		{"heaptap/1 mark text=%", "hexadecimal"},
		{"heaptap/1 mark text=%zz", "hexadecimal"},
		{"heaptap/1 mark text=a\tb", "%XX"},
		{"heaptap/1 mark text=\xff", "%XX"},
		{"heaptap/1 stop wait=yes", "number"},
		{"heaptap/1 stop wait=18446744073709551616", "number"},
	};
	static struct control_request request;
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		const char *problem = parse(wrong[i].line, &request);
		ck_assert_msg(problem && strstr(problem, wrong[i].problem), "%s: %s", wrong[i].line,
			problem);
	}
}

HT_TEST(lengths_have_limits)
{
	static char line[CONTROL_LINE_MAX + 1];
	static struct control_request request;
	size_t head = (size_t)snprintf(line, sizeof(line), "heaptap/1 mark text=");
	memset(line + head, 'x', sizeof(line) - head);
	ck_assert_ptr_null(control_request_parse(line, head + CONTROL_MARK_MAX, &request));
	ck_assert_uint_eq(request.text_length, CONTROL_MARK_MAX);
	const char *problem = control_request_parse(line, head + CONTROL_MARK_MAX + 1, &request);
	ck_assert_ptr_nonnull(strstr(problem, "text is too long"));
	problem = control_request_parse(line, CONTROL_LINE_MAX, &request);
	ck_assert_ptr_nonnull(strstr(problem, "line is too long"));
}

static struct control_reply full_reply(void)
{
	return (struct control_reply){.ok = true,
		.exit_status = 1,
		.phase = CONTROL_DETACHING,
		.paused = 1,
		.pid = 4711,
		.start_ticks = UINT64_MAX,
		.heaptap_pid = 3,
		.start_unix_ns = 4,
		.elapsed_ns = 5,
		.duration_ns = 6,
		.events = 7,
		.trace_bytes = 8,
		.dropped = 9,
		.events_per_s = 10,
		.trace_bytes_per_min = 11,
		.pauses = 12,
		.paused_ns = 13,
		.marks = 14,
		.sample_bytes = 15,
		.cull_ns = 16,
		.live_blocks = 17,
		.filter_bytes = 18,
		.user = 16,
		.window = 17,
		.windows = 18,
		.next_unix_ns = 19,
		.waits_for = "its RSS is 1.0 GiB",
		.message = "50 % of\nall",
		.comm = "\xff\x01 a=b",
		.trace = "/tmp/a b.htap",
		.partial = "/tmp/a b.htap.part-1"};
}

HT_TEST(a_reply_comes_back_as_it_was)
{
	static char line[CONTROL_LINE_MAX];
	struct control_reply reply = full_reply(), back;
	size_t length = control_reply_encode(&reply, line);
	ck_assert_ptr_null(control_reply_parse(line, length - 1, &back));
	ck_assert_mem_eq(&back, &reply, sizeof(back));
	reply = (struct control_reply){.exit_status = 3};
	length = control_reply_encode(&reply, line);
	ck_assert_ptr_null(control_reply_parse(line, length - 1, &back));
	ck_assert_mem_eq(&back, &reply, sizeof(back));
}

HT_TEST(a_text_that_does_not_fit_is_left_out)
{
	static char line[CONTROL_LINE_MAX];
	struct control_reply reply = full_reply(), back;
	memset(reply.message, '\n', sizeof(reply.message) - 1);
	memset(reply.comm, '\n', sizeof(reply.comm) - 1);
	memset(reply.trace, '\n', sizeof(reply.trace) - 1);
	memset(reply.partial, 'x', sizeof(reply.partial) - 1);
	size_t length = control_reply_encode(&reply, line);
	ck_assert_uint_le(length, CONTROL_LINE_MAX);
	ck_assert_ptr_null(control_reply_parse(line, length - 1, &back));
	ck_assert_str_eq(back.message, reply.message);
	ck_assert_str_eq(back.comm, reply.comm);
	ck_assert_str_eq(back.trace, "");
	ck_assert_str_eq(back.partial, "");
}

HT_TEST(each_wrong_reply_has_its_words)
{
	static const struct {
		const char *line, *problem;
	} wrong[] = {
		{"heaptap/2 ok", "does not begin with heaptap/1"},
		{"heaptap/1 ", "neither ok nor error"},
		{"heaptap/1 maybe", "neither ok nor error"},
		{"heaptap/1 ok pid", "no ="},
		{"heaptap/1 ok pid=-1", "number"},
		{"heaptap/1 ok pid=", "number"},
		{"heaptap/1 ok comm=a%00b", "zero byte"},
		{"heaptap/1 ok "
		 "comm=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
			"too long"},
	};
	struct control_reply reply;
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		const char *problem =
			control_reply_parse(wrong[i].line, strlen(wrong[i].line), &reply);
		ck_assert_msg(problem && strstr(problem, wrong[i].problem), "%s: %s", wrong[i].line,
			problem);
	}
	ck_assert_ptr_null(control_reply_parse("heaptap/1 ok new=%41 pid=5", 26, &reply));
	ck_assert_uint_eq(reply.pid, 5);
}

HT_TEST(a_name_has_one_spelling)
{
	static const char *const wrong[] = {"", "1", "1.", ".1", "0.1", "01.1", "1.01", "1.1.",
		"1.1.sock", "-1.1", "+1.1", " 1.1", "2147483648.1", "1.18446744073709551616",
		"1.1.0", "1.1.01", "1.1.1.", "1.1.1.1", "1.1.2147483648"};
	char name[CONTROL_NAME_MAX];
	pid_t pid, waiter;
	uint64_t ticks;
	control_name(INT32_MAX, UINT64_MAX, 0, name);
	ck_assert(control_name_parse(name, &pid, &ticks, &waiter));
	ck_assert_int_eq(pid, INT32_MAX);
	ck_assert_uint_eq(ticks, UINT64_MAX);
	ck_assert_int_eq(waiter, 0);
	control_name(INT32_MAX, UINT64_MAX, INT32_MAX, name);
	ck_assert_str_eq(name, "2147483647.18446744073709551615.2147483647");
	ck_assert(control_name_parse(name, &pid, &ticks, &waiter));
	ck_assert_int_eq(waiter, INT32_MAX);
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++)
		ck_assert_msg(!control_name_parse(wrong[i], &pid, &ticks, &waiter), "%s", wrong[i]);
}

HT_TEST(directories_go_by_user)
{
	char path[CONTROL_PLACES][CONTROL_PATH_MAX], deep[400] = "/";
	ck_assert_uint_eq(control_directories(0, "/elsewhere", path), 2);
	ck_assert_str_eq(path[0], "/run/heaptap");
	ck_assert_str_eq(path[1], "/tmp/heaptap-0");
	ck_assert_uint_eq(control_directories(7, "/run/user/7", path), 2);
	ck_assert_str_eq(path[0], "/run/user/7/heaptap");
	ck_assert_str_eq(path[1], "/tmp/heaptap-7");
	ck_assert_uint_eq(control_directories(7, "/home/x", path), 3);
	ck_assert_str_eq(path[0], "/home/x/heaptap");
	ck_assert_str_eq(path[1], "/run/user/7/heaptap");
	memset(deep + 1, 'x', sizeof(deep) - 2);
	ck_assert_uint_eq(control_directories(7, deep, path), 2);
	ck_assert_uint_eq(control_directories(7, "relative", path), 2);
	ck_assert_uint_eq(control_directories(7, NULL, path), 2);
}

static int reopen(const char *path, bool make)
{
	int fd = control_open_directory(path, geteuid(), make);
	int saved = errno;
	if (fd >= 0)
		close(fd);
	errno = saved;
	return fd >= 0 ? 0 : -1;
}

HT_TEST(a_directory_that_is_not_safe_is_refused)
{
	char *path = tmpdir_path("control"), *link = tmpdir_path("link");
	struct stat made;
	ck_assert_int_eq(reopen(path, false), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(reopen(path, true), 0);
	ck_assert_int_eq(stat(path, &made), 0);
	ck_assert_uint_eq(made.st_mode & 07777, 0700);
	ck_assert_int_eq(reopen(path, true), 0);
	ck_assert_int_eq(symlink(path, link), 0);
	ck_assert_int_eq(reopen(link, true), -1);
	ck_assert_int_eq(chmod(path, 0770), 0);
	ck_assert_int_eq(reopen(path, true), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(chmod(path, 0700), 0);
	ck_assert_int_eq(control_open_directory(path, geteuid() + 1, true), -1);
	ck_assert_int_eq(errno, EPERM);
	free(path);
	free(link);
}

HT_SUITE("format/control")
