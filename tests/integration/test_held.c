/* SPDX-License-Identifier: Apache-2.0
 *
 * The target changes between heaptap's last check and its stub (tests/targets/waiter.c waits for
 * that moment). The stub must do nothing that a check just before it would not allow.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/support/gotwords.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define ANSWER_MS  20000
#define HEAPTAP_MS 60000
#define REFUSED	   3
#define LOOK_US	   100000 /* time for heaptap's checks; slower ones do not fail the test */

static struct victim victim;
static struct tap tap;

static void start(void)
{
	victim_start(&victim, (const char *[]){run_built("tests/targets/waiter"), NULL});
}

static void order(const char *command)
{
	HT_FREED char *answer = victim_ask(&victim, command, ANSWER_MS);
	ck_assert_msg(!strcmp(answer, "done"), "%s: %s", command, answer);
}

/* Gives the order "work" if `reached` does not hold: it lets the thread begin a new wait. */
static bool turns_until(bool reached)
{
	if (!reached)
		order("work");
	return reached;
}

static bool is_tapped(void)
{
	size_t all;
	return gotwords_tapped(victim.pid, "/waiter", &all) == all;
}

static bool is_untapped(void)
{
	return gotwords_tapped(victim.pid, "", NULL) == 0;
}

/* Returns when heaptap has made all its checks and waits for a moment in which it can stop the
 * thread. */
static void attach_and_wait(unsigned changes)
{
	tap_start_changing(
		&tap, victim.pid, changes, (const char *[]){"--symbolize", "later", NULL});
	run_until(access(tap.trace, F_OK) == 0 || run_has_ended(&tap.run), HEAPTAP_MS);
	usleep(LOOK_US);
}

static void attach(unsigned changes)
{
	attach_and_wait(changes);
	run_until(turns_until(is_tapped()), HEAPTAP_MS);
}

static void detach_and_wait(void)
{
	kill(tap.run.pid, SIGINT);
	run_until(is_untapped() || run_has_ended(&tap.run), HEAPTAP_MS);
	usleep(LOOK_US);
}

static json_t *wait_for_end(int expected)
{
	run_until(turns_until(run_has_ended(&tap.run)), HEAPTAP_MS);
	return tap_wait(&tap, expected);
}

static void end(void)
{
	json_t *attach = wait_for_end(0);
	tap_check_clean(attach);
	json_decref(attach);
	order("work");
	victim_stop(&victim);
}

HT_TEST(filter_entered_before_the_first_stub)
{
	start();
	attach_and_wait(PROCSNAP_FILTERED);
	order("filter memfd_create");
	run_until(turns_until(is_tapped()), HEAPTAP_MS);
	detach_and_wait();
	end();
}

HT_TEST(filter_entered_before_the_last_stub)
{
	start();
	attach(PROCSNAP_FILTERED);
	detach_and_wait();
	order("filter munmap");
	end();
}

/* The program reuses the number of the agent's socket for a descriptor of its own. */
HT_TEST(descriptor_taken_before_the_last_stub)
{
	start();
	attach(PROCSNAP_FDS_CHANGE);
	detach_and_wait();
	order("take");
	json_decref(wait_for_end(0));
	order("check");
	victim_stop(&victim);
}

/* Only Linux 6.4 or later shows whether a thread uses Syscall User Dispatch. */
static bool can_be_asked(void)
{
	struct utsname name;
	unsigned major, minor;
	ck_assert_int_eq(uname(&name), 0);
	ck_assert_int_eq(sscanf(name.release, "%u.%u", &major, &minor), 2);
	if (major > 6 || (major == 6 && minor >= 4))
		return true;
	printf("skipped: held: this kernel does not tell of Syscall User Dispatch\n");
	return false;
}

/* After the order `command`, attach must refuse with a message that contains `why`. */
static void check_refused_after(const char *command, const char *why)
{
	attach_and_wait(0);
	order(command);
	run_until(turns_until(run_has_ended(&tap.run)), RUN_REFUSAL_MS);
	char *err = run_err(&tap.run);
	ck_assert_msg(strstr(err, why), "%s", err);
	free(err);
	json_decref(tap_wait(&tap, REFUSED));
}

/* Syscall User Dispatch would pass the stub's system calls to the program. */
HT_TEST(dispatched_before_the_first_stub)
{
	if (!can_be_asked())
		return;
	start();
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	check_refused_after("dispatch", "Syscall User Dispatch");
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* With this limit the stub would raise SIGXFSZ when it sizes the agent's memfd. The signal would
 * kill the program as soon as the stub unblocks it. */
HT_TEST(limited_before_the_first_stub)
{
	start();
	order("limit 1");
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	order("limit 4096");
	check_refused_after("limit 1", "RLIMIT_FSIZE");
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* While system calls are dispatched the agent makes none, and the last stub waits for the end of
 * the dispatch. */
HT_TEST(dispatched_while_tapped)
{
	start();
	attach(0);
	order("dispatch");
	order("load");
	order("undispatch");
	kill(tap.run.pid, SIGINT);
	json_decref(wait_for_end(TAP_MAY_DROP));
	victim_stop(&victim);
}

/* The second heaptap has its own network namespace, so it does not see the first one's socket. */
HT_TEST(another_heaptap_in_another_namespace)
{
	char pid[16], *err;
	start();
	attach_and_wait(0);
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	int status = run_program((const char *[]){"unshare", "-n", run_built("heaptap"), "attach",
					 "-p", pid, "-d", "1s", "-o", "/dev/null", NULL},
		HEAPTAP_MS, NULL, &err);
	ck_assert_msg(status == REFUSED && strstr(err, "another heaptap works on process"),
		"status %d: %s", status, err);
	free(err);
	run_until(turns_until(is_tapped()), HEAPTAP_MS);
	detach_and_wait();
	end();
}

static char *attach_is_refused(void)
{
	char pid[16], *err;
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	int status = run_program((const char *[]){run_built("heaptap"), "attach", "-p", pid, "-d",
					 "1s", "-o", "/dev/null", NULL},
		HEAPTAP_MS, NULL, &err);
	ck_assert_msg(status == REFUSED, "status %d: %s", status, err);
	return err;
}

/* The refusal advises to end another tracer, even one with a guardian's name, but never the holder
 * of heaptap's lock. */
HT_TEST(held_by_a_guardian)
{
	char path[32], *err;
	start();
	snprintf(path, sizeof(path), "/proc/%d", victim.pid);
	int pidfd = (int)syscall(SYS_pidfd_open, victim.pid, 0);
	int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert(pidfd >= 0 && directory >= 0);
	ck_assert(ptrace(PTRACE_SEIZE, victim.pid, NULL, NULL) == 0);
	ck_assert(prctl(PR_SET_NAME, "heaptap-guard") == 0);
	err = attach_is_refused();
	ck_assert_msg(strstr(err, "end that first") != NULL, "%s", err);
	free(err);
	ck_assert(flock(pidfd, LOCK_EX | LOCK_NB) == 0 && flock(directory, LOCK_EX | LOCK_NB) == 0);
	err = attach_is_refused();
	ck_assert_msg(strstr(err, "another heaptap works on process") && !strstr(err, "end that"),
		"%s", err);
	free(err);
	close(pidfd);
	close(directory);
	victim_stop(&victim);
}

HT_SUITE("integration/held")
