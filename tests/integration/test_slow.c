/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap makes no progress: it is stopped, its output is full, or its output has no reader. The
 * target waits once at most, and heaptap counts each dropped event.
 *
 * HEAPTAP_STOP_S: for how long it is stopped (8).
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define STOP_S_DEFAULT 8
#define ANSWER_MS      60000
#define STALL_MS       8000 /* longer than heaptap waits for the reader of a pipe */
#define LOSSLESS_PAIRS 1000000u
#define CALLS_MIN      2000000u /* more events than buffers and socket hold */
#define STOP_MS_MAX    80000u
#define WAITS_MAX      301u /* a thread waits at most 0.3 s, in sleeps of 1 ms or longer */
#define SLEEPS_OTHER   100u /* sleeps for other reasons: commands, page faults */

static unsigned stop_ms(void)
{
	const char *seconds = getenv("HEAPTAP_STOP_S");
	return 1000 * (seconds ? (unsigned)strtoul(seconds, NULL, 10) : STOP_S_DEFAULT);
}

static void start(struct victim *victim)
{
	victim_start(victim, (const char *[]){run_built("tests/targets/hostile"), NULL});
}

/* Has the target call the allocator for `ms`. No single call may take half of that time. Returns
 * the number of calls. */
static uint64_t press(struct victim *victim, unsigned ms)
{
	char command[32];
	uint64_t calls, longest_ns;
	snprintf(command, sizeof(command), "press %u", ms);
	char *answer = victim_ask(victim, command, ms + ANSWER_MS);
	ck_assert_int_eq(sscanf(answer, "calls %lu longest %lu", &calls, &longest_ns), 2);
	free(answer);
	printf("longest call %.1f ms\n", (double)longest_ns / 1e6);
	ck_assert_uint_lt(longest_ns, ms / 2 * 1000000ull);
	return calls;
}

/* How often the target's only thread has slept. */
static uint64_t sleeps_of(pid_t pid)
{
	char line[256];
	uint64_t count = 0;
	snprintf(line, sizeof(line), "/proc/%d/status", pid);
	FILE *status = fopen(line, "re");
	ck_assert_ptr_nonnull(status);
	while (fgets(line, sizeof(line), status))
		sscanf(line, "voluntary_ctxt_switches: %lu", &count);
	fclose(status);
	return count;
}

