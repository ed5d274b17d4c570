/* SPDX-License-Identifier: Apache-2.0
 *
 * verify never reports a process as clean if it could not read a part of it.
 */
#include "attach/undo/verify.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "attach/elf/modules.h"
#include "attach/stub/remote.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"

static struct proc proc;
static struct child child;

static void *sleeper(void *arg)
{
	child_ready((long)(intptr_t)arg);
	child_wait();
}

/* Returns the agent's end of a socket pair; the other end has this name (NULL: none). */
static long end_of_pair(const char *name)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
		_exit(1);
	int length =
		snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "%s-%d", name, getpid());
	if (bind(pair[1], (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)))
		_exit(1);
	return pair[0];
}

static void with_socket(const void *name)
{
	sleeper((void *)(intptr_t)end_of_pair(name));
}

static void without_main_thread(const void *name)
{
	pthread_t thread;
	pthread_create(&thread, NULL, sleeper, (void *)(intptr_t)end_of_pair(name));
	pthread_exit(NULL);
}

static void *own_table(void *name)
{
	if (unshare(CLONE_FILES))
		_exit(1);
	return sleeper((void *)(intptr_t)end_of_pair(name));
}

static void in_a_thread_alone(const void *name)
{
	pthread_t thread;
	pthread_create(&thread, NULL, own_table, (void *)(uintptr_t)name);
	child_wait();
}

static void setup(void (*body)(const void *), const char *name)
{
	child = child_fork(body, name);
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(proc_open_mem(&proc));
}

static void finish(void)
{
	proc_close(&proc);
	child_kill(&child);
}

static struct verify_report verified(void)
{
	struct verify_report report;
	ck_no_err(verify_run(&proc, &report));
	return report;
}

HT_TEST(sockets_of_others_are_clean)
{
	setup(with_socket, "other");
	struct verify_report report = verified();
	ck_assert_int_eq(report.state, VERIFY_CLEAN);
	ck_assert(!report.part[VERIFY_DESCRIPTORS].ours);
	finish();
}

HT_TEST(a_socket_of_ours_is_seen_with_and_without_a_main_thread)
{
	void (*const body[])(const void *) = {with_socket, without_main_thread};
	for (size_t i = 0; i < HT_ARRAY_SIZE(body); i++) {
		char number[32];
		setup(body[i], "heaptap-agent");
		snprintf(number, sizeof(number), "number %ld ", child.value);
		/* Others see the child's end a moment later. */
		while (i == 1 && child_state(child.pid) != 'Z')
			sched_yield();
		struct verify_report report = verified();
		ck_assert_int_eq(report.state, VERIFY_REMAINS);
		ck_assert_ptr_nonnull(strstr(report.part[VERIFY_DESCRIPTORS].text, number));
		finish();
	}
}

HT_TEST(a_socket_of_ours_is_seen_in_the_table_of_a_thread)
{
	char number[32];
	setup(in_a_thread_alone, "heaptap-agent");
	snprintf(number, sizeof(number), "number %ld of thread ", child.value);
	/* With kcmp(2), and where a container does not allow it. */
	for (int i = 0; i < 2; i++) {
		struct verify_report report = verified();
		const char *text = report.part[VERIFY_DESCRIPTORS].text;
		ck_assert_int_eq(report.state, VERIFY_REMAINS);
		ck_assert_msg(strstr(text, number) != NULL, "%s", text);
		deny_calls(SYS_kcmp, EPERM);
	}
	finish();
}

/* verify.c calls getpeername for each socket: here the child ends during such a call. */
static bool ends_among_descriptors;
int getpeername(int fd, struct sockaddr *restrict addr, socklen_t *restrict length)
{
	if (ends_among_descriptors)
		kill(child.pid, SIGKILL);
	while (ends_among_descriptors && child_state(child.pid) != 'Z')
		sched_yield();
	return (int)syscall(SYS_getpeername, fd, addr, length);
}

HT_TEST(a_process_that_ends_meanwhile_is_gone)
{
	struct verify_report report;
	setup(with_socket, "heaptap-agent");
	ends_among_descriptors = true;
	ck_err(verify_run(&proc, &report), HT_ERR_TARGET_GONE);
	ends_among_descriptors = false;
	finish();
}

HT_TEST(descriptors_that_cannot_be_read_are_not_clean)
{
	static const long calls[] = {SYS_pidfd_getfd, SYS_readlinkat};
	struct verify_report report;
	setup(with_socket, "heaptap-agent");
	for (size_t i = 0; i < HT_ARRAY_SIZE(calls); i++) {
		deny_calls(calls[i], ENOMEM);
		ck_err(verify_run(&proc, &report), HT_ERR_SYS);
	}
	finish();
}

/* Puts a stub into memory that only the child has: a heaptap was killed before it removed the stub.
 */
static void put_stub(void)
{
	static struct stub stub;
	const struct stub_map map = {.image_bytes = HT_PAGE_BYTES, .name = "test"};
	const struct stub_thread thread = {0};
	struct proc_maps maps;
	struct modules modules;
	struct remote_slack slack;
	ck_no_err(proc_maps_read(&proc, &maps));
	ck_no_err(modules_read(&proc, &maps, &modules));
	ck_no_err(remote_slack_choose(&proc, &modules, &maps, 0, &slack));
	ck_no_err(stub_make_map(&map, slack.addr, &thread, &stub));
	ck_no_err(memory_write(&proc, slack.addr, stub.bytes, stub.length));
	modules_deinit(&modules);
	proc_maps_deinit(&maps);
}

HT_TEST(a_stub_behind_the_code_is_seen)
{
	setup(with_socket, "other");
	put_stub();
	struct verify_report report = verified();
	ck_assert_int_eq(report.state, VERIFY_REMAINS);
	ck_assert(report.part[VERIFY_CODE].ours);
	ck_assert_ptr_nonnull(strstr(report.part[VERIFY_CODE].text, "heaptap's attach code"));
	finish();
}

HT_SUITE("attach/verify")
