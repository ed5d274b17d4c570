/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture whose only leftover is the jump page: its status, what the guardian does afterwards
 * (--linger), and that repeated captures leave no more than that one page.
 */
#include <dirent.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define ANSWER_MS  30000
#define HEAPTAP_MS 60000
#define GONE_MS	   60000
#define CAPTURES   20u

static struct victim victim;
static struct procsnap *before;

static void start(void)
{
	/* The process that heaptap leaves becomes a child of the test. */
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	victim_start(&victim, (const char *[]){run_built("tests/targets/escape"), NULL});
	free(victim_ask(&victim, "take", ANSWER_MS));
	free(victim_ask(&victim, "use", ANSWER_MS)); /* the first thread changes dispositions */
	before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
}

/* Makes a capture in which the program keeps addresses of malloc and free. heaptap must exit with
 * `status`, and the jump page must stay. */
static json_t *capture(const char *const extra[], int status)
{
	struct tap tap;
	tap_start(&tap, victim.pid, extra);
	tap_wait_on(&tap, "/escape");
	free(victim_ask(&victim, "take", ANSWER_MS));
	json_t *attach = tap_stop(&tap, status);
	ck_assert_uint_eq(report_u64(attach, "level"), 2);
	ck_assert_uint_ne(report_u64(attach, "page"), 0);
	ck_assert_int_eq(unlink(tap.trace), 0);
	return attach;
}

static void capture_and_linger(const char *time)
{
	json_t *attach = capture((const char *[]){"--linger", time, NULL}, 0);
	ck_assert_uint_gt(report_u64(attach, "linger_ns"), 0);
	json_decref(attach);
}

static unsigned pages_of_ours(void)
{
	char path[32], line[4352];
	unsigned count = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", victim.pid);
	FILE *maps = fopen(path, "re");
	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long lo, hi;
		if (!strstr(line, "heaptap-"))
			continue;
		ck_assert_int_eq(sscanf(line, "%lx-%lx", &lo, &hi), 2);
		count += (unsigned)((hi - lo) / 4096);
	}
	fclose(maps);
	return count;
}

/* Counts the test's running children except the target, and reaps those that have ended. `ret` gets
 * the last running one, if there is one. */
static unsigned lingering(pid_t *ret)
{
	char path[64];
	unsigned count = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	FILE *children = fopen(path, "re");
	ck_assert_ptr_nonnull(children);
	for (pid_t pid; fscanf(children, "%d", &pid) == 1;)
		if (pid != victim.pid && waitpid(pid, NULL, WNOHANG) == 0) {
			*ret = pid;
			count++;
		}
	fclose(children);
	return count;
}

static bool lingers(void)
{
	pid_t pid;
	return lingering(&pid) > 0;
}

static void forget(void)
{
	free(victim_ask(&victim, "forget", ANSWER_MS));
}

static void finish(void)
{
	procsnap_verify(before, victim.pid);
	free(victim_ask(&victim, "take", ANSWER_MS));
	free(victim_ask(&victim, "use", ANSWER_MS));
	victim_stop(&victim);
}

HT_TEST(the_page_goes_when_the_program_has_forgotten_it)
{
	start();
	capture_and_linger("5m");
	ck_assert(lingers());
	ck_assert_uint_eq(pages_of_ours(), 1);
	free(victim_ask(&victim, "use", ANSWER_MS));
	forget();
	run_until(!pages_of_ours(), GONE_MS);
	run_until(!lingers(), GONE_MS);
	finish();
}

HT_TEST(status_and_words)
{
	struct run run;
	char pid[16];
	start();
	json_decref(capture((const char *[]){"--linger", "0", NULL}, 0));
	ck_assert(!lingers());
	json_t *attach = capture((const char *[]){"--strict", "--linger", "0", NULL}, 6);
	ck_assert(strstr(report_text(attach, "why"), "addresses of "));
	ck_assert_uint_eq(report_u64(attach, "linger_ns"), 0);
	json_decref(attach);
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	run_start(&run, (const char *[]){run_built("heaptap"), "attach", "-p", pid, "-d", "1ms",
				"-o", "/dev/null", "--linger", "0", NULL});
	ck_assert_int_eq(run_wait(&run, HEAPTAP_MS), 0);
	char *err = run_err(&run);
	ck_assert_msg(strstr(err, "one page of 4 KiB stays at 0x"), "%s", err);
	ck_assert_msg(strstr(err, "malloc") && strstr(err, "free"), "%s", err);
	ck_assert_msg(strstr(err, "harmless"), "%s", err);
	free(err);
	run_deinit(&run);
	json_decref(report_run("verify", victim.pid, 6));
	forget();
	json_decref(report_run("cleanup", victim.pid, 0));
	finish();
}

/* However many captures there were, one page stays, and one process waits until it can remove the
 * page. */
HT_TEST(captures_do_not_add_up)
{
	pid_t pid;
	start();
	for (unsigned i = 0; i < CAPTURES; i++) {
		capture_and_linger("5m");
		ck_assert_uint_eq(pages_of_ours(), 1);
		run_until(lingering(&pid) == 1, GONE_MS);
	}
	forget();
	run_until(!pages_of_ours(), GONE_MS);
	run_until(!lingers(), GONE_MS);
	finish();
}

/* Binds the socket name by which a new heaptap finds and ends the process that waits for the page.
 * Returns the socket. */
