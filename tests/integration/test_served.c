/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets that serve their own memory or the trace's file system, and do not answer: heaptap must
 * not hang, and the target goes on. Needs root and /dev/fuse.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/gotwords.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define ANSWER_MS  60000
#define HEAPTAP_MS 100000

static bool is_possible(void)
{
	if (geteuid() == 0 && access("/dev/fuse", R_OK | W_OK) == 0)
		return true;
	printf("skipped: served: needs root and /dev/fuse\n");
	return false;
}

static void start(struct victim *victim)
{
	HT_FREED char *directory = tmpdir_path("served");
	ck_assert_int_eq(mkdir(directory, 0755), 0);
	victim_start(victim, (const char *[]){run_built("tests/targets/served"), directory, NULL});
}

static void order(struct victim *victim, const char *command)
{
	HT_FREED char *answer = victim_ask(victim, command, ANSWER_MS);
	ck_assert_str_eq(answer, "done");
}

/* Makes a whole capture, which must leave nothing. */
static void capture(struct victim *victim)
{
	struct tap tap;
	tap_start(&tap, victim->pid, NULL);
	tap_wait_on(&tap, "/served");
	free(victim_ask(victim, "press 50", ANSWER_MS));
	tap_check_clean(tap_stop(&tap, 0));
	json_decref(report_load(tap.trace));
}