HT_TEST(stopped)
{
	struct victim victim;
	struct tap tap;
	start(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/hostile");
	kill(tap.run.pid, SIGSTOP);
	uint64_t sleeps = sleeps_of(victim.pid);
	uint64_t calls = 0, end_ms = run_now_ms() + STOP_MS_MAX;
	do
		calls += press(&victim, stop_ms());
	while (calls < CALLS_MIN && run_now_ms() < end_ms);
	sleeps = sleeps_of(victim.pid) - sleeps;
	printf("slept %lu times\n", sleeps);
	ck_assert_uint_le(sleeps, WAITS_MAX + SLEEPS_OTHER);
	kill(tap.run.pid, SIGCONT);
	json_t *attach = tap_stop(&tap, 7);
	tap_check_balance(attach, calls);
	ck_assert_uint_gt(report_u64(attach, "dropped_events"), 0);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	json_decref(report_load(tap.trace));
}

/* Starts a lossless capture, stops heaptap, and lets the target work until it waits for heaptap. */
static struct procsnap *start_waiting(struct victim *victim, struct tap *tap)
{
	char command[32];
	start(victim);
	struct procsnap *before = procsnap_take(victim->pid, 0);
	tap_start(tap, victim->pid, (const char *[]){"--lossless", NULL});
	tap_wait_on(tap, "/hostile");
	kill(tap->run.pid, SIGSTOP);
	snprintf(command, sizeof(command), "load %u", LOSSLESS_PAIRS);
	victim_send(victim, command);
	/* The agent waits for heaptap in ppoll. */
	run_until(child_call(victim->pid) == SYS_ppoll, ANSWER_MS);
	return before;
}

/* Does verify report the thread inside heaptap's code? Ask repeatedly: it waits in sleeps of 1
 * ms. */
static bool is_told_inside(pid_t pid)
{
	json_auto_t *verify = report_run("verify", pid, 6);
	bool told = json_is_true(report_at(verify, "parts.threads.heaptap")) &&
		    strstr(report_text(verify, "parts.threads.text"), "is inside heaptap's code");
	return told;
}

/* With --lossless the target waits as long as heaptap is stopped, and nothing is lost. */
HT_TEST(stopped_lossless)
{
	struct victim victim;
	struct tap tap;
	struct procsnap *before = start_waiting(&victim, &tap);
	run_until(is_told_inside(victim.pid), ANSWER_MS);
	kill(tap.run.pid, SIGCONT);
	free(victim_line(&victim, ANSWER_MS));
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	tap_check_balance(attach, 2 * LOSSLESS_PAIRS);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(killed_lossless)
{
	struct victim victim;
	struct tap tap;
	struct procsnap *before = start_waiting(&victim, &tap);
	run_deinit(&tap.run);
	free(victim_line(&victim, ANSWER_MS));
	procsnap_wait(before, victim.pid, ANSWER_MS);
	procsnap_destroy(before);
	victim_stop(&victim);
}

/* With heaptap and guardian dead the agent stays; the target keeps working until recover. */
HT_TEST(killed_lossless_with_its_guardian)
{
	struct victim victim;
	struct tap tap;
	char pid[16], *err;
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	struct procsnap *before = start_waiting(&victim, &tap);
	pid_t guardian = tap_guardian(&tap);
	kill(guardian, SIGKILL);
	run_deinit(&tap.run);
	ck_assert_int_eq(waitpid(guardian, NULL, 0), guardian);
	free(victim_line(&victim, ANSWER_MS));
	free(victim_ask(&victim, "load 1000000", ANSWER_MS));
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	int status = run_program(
		(const char *[]){run_built("heaptap"), "recover", "-q", "-p", pid, NULL}, ANSWER_MS,
		NULL, &err);
	ck_assert_msg(status == 0, "%d: %s", status, err);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	free(err);
}

HT_TEST(pipe_without_a_reader)
{
	struct victim victim;
	char pid[16];
	int pipe_fd[2];
	start(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	ck_assert_int_eq(pipe2(pipe_fd, O_CLOEXEC), 0);
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	struct tap tap = {.target = victim.pid};
	run_start_to(&tap.run,
		(const char *[]){run_built("heaptap"), "attach", "-p", pid, "-o", "-", NULL},
		pipe_fd[1]);
	tap_wait_on(&tap, "/hostile");
	press(&victim, STALL_MS);
	ck_assert_ptr_null(tap_wait(&tap, 7));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(full_disk)
{
	struct victim victim;
	char path[4200], pid[16], *out;
	if (geteuid() != 0) {
		printf("skipped: slow: needs root for a file system of its own\n");
		return;
	}
	HT_FREED char *directory = tmpdir_path("small");
	ck_assert_int_eq(mkdir(directory, 0755), 0);
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_int_eq(mount("small", directory, "tmpfs", 0, "size=100m"), 0);
	start(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	snprintf(path, sizeof(path), "%s/trace", directory);
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	struct tap tap = {.target = victim.pid};
	run_start(&tap.run, (const char *[]){run_built("heaptap"), "attach", "-p", pid, "-o", path,
				    "--json", NULL});
	tap_wait_on(&tap, "/hostile");
	snprintf(path, sizeof(path), "%s/rest", directory);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(posix_fallocate(fd, 0, 60 << 20), 0);
	close(fd);
	press(&victim, STALL_MS);
	json_t *attach = tap_wait(&tap, 7);
	out = strdup(report_text(attach, "ended"));
	ck_assert_str_eq(out, "disk_full");
	free(out);
	ck_assert_uint_le(report_u64(attach, "level"), 1);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	snprintf(path, sizeof(path), "%s/trace", directory);
	json_decref(report_load(path));
	ck_assert_int_eq(umount2(directory, MNT_DETACH), 0);
}

HT_SUITE("integration/slow")
