/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what a heaptap that waits for its window answers to clients, and when it looks for them.
 */
#include "attach/series/standby.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/process/proc_open.h"
#include "format/control_client.h"
#include "tests/support/ht_check.h"

#define HOUR_NS (3600 * CLOCK_NS_PER_S)

static struct standby standby;
static struct proc self;
static struct control_client client;

static void begin(uint64_t next_boot_ns, const char *waits_for)
{
	const struct standby_wait wait = {
		.window = 2, .windows = 6, .next_boot_ns = next_boot_ns, .waits_for = waits_for};
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(standby_open(&standby, &self, &wait));
	ck_no_err(control_client_find_any(getpid(), &client));
	ck_assert_int_eq(client.waiter, getpid());
}

static void end(void)
{
	ck_assert(!standby_close(&standby));
	proc_close(&self);
}

/* Connects a client that sends `line`; returns its descriptor. */
static int send_request(const char *line)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s",
		standby.place.directory, standby.place.name);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(send(fd, line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
	return fd;
}

static bool pass(void)
{
	struct pollfd polled;
	(void)standby_poll(&standby, &polled);
	ck_assert_int_ge(poll(&polled, 1, 0), 0);
	return standby_serve(&standby, &polled);
}

static struct control_reply reply_to(int fd)
{
	static char line[CONTROL_LINE_MAX];
	struct control_reply reply;
	const ssize_t got = recv(fd, line, sizeof(line), MSG_DONTWAIT);
	ck_assert_int_gt(got, 0);
	ck_assert_ptr_null(control_reply_parse(line, (size_t)got - 1, &reply));
	close(fd);
	return reply;
}

static struct control_reply ask(const char *line)
{
	const int fd = send_request(line);
	(void)pass();
	/* After a connection, standby rests for a pass. */
	(void)pass();
	return reply_to(fd);
}

HT_TEST(status_says_what_is_waited_for)
{
	begin(clock_read_ns(CLOCK_BOOTTIME) + HOUR_NS, "its RSS is 1.0 GiB");
	struct control_reply reply = ask("heaptap/1 status\n");
	ck_assert(reply.ok);
	ck_assert_uint_eq(reply.phase, CONTROL_WAITING);
	ck_assert_uint_eq(reply.pid, (uint64_t)getpid());
	ck_assert_uint_eq(reply.heaptap_pid, (uint64_t)getpid());
	ck_assert_uint_eq(reply.window, 2);
	ck_assert_uint_eq(reply.windows, 6);
	ck_assert_uint_gt(reply.next_unix_ns, clock_read_ns(CLOCK_REALTIME));
	ck_assert_str_eq(reply.waits_for, "its RSS is 1.0 GiB");
	ck_assert_str_eq(reply.comm, "test_standby");
	reply = ask("heaptap/1 pause\n");
	ck_assert(!reply.ok);
	ck_assert_uint_eq(reply.exit_status, 3);
	ck_assert_ptr_nonnull(strstr(reply.message, "window 2 begins in "));
	ck_assert_ptr_nonnull(strstr(reply.message, " s when its RSS is 1.0 GiB"));
	/* The time of the window has come. */
	standby_waits_on(&standby);
	reply = ask("heaptap/1 status\n");
	ck_assert_uint_eq(reply.next_unix_ns, 0);
	reply = ask("heaptap/1 mark text=x\n");
	ck_assert_str_eq(
		reply.message, "nothing is recorded now: window 2 begins when its RSS is 1.0 GiB");
	end();
}

HT_TEST(stop_ends_the_wait_and_is_answered_at_the_end)
{
	begin(0, "");
	const int one = send_request("heaptap/1 stop\n"),
		  all = send_request("heaptap/1 stop wait=1\n");
	ck_assert(pass());
	ck_assert(reply_to(one).ok);
	ck_assert(standby_close(&standby));
	struct control_client found;
	ck_err(control_client_find_any(getpid(), &found), HT_ERR_REFUSED);
	standby_end(&standby, 7, "1 trace was recorded before");
	const struct control_reply reply = reply_to(all);
	ck_assert(reply.ok);
	ck_assert_uint_eq(reply.phase, CONTROL_ENDED);
	ck_assert_uint_eq(reply.exit_status, 7);
	ck_assert_str_eq(reply.message, "1 trace was recorded before");
	standby_end(&standby, 0, "");
	proc_close(&self);
}

/* The wait has ended by itself, but standby_close still answers a stop request, and reports it. */
HT_TEST(a_stop_that_comes_last_counts)
{
	begin(0, "");
	const int fd = send_request("heaptap/1 stop\n");
	ck_assert(standby_close(&standby));
	ck_assert(reply_to(fd).ok);
	standby_end(&standby, 0, "");
	proc_close(&self);
}

/* Without descriptors the listener stays readable: poll would return at once, each time. */
HT_TEST(it_does_not_spin_without_descriptors)
{
	struct rlimit limit, none;
	struct pollfd polled;
	begin(0, "");
	ck_assert_int_eq(standby_poll(&standby, &polled), -1);
	ck_assert_int_eq(polled.fd, standby.place.listener);
	const int fd = send_request("heaptap/1 status\n");
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	const int next = dup(fd);
	close(next);
	none = (struct rlimit){(rlim_t)next, limit.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert(!pass());
	ck_assert_int_eq(standby_poll(&standby, &polled), 5);
	ck_assert_int_eq(polled.fd, -1);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert(!pass());
	ck_assert(reply_to(fd).ok);
	ck_assert_int_eq(standby_poll(&standby, &polled), -1);
	end();
}

HT_TEST(without_a_socket_it_waits_on)
{
	struct pollfd polled;
	standby = STANDBY_NONE;
	ck_assert_int_eq(standby_poll(&standby, &polled), -1);
	ck_assert_int_eq(polled.fd, -1);
	ck_assert(!standby_serve(&standby, &polled));
	ck_assert(!standby_close(&standby));
	standby_end(&standby, 0, "");
}

HT_SUITE("attach/standby")