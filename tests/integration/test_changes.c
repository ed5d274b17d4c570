/* SPDX-License-Identifier: Apache-2.0
 *
 * The target ends, execs or forks: heaptap reports that, the trace is valid, a new program image is
 * never changed, and children that outlive the capture are as clean as their parent.
 */
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/gotwords.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define ANSWER_MS 30000
#define NOBODY	  65534

static void start_target(struct victim *victim)
{
	/* Orphaned children become children of the test, which can end them. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	victim_start(victim, (const char *[]){run_built("tests/targets/changer"), NULL});
}

static void start_tapped(struct victim *victim, struct tap *tap)
{
	start_target(victim);
	tap_start(tap, victim->pid, NULL);
	tap_wait_on(tap, "/changer");
}

static pid_t ask_pid(struct victim *victim, const char *command)
{
	char *answer = victim_ask(victim, command, ANSWER_MS);
	pid_t pid = (pid_t)strtol(answer, NULL, 10);
	free(answer);
	ck_assert_int_gt(pid, 0);
	return pid;
}

static void read_comm(pid_t pid, char comm[32])
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	FILE *file = fopen(path, "re");
	ck_assert_msg(file && fgets(comm, 32, file), "process %d is gone", pid);
	fclose(file);
	ck_assert_msg(strncmp(comm, "WRONG", 5) != 0, "process %d: %s", pid, comm);
}

static bool comm_differs(pid_t pid, const char *before)
{
	char now[32] = "";
	read_comm(pid, now);
	return strcmp(now, before) != 0;
}

/* Checks that the child still works: its name, which shows its progress, must change 20 times. The
 * child checks its results and puts "WRONG" into its name if one is wrong. */
static void check_goes_on(pid_t child)
{
	char before[32];
	for (int i = 0; i < 20; i++) {
		read_comm(child, before);
		run_until(comm_differs(child, before), ANSWER_MS);
	}
}

static size_t links_of_heaptap(pid_t pid)
{
	char path[64], link[128];
	size_t count = 0;
	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
		ssize_t length = readlink(path, link, sizeof(link) - 1);
		link[length < 0 ? 0 : length] = '\0';
		count += strstr(link, "heaptap-") || (fd > 2 && !strncmp(link, "socket:", 7));
	}
	return count;
}

static bool maps_heaptap(pid_t pid)
{
	char line[4400];
	bool any = false;
	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	FILE *maps = fopen(line, "re");
	ck_assert_msg(maps, "process %d is gone", pid);
	while (fgets(line, sizeof(line), maps))
		any |= strstr(line, "heaptap-") != NULL;
	fclose(maps);
	return any;
}

static bool is_clean(pid_t pid)
{
	return !maps_heaptap(pid) && !links_of_heaptap(pid) && !gotwords_tapped(pid, "", NULL);
}

static void check_clean(pid_t child)
{
	ck_assert(!maps_heaptap(child));
	ck_assert_uint_eq(links_of_heaptap(child), 0);
	ck_assert_uint_eq(gotwords_tapped(child, "", NULL), 0);
	check_goes_on(child);
}