static int hold_gate(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char path[32], text[1024];
	unsigned long ticks;
	snprintf(path, sizeof(path), "/proc/%d/stat", victim.pid);
	FILE *stat = fopen(path, "re");
	ck_assert(stat && fgets(text, sizeof(text), stat));
	fclose(stat);
	const char *at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	ck_assert(at && sscanf(at, "%lu", &ticks) == 1);
	const int length = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1,
		"heaptap-linger-%d-%lu", victim.pid, ticks);
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(
		bind(fd, (struct sockaddr *)&addr,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)),
		0);
	return fd;
}

/* On a busy machine the process of an earlier capture may hold its socket name when the next
 * capture ends. */
HT_TEST(the_process_of_an_earlier_capture_ends_late)
{
	pid_t pid;
	start();
	const int gate = hold_gate();
	capture_and_linger("5m");
	ck_assert_uint_eq(lingering(&pid), 1);
	close(gate);
	forget();
	run_until(!pages_of_ours(), GONE_MS);
	run_until(!lingers(), GONE_MS);
	finish();
}

/* The process that waits for the page keeps no output, directory or session of heaptap's caller. */
HT_TEST(nothing_of_the_caller_is_held)
{
	char path[300], link[4096];
	struct dirent *entry;
	pid_t pid = 0;
	start();
	capture_and_linger("5m");
	ck_assert_uint_eq(lingering(&pid), 1);
	ck_assert_int_ne(getsid(pid), getsid(0));
	snprintf(path, sizeof(path), "/proc/%d/cwd", pid);
	ck_assert_int_eq(readlink(path, link, sizeof(link)), 1);
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, entry->d_name);
		ssize_t length = readlink(path, link, sizeof(link) - 1);
		if (length < 0)
			continue;
		link[length] = '\0';
		ck_assert_msg(!strcmp(link, "/dev/null") || strstr(link, "/proc/") ||
				      strstr(link, "socket:") || strstr(link, "pidfd"),
			"%s is open", link);
	}
	closedir(dir);
	forget();
	run_until(!lingers(), GONE_MS);
	finish();
}

HT_TEST(it_ends_with_the_process)
{
	start();
	capture_and_linger("5m");
	ck_assert(lingers());
	procsnap_drop(before);
	victim_kill(&victim);
	victim.pid = 0;
	run_until(!lingers(), GONE_MS);
}

HT_TEST(it_ends_with_the_time)
{
	start();
	capture_and_linger("300ms");
	run_until(!lingers(), GONE_MS);
	ck_assert_uint_eq(pages_of_ours(), 1);
	forget();
	json_decref(report_run("cleanup", victim.pid, 0));
	finish();
}

/* If the process that waits is killed, the page stays until the next capture or cleanup. */
HT_TEST(it_is_killed)
{
	pid_t pid = 0;
	start();
	capture_and_linger("5m");
	ck_assert_uint_eq(lingering(&pid), 1);
	kill(pid, SIGKILL);
	run_until(!lingers(), GONE_MS);
	forget();
	ck_assert_uint_eq(pages_of_ours(), 1);
	json_t *verify = report_run("verify", victim.pid, 6);
	ck_assert_str_eq(report_text(verify, "state"), "tombstone");
	json_decref(verify);
	json_decref(report_run("cleanup", victim.pid, 0));
	finish();
}

/* cleanup and recover end the process that waits for the page; it is no reason to refuse. */
HT_TEST(it_gives_way)
{
	start();
	capture_and_linger("5m");
	json_decref(report_run("verify", victim.pid, 6));
	ck_assert(lingers());
	json_decref(report_run("cleanup", victim.pid, 6));
	run_until(!lingers(), GONE_MS);
	capture_and_linger("5m");
	json_decref(report_run("recover", victim.pid, 6));
	run_until(!lingers(), GONE_MS);
	forget();
	json_decref(report_run("cleanup", victim.pid, 0));
	finish();
}

static pid_t child_of_victim(void)
{
	char path[64];
	pid_t child = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", victim.pid, victim.pid);
	FILE *children = fopen(path, "re");
	ck_assert_ptr_nonnull(children);
	ck_assert_int_eq(fscanf(children, "%d", &child), 1);
	fclose(children);
	return child;
}

static void capture_with_child(struct tap *tap, const char *const extra[], int status)
{
	tap_start(tap, victim.pid, extra);
	tap_wait_on(tap, "/escape");
	free(victim_ask(&victim, "take", ANSWER_MS));
	free(victim_ask(&victim, "branch", ANSWER_MS));
	forget();
	json_auto_t *attach = tap_stop(tap, status);
	ck_assert_uint_le(report_u64(attach, "level"), 1);
	ck_assert_uint_eq(json_array_size(report_at(attach, "children_left")), 0);
	ck_assert_uint_eq(json_array_size(report_at(attach, "children_pages")), 1);
	ck_assert_int_eq(json_integer_value(json_array_get(report_at(attach, "children_pages"), 0)),
		child_of_victim());
}

/* A child that was forked while it had addresses of hooks keeps its own page. With --linger that is
 * no reason for status 6. */
HT_TEST(children_keep_their_page)
{
	struct tap tap;
	start();
	capture_with_child(&tap, (const char *[]){"--linger", "5m", NULL}, 0);
	pid_t child = child_of_victim();
	ck_assert(lingers());
	json_decref(report_run("verify", child, 6));
	kill(child, SIGKILL);
	run_until(!lingers(), GONE_MS);
	procsnap_drop(before);
	victim_stop(&victim);
}

HT_TEST(children_keep_their_page_strictly)
{
	struct tap tap;
	start();
	capture_with_child(&tap, (const char *[]){"--linger", "0", "--strict", NULL}, 6);
	ck_assert(!lingers());
	kill(child_of_victim(), SIGKILL);
	procsnap_drop(before);
	victim_stop(&victim);
}

HT_SUITE("integration/linger")