HT_TEST(code_of_a_file_system_that_answers)
{
	struct victim victim;
	if (!is_possible())
		return;
	start(&victim);
	order(&victim, "map");
	struct procsnap *before = procsnap_take(victim.pid, 0);
	capture(&victim);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* Is heaptap's lock held? Workers that cannot be killed hold it until the file system answers. */
static bool is_locked(const struct victim *victim)
{
	char name[32], line[256];
	bool found = false;
	snprintf(name, sizeof(name), "@heaptap-%d-", victim->pid);
	FILE *sockets = fopen("/proc/net/unix", "re");
	ck_assert_ptr_nonnull(sockets);
	while (!found && fgets(line, sizeof(line), sockets))
		found = strstr(line, name) != NULL;
	fclose(sockets);
	return found;
}

HT_TEST(code_that_cannot_be_read)
{
	static const char *const commands[] = {"attach", "doctor", "verify", "recover", "cleanup"};
	struct victim victim;
	struct run runs[HT_ARRAY_SIZE(commands)];
	char pid[16];
	if (!is_possible())
		return;
	start(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	order(&victim, "trap");
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	/* Run all commands at once, because each waits for the timeout of the file system. */
	for (size_t i = 0; i < HT_ARRAY_SIZE(commands); i++)
		run_start(&runs[i],
			(const char *[]){run_built("heaptap"), commands[i], "-p", pid, NULL});
	for (size_t i = 0; i < HT_ARRAY_SIZE(commands); i++) {
		int status = run_wait(&runs[i], HEAPTAP_MS);
		char *err = run_err(&runs[i]);
		ck_assert_msg(status == 3, "%s: %d: %s", commands[i], status, err);
		ck_assert_msg(
			strstr(err, "does not answer") && strchr(err, '\n') == strrchr(err, '\n'),
			"%s: %s", commands[i], err);
		free(err);
		run_deinit(&runs[i]);
	}
	order(&victim, "trap"); /* the target's mmap does not wait for heaptap */
	order(&victim, "resume");
	run_until(!is_locked(&victim), ANSWER_MS);
	capture(&victim);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

static void open_it(const void *path)
{
	child_ready(0);
	_exit(open(path, O_RDONLY | O_CLOEXEC) < 0);
}

/* The only thread waits for a file system. Neither a stop nor SIGKILL ends that wait, so the thread
 * cannot run a stub. */
HT_TEST(a_thread_that_waits_for_a_file_system)
{
	struct victim server;
	char path[4300], pid[16], *err, *trace = tmpdir_path("none");
	if (!is_possible())
		return;
	start(&server);
	order(&server, "stall all");
	char *directory = tmpdir_path("served"), *full = realpath(directory, NULL);
	snprintf(path, sizeof(path), "/proc/%d/root%s/code", server.pid, full);
	struct child reader = child_fork(open_it, path);
	run_until(child_call(reader.pid) == SYS_openat, ANSWER_MS);
	struct procsnap *before = procsnap_take(reader.pid, 0);
	snprintf(pid, sizeof(pid), "%d", reader.pid);
	int status = run_program((const char *[]){run_built("heaptap"), "attach", "-q", "-p", pid,
					 "-o", trace, NULL},
		HEAPTAP_MS, NULL, &err);
	ck_assert_msg(status == 3 && strstr(err, "no thread of the process could be stopped"),
		"%d: %s", status, err);
	ck_assert_ptr_eq(strchr(err, '\n'), strrchr(err, '\n'));
	ck_assert_int_ne(access(trace, F_OK), 0);
	procsnap_verify(before, reader.pid);
	order(&server, "resume");
	ck_assert_int_eq(waitpid(reader.pid, &status, 0), reader.pid);
	ck_assert_int_eq(status, 0);
	victim_stop(&server);
	free(err);
	free(full);
	free(directory);
	free(trace);
}

/* heaptap does not read pages that stall, so they may hold addresses of hooks: the jump page stays
 * until the next capture. */
HT_TEST(code_that_stalls_during_the_capture)
{
	struct victim victim;
	struct tap tap;
	if (!is_possible())
		return;
	start(&victim);
	order(&victim, "map");
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MODULES_GROW);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/served");
	order(&victim, "trap");
	for (int i = 0; i < 5; i++) {
		order(&victim, "trap"); /* the target's mmap does not wait for heaptap */
		free(victim_ask(&victim, "press 500", ANSWER_MS));
	}
	json_t *attach = tap_stop(&tap, 6);
	ck_assert_uint_eq(report_u64(attach, "level"), 2);
	json_decref(attach);
	ck_assert_uint_eq(gotwords_tapped(victim.pid, "/served", NULL), 0);
	order(&victim, "resume");
	json_decref(report_load(tap.trace));
	capture(&victim);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

static unsigned mappings_of_ours(pid_t pid)
{
	char path[32], line[4352];
	unsigned count = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "/memfd:heaptap-") != NULL;
	fclose(maps);
	return count;
}

/* Only the guardian is left, and no process would kill it: it must not read memory that stalls. */
HT_TEST(code_that_stalls_before_heaptap_is_killed)
{
	struct victim victim;
	struct tap tap;
	if (!is_possible())
		return;
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	start(&victim);
	order(&victim, "map");
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MODULES_GROW);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/served");
	/* Stop heaptap, so that it does not read the new mapping before it is killed. */
	kill(tap.run.pid, SIGSTOP);
	order(&victim, "trap");
	kill(tap.run.pid, SIGKILL);
	run_wait(&tap.run, HEAPTAP_MS);
	run_until(gotwords_tapped(victim.pid, "/served", NULL) == 0, HEAPTAP_MS);
	order(&victim, "trap"); /* its own mmap does not wait for the guardian */
	run_until(mappings_of_ours(victim.pid) == 1, HEAPTAP_MS);
	order(&victim, "resume");
	run_until(tap_guardian_is_done(victim.pid), HEAPTAP_MS);
	run_deinit(&tap.run);
	unlink(tap.trace);
	capture(&victim);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(memory_of_userfaultfd)
{
	struct victim victim;
	if (!is_possible())
		return;
	start(&victim);
	order(&victim, "fault");
	struct procsnap *before = procsnap_take(victim.pid, 0);
	capture(&victim);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_SUITE_WAITING(
	"integration/served", code_that_cannot_be_read, a_thread_that_waits_for_a_file_system)