static bool is_running(pid_t pid)
{
	char path[64], state = 'Z';
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *stat = fopen(path, "re");
	bool read = stat && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1;
	if (stat)
		fclose(stat);
	return read && state != 'Z';
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void check_trace(const struct tap *tap, enum rec_end_reason reason)
{
	struct tracefile file;
	tracefile_load(tap->trace, &file);
	ck_assert(file.complete && file.ended);
	ck_assert_int_eq(file.end_reason, reason);
	tracefile_deinit(&file);
}

/* --- children --------------------------------------------------------------------------------- */

HT_TEST(children_outlive_the_capture)
{
	struct victim victim;
	struct tap tap;
	pid_t child[3];
	start_tapped(&victim, &tap);
	for (size_t i = 0; i < HT_ARRAY_SIZE(child); i++) {
		child[i] = ask_pid(&victim, "fork");
		check_goes_on(child[i]);
	}
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_ge(report_u64(attach, "children_cleaned"), HT_ARRAY_SIZE(child));
	ck_assert_uint_eq(json_array_size(report_at(attach, "children_left")), 0);
	json_decref(attach);
	for (size_t i = 0; i < HT_ARRAY_SIZE(child); i++)
		check_clean(child[i]);
	victim_stop(&victim);
	for (size_t i = 0; i < HT_ARRAY_SIZE(child); i++)
		end_child(child[i]);
}

HT_TEST(children_outlive_the_target)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap);
	pid_t child = ask_pid(&victim, "fork"), other = ask_pid(&victim, "fork");
	victim_kill(&victim);
	json_decref(tap_wait(&tap, 5));
	check_trace(&tap, REC_END_TARGET_EXIT);
	check_clean(child);
	check_clean(other);
	end_child(child);
	end_child(other);
}

HT_TEST(target_becomes_a_daemon)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap);
	pid_t child = ask_pid(&victim, "daemon");
	ck_assert_int_eq(victim_wait(&victim, ANSWER_MS), 0);
	json_decref(tap_wait(&tap, 5));
	check_trace(&tap, REC_END_TARGET_EXIT);
	check_clean(child);
	end_child(child);
}

/* heaptap names a stopped child that it cannot clean. The guardian cleans the child when it is
 * continued. */
HT_TEST(stopped_child_is_named)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap);
	pid_t child = ask_pid(&victim, "fork");
	kill(child, SIGSTOP);
	json_t *attach = tap_stop(&tap, 6);
	ck_assert_uint_le(report_u64(attach, "level"), 1);
	const json_t *left = report_at(attach, "children_left");
	ck_assert_uint_eq(json_array_size(left), 1);
	ck_assert_int_eq(json_integer_value(json_array_get(left, 0)), child);
	json_decref(attach);
	victim_prove_alive(&victim);
	kill(child, SIGCONT);
	run_until(is_clean(child), ANSWER_MS);
	check_clean(child);
	tap_verify_soon(&tap, ANSWER_MS);
	victim_stop(&victim);
	end_child(child);
}

/* heaptap also names the child when the capture ends with an error, here because its guardian was
 * killed. */
HT_TEST(stopped_child_is_named_beside_an_error)
{
	struct victim victim;
	struct tap tap;
	char name[16];
	start_tapped(&victim, &tap);
	pid_t child = ask_pid(&victim, "fork");
	snprintf(name, sizeof(name), " %d\n", child);
	kill(child, SIGSTOP);
	kill(tap_guardian(&tap), SIGKILL);
	ck_assert_int_eq(run_wait(&tap.run, ANSWER_MS), 6);
	char *err = run_err(&tap.run);
	ck_assert_msg(
		strstr(err, "the guardian process was killed") && strstr(err, name), "%s", err);
	free(err);
	run_deinit(&tap.run);
	tap_verify(&tap);
	victim_prove_alive(&victim);
	victim_stop(&victim);
	end_child(child);
}

/* heaptap looks at the child a second time after it has cleaned another child. It must still name
 * the reason of the first look. */
HT_TEST(child_that_keeps_addresses_is_named_with_the_reason)
{
	static const char *const commands[] = {"branch", "take", "branch", "forget"};
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){run_built("tests/targets/escape"), NULL});
	tap_start(&tap, victim.pid, (const char *[]){"-v", NULL});
	tap_wait_on(&tap, "/escape");
	for (size_t i = 0; i < HT_ARRAY_SIZE(commands); i++)
		free(victim_ask(&victim, commands[i], ANSWER_MS));
	kill(tap.run.pid, SIGINT);
	ck_assert_int_eq(run_wait(&tap.run, ANSWER_MS), 0);
	char *err = run_err(&tap.run);
	ck_assert_msg(
		strstr(err, "children forked during the capture: 1, nothing is left"), "%s", err);
	ck_assert_msg(strstr(err, "one page of 4 KiB stays in 1 child "), "%s", err);
	free(err);
	run_deinit(&tap.run);
	tap_verify(&tap);
	victim_stop(&victim);
}

static void become_nobody(void)
{
	if (getuid() == 0)
		ck_assert(!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY));
}

HT_TEST(child_that_may_not_be_inspected_is_named)
{
	struct victim victim;
	struct tap tap;
	char name[16];
	become_nobody();
	start_tapped(&victim, &tap);
	pid_t child = ask_pid(&victim, "hide");
	snprintf(name, sizeof(name), " %d", child);
	kill(tap.run.pid, SIGINT);
	ck_assert_int_eq(run_wait(&tap.run, ANSWER_MS), 6);
	char *out = run_out(&tap.run), *err = run_err(&tap.run);
	ck_assert_msg(strstr(err, name) && strstr(err, "not dumpable"), "%s", err);
	json_t *attach = report_parse(out);
	ck_assert_uint_le(report_u64(attach, "level"), 1);
	const json_t *left = report_at(attach, "children_left");
	ck_assert_uint_ge(json_array_size(left), 1);
	bool listed = false;
	for (size_t i = 0; i < json_array_size(left); i++)
		listed |= json_integer_value(json_array_get(left, i)) == child;
	ck_assert_msg(listed, "%s", out);
	json_decref(attach);
	free(out);
	free(err);
	run_deinit(&tap.run);
	ck_assert(is_running(child));
	tap_verify(&tap);
	victim_stop(&victim);
	end_child(child);
}

static void recover(pid_t pid)
{
	json_decref(report_run("recover", pid, 0));
}

static void end_heaptap(struct tap *tap)
{
	/* Stop heaptap first: it would detach when its guardian ends. */
	kill(tap->run.pid, SIGSTOP);
	end_child(tap_guardian(tap));
	run_deinit(&tap->run);
}

/* After the death of heaptap and its guardian, recover works on each process separately. */
HT_TEST(children_are_recovered)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap);
	pid_t child = ask_pid(&victim, "fork"), other = ask_pid(&victim, "fork");
	check_goes_on(child);
	end_heaptap(&tap);
	recover(child);
	check_clean(child);
	recover(victim.pid);
	tap_verify(&tap);
	recover(other);
	check_clean(other);
	check_goes_on(child);
	victim_stop(&victim);
	end_child(child);
	end_child(other);
}

/* Both processes share memory, so one recover cleans the mappings; each has its own descriptors. */
static void recover_one_of_two(bool the_target)
{
	struct victim victim;
	struct tap tap;
	start_target(&victim);
	pid_t before = ask_pid(&victim, "share");
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/changer");
	pid_t since = ask_pid(&victim, "share");
	ck_assert_uint_eq(links_of_heaptap(victim.pid), 1);
	ck_assert_uint_eq(links_of_heaptap(since), 1);
	end_heaptap(&tap);
	recover(the_target ? victim.pid : before);
	ck_assert(is_clean(victim.pid) && is_clean(before) && is_clean(since));
	ck_assert(is_running(before) && is_running(since));
	tap_verify(&tap);
	victim_stop(&victim);
	waitpid(before, NULL, 0);
	waitpid(since, NULL, 0);
}

HT_TEST(recovers_a_memory_sharer_with_the_target)
{
	recover_one_of_two(true);
	recover_one_of_two(false);
}

/* --- many children ---------------------------------------------------------------------------- */

static void cycle(struct victim *victim)
{
	struct tap tap;
	struct procsnap *before =
		procsnap_take(victim->pid, PROCSNAP_MASKS_CHANGE | PROCSNAP_SYSTEM_CALLED);
	tap_start(&tap, victim->pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_on(&tap, "/changer");
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	unlink(tap.trace);
	procsnap_verify(before, victim->pid);
	victim_prove_alive(victim);
}

static void storm_of(const char *command)
{
	struct victim victim;
	start_target(&victim);
	free(victim_ask(&victim, command, ANSWER_MS));
	for (int i = 0; i < 5; i++)
		cycle(&victim);
	victim_stop(&victim);
}

HT_TEST(storm_of_fork)
{
	storm_of("storm fork");
}

HT_TEST(storm_of_vfork)
{
	storm_of("storm vfork");
}

HT_TEST(storm_of_posix_spawn)
{
	storm_of("storm spawn");
}

HT_TEST(storm_of_system)
{
	storm_of("storm system");
}

/* A second process shares the target's memory (CLONE_VM). It is in no task list of the target, and
 * runs the agent's code most of the time. */
HT_TEST(memory_is_shared)
{
	struct victim victim;
	start_target(&victim);
	pid_t sharer = ask_pid(&victim, "share");
	for (int i = 0; i < 10; i++) {
		cycle(&victim);
		ck_assert_int_eq(kill(sharer, 0), 0);
		ck_assert(is_running(sharer));
	}
	victim_stop(&victim);
	waitpid(sharer, NULL, 0);
}

/* A process that starts to share the memory during the capture. It has a copy of the descriptors,
 * but must not be cleaned like a forked child, because its memory is the target's. */
HT_TEST(a_process_that_comes_shares_the_memory)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap);
	pid_t sharer = ask_pid(&victim, "share");
	ck_assert_uint_eq(links_of_heaptap(sharer), 1);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	ck_assert(is_clean(sharer) && is_running(sharer));
	victim_stop(&victim);
	waitpid(sharer, NULL, 0);
}

static void outlive(bool by_exec)
{
	struct victim victim;
	struct tap tap;
	start_target(&victim);
	pid_t sharer = ask_pid(&victim, "share-on");
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/changer");
	if (by_exec)
		free(victim_ask(&victim, "exec", ANSWER_MS));
	else
		victim_kill(&victim);
	json_decref(tap_wait(&tap, 5));
	check_trace(&tap, by_exec ? REC_END_TARGET_EXEC : REC_END_TARGET_EXIT);
	if (by_exec)
		victim_stop(&victim);
	ck_assert(is_running(sharer));
	ck_assert(!maps_heaptap(sharer));
	ck_assert_uint_eq(links_of_heaptap(sharer), 0);
	ck_assert_uint_eq(gotwords_tapped(sharer, "", NULL), 0);
	end_child(sharer);
}

HT_TEST(memory_sharer_outlives_the_target)
{
	outlive(false);
	outlive(true);
}

/* The sharer is older than the target, as the parent in vfork is older than its child. */
HT_TEST(older_memory_sharer_outlives_the_target)
{
	struct victim victim;
	struct tap tap;
	start_target(&victim);
	pid_t sharer = ask_pid(&victim, "share-on");
	tap_start(&tap, sharer, NULL);
	tap_wait_on(&tap, "/changer");
	end_child(sharer);
	json_decref(tap_wait(&tap, 5));
	check_trace(&tap, REC_END_TARGET_EXIT);
	ck_assert(is_clean(victim.pid));
	victim_stop(&victim);
}

/* --- another program -------------------------------------------------------------------------- */

static void become(const char *command)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap);
	char *ready = victim_ask(&victim, command, ANSWER_MS);
	ck_assert_int_eq(strncmp(ready, "ready ", 6), 0);
	free(ready);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	json_decref(tap_wait(&tap, 5));
	check_trace(&tap, REC_END_TARGET_EXEC);
	victim_prove_alive(&victim);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(exec_by_the_main_thread)
{
	become("exec");
}

HT_TEST(exec_by_another_thread)
{
	become("exec-thread");
}

HT_SUITE("integration/changes")
