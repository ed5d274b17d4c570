/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets with few rights or few resources (tests/targets/confined.c): either the capture works,
 * with exact counts and an unchanged target afterwards, or heaptap refuses in one line that names
 * the restriction and the remedy, and leaves the target untouched.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/ctlgroup.h"
#include "tests/support/hookedcode.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define ANSWER_MS  60000
#define HEAPTAP_MS 60000
#define WORDS_MAX  8

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66
#endif

enum { REFUSED = 3, TARGET_ENDED = 5 };

/* The process to attach to: the victim, or its child in another pid namespace. */
struct confined {
	struct victim victim;
	pid_t pid;
};

static void ask(struct confined *c, const char *command, const char *answer)
{
	HT_FREED char *got = victim_ask(&c->victim, command, ANSWER_MS);
	ck_assert_str_eq(got, answer);
}

static void confine(struct confined *c, const char *how)
{
	char command[64];
	snprintf(command, sizeof(command), "confine %s", how);
	ask(c, command, "confined");
}

/* Has the target allocate. `during`: a confinement that it enters in the middle; "": none. */
static json_t *work(struct confined *c, unsigned rounds, const char *during)
{
	char command[64];
	snprintf(command, sizeof(command), "work %u%s%s", rounds, *during ? " " : "", during);
	HT_FREED char *answer = victim_ask(&c->victim, command, ANSWER_MS);
	json_t *books = report_parse(answer);
	return books;
}

/* The program under test. A static one has entry hooks instead of slots, also for the guards. */
static const char *program = "tests/targets/confined";

static bool is_static(void)
{
	return strstr(program, "-static") != NULL;
}

/* `start`: words of confinement from the beginning. */
static void confined_start(struct confined *c, const char *start)
{
	char words[128], *rest = words;
	const char *argv[WORDS_MAX + 4] = {0};
	size_t count = 0;
	/* In a program at fixed addresses the room for jumps depends on where the heap (brk)
	 * starts: turn off randomization. */
	if (is_static() && !strstr(program, "-pie")) {
		argv[count++] = "/usr/bin/setarch";
		argv[count++] = "-R";
	}
	argv[count++] = run_built(program);
	snprintf(words, sizeof(words), "%s", start);
	for (char *word; (word = strsep(&rest, " "));)
		if (*word)
			argv[count++] = word;
	victim_start(&c->victim, argv);
	c->pid = c->victim.pid;
	if (strstr(start, "pid")) {
		char *line = victim_line(&c->victim, ANSWER_MS);
		ck_assert_int_eq(sscanf(line, "inside %d", &c->pid), 1);
		free(line);
	}
}

/* If no event was dropped, the counts are exact. If some were, each event is in the trace or
 * counted as dropped. */
static void check_books(const json_t *attach, const char *trace, const json_t *books)
{
	uint64_t allocations = report_u64(books, "allocations");
	uint64_t dropped = report_u64(attach, "dropped_events");
	if (dropped) {
		ck_assert_uint_ge(report_u64(attach, "events") + dropped, 2 * allocations);
		return;
	}
	json_auto_t *report = report_load(trace);
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), allocations);
	ck_assert_uint_eq(report_u64(report, "totals.allocated_bytes"), report_u64(books, "bytes"));
	ck_assert_uint_eq(report_u64(report, "totals.frees"), allocations);
}

struct works {
	const char *start, *before, *during; /* confinements; "": none */
};

/* Starts a capture. Returns when the program's slots or entries are hooked. */
static void tap_confined(struct tap *tap, pid_t pid)
{
	static const char *const hooked[] = {"prctl", "syscall", "malloc", "free", NULL};
	struct hookedcode watched;
	if (!is_static()) {
		tap_start(tap, pid, (const char *[]){"--symbolize", "later", NULL});
		tap_wait_on(tap, "/confined");
		return;
	}
	hookedcode_watch(&watched, pid, run_built(program), hooked);
	tap_start(tap, pid, (const char *[]){"--symbolize", "later", "--hook", "auto", NULL});
	hookedcode_wait(&watched, tap);
	close(watched.memory);
}

/* Changes, other than filters, that a program makes to itself when it confines itself. `begins`:
 * the beginning of the line of the difference. */
static const struct {
	const char *during, *begins;
} own_changes[] = {{"chroot", "process root"}, {"chroot", "process cwd"},
	{"mount", "process ns/mnt"}, {"net", "process ns/net"}, {"ipc", "process ns/ipc"},
	{"ipc", "process ns/uts"}, {"filter-trap", "thread "}, {"strict-in-thread", "thread "},
	{"strict-in-thread", "descriptor "}, {"other-user", "thread "},
	{"no-capabilities", "thread "}, {"address-space", "process limits"},
	{"data", "process limits"}, {"descriptors", "process limits"},
	{"high-descriptors", "process limits"}, {"lock-little", "thread "},
	{"lock-little", "pages "}, {"sealed", "pages "}};

static bool is_own_change(const char *during, const char *line)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(own_changes); i++)
		if (!strcmp(during, own_changes[i].during) &&
			!strncmp(line, own_changes[i].begins, strlen(own_changes[i].begins)))
			return true;
	return false;
}

/* Compares with `before`, except for what the confinement itself changed. Destroys `before`. */
static void check_as_before(struct procsnap *before, pid_t pid, unsigned flags, const char *during)
{
	struct procsnap *after = procsnap_take(pid, flags);
	char *difference = procsnap_diff(before, after);
	for (const char *line = difference; *line; line = strchr(line, '\n') + 1)
		ck_assert_msg(is_own_change(during, line), "after %s: %.2000s", during, line);
	free(difference);
	procsnap_destroy(after);
	procsnap_destroy(before);
}

/* Captures some work. `during`: a confinement that the target enters in the capture; "": none.
 * Counts must be right, and the target must be as before. */
static void capture(struct confined *c, const char *during)
{
	struct tap tap;
	unsigned flags = PROCSNAP_MASKS_CHANGE | (*during ? PROCSNAP_FILTERED : 0);
	if (strstr(during, "descriptors"))
		flags |= PROCSNAP_FDS_CHANGE;
	struct procsnap *before = procsnap_take(c->pid, flags);
	tap_confined(&tap, c->pid);
	json_auto_t *books = work(c, 20000, during);
	json_auto_t *attach = tap_stop(&tap, TAP_MAY_DROP);
	tap_check_equal(attach);
	ck_assert(procsnap_is_clean(c->pid));
	check_as_before(before, c->pid, flags, during);
	check_books(attach, tap.trace, books);
}

static void check_works(const struct works *w)
{
	struct confined c;
	confined_start(&c, w->start);
	if (*w->before)
		confine(&c, w->before);
	json_decref(work(&c, 100, ""));
	capture(&c, w->during);
	json_decref(work(&c, 1000, ""));
	victim_stop(&c.victim);
}

/* doctor gives the same reason as attach, except for reasons that only the stub can find. */
static void check_doctor(const char *pid, int expected, const char *line)
{
	HT_FREED char *err;
	bool asked_inside = strstr(line, "PR_SET_TSC");
	int status = run_program((const char *[]){run_built("heaptap"), "doctor", "-p", pid, NULL},
		HEAPTAP_MS, NULL, &err);
	ck_assert_msg(status == (asked_inside ? 0 : expected), "doctor: %d: %s", status, err);
	ck_assert_str_eq(err, asked_inside ? "" : line);
}

static void refuse(struct confined *c, int expected, const char *reason, const char *remedy)
{
	char pid[16], *trace = tmpdir_path("refused.htap"), *err;
	struct procsnap *before = procsnap_take(c->pid, PROCSNAP_MASKS_CHANGE);
	snprintf(pid, sizeof(pid), "%d", c->pid);
	int status = run_program((const char *[]){run_built("heaptap"), "attach", "-p", pid, "-d",
					 "1s", "-o", trace, NULL},
		RUN_REFUSAL_MS, NULL, &err);
	ck_assert_msg(status == expected, "status %d instead of %d: %s", status, expected, err);
	ck_assert_msg(strchr(err, '\n') == strrchr(err, '\n'), "not one line: %s", err);
	ck_assert_msg(strstr(err, reason), "\"%s\" is not in: %s", reason, err);
	ck_assert_msg(strstr(err, remedy), "\"%s\" is not in: %s", remedy, err);
	ck_assert(access(trace, F_OK) != 0);
	check_doctor(pid, expected, err);
	procsnap_verify(before, c->pid);
	victim_prove_alive(&c->victim);
	free(err);
	free(trace);
}

struct refused {
	const char *start, *before;
	int status;
	const char *reason, *remedy;
};

static void check_refused(const struct refused *r)
{
	struct confined c;
	confined_start(&c, r->start);
	if (*r->before)
		confine(&c, r->before);
	refuse(&c, r->status, r->reason, r->remedy);
	victim_kill(&c.victim);
}

#define WORKS(name, ...)                                                                           \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		static const struct works table[] = {__VA_ARGS__};                                 \
		for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++)                                  \
			check_works(&table[i]);                                                    \
	}

#define REFUSALS(name, ...)                                                                        \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		static const struct refused table[] = {__VA_ARGS__};                               \
		for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++)                                  \
			check_refused(&table[i]);                                                  \
	}

WORKS(namespaces, {"user", "", ""}, {"mount", "", ""}, {"net", "", ""}, {"ipc", "", ""},
	{"pid", "", ""}, {"user mount pid net ipc bare", "", ""}, {"chroot", "", ""})
WORKS(privileges, {"other-user undumpable", "", ""}, {"no-new-privs no-capabilities", "", ""})
WORKS(filters, {"", "filter-kill", ""}, {"", "filter-kill-thread", ""}, {"", "filter-trap", ""},
	{"", "filter-errno", ""}, {"", "filter-notify", ""}, {"", "filter-by-prctl", ""},
	{"", "filter-in-thread", ""}, {"", "filter-docker", ""})
/* heaptap sees a filter of the main thread within milliseconds, but not one of a worker thread. The
 * worker goes on to fill buffers, and its filter kills it unless a guard has noticed the filter. */
WORKS(filters_entered, {"", "", "filter-kill"}, {"", "", "filter-trap"},
	{"", "", "filter-by-prctl"}, {"", "", "filter-in-thread"},
	{"", "", "filter-alone-in-thread"})
/* Confinements in the middle of a capture that attach would refuse, or must know, if they came
 * before it. */
WORKS(meanwhile, {"", "", "chroot"}, {"", "", "mount"}, {"", "", "net"}, {"", "", "ipc"},
	{"", "", "other-user"}, {"", "", "undumpable"}, {"", "", "no-capabilities"},
	{"", "", "no-new-privs"}, {"", "", "address-space"}, {"", "", "data"},
	{"", "", "descriptors"}, {"", "", "high-descriptors"}, {"", "", "mappings"},
	{"", "", "lock-little"})
WORKS(little_left, {"", "high-descriptors", ""}, {"", "lock", ""}, {"", "many-mappings", ""})
REFUSALS(used_up, {"", "address-space", REFUSED, "address space", "--as="},
	{"", "data", REFUSED, "ulimit -d", "--data="},
	{"", "descriptors", REFUSED, "descriptors", "--nofile="},
	{"", "mappings", REFUSED, "vm.max_map_count", "sysctl"},
	{"", "lock-little", REFUSED, "lock", "--memlock="})
REFUSALS(strict_mode, {"", "strict", REFUSED, "strict seccomp", "forbids every system call"},
	{"", "strict-in-thread", REFUSED, "strict seccomp", "forbids every system call"})
REFUSALS(no_clock, {"alone", "no-clock", REFUSED, "PR_SET_TSC", "time stamp counter"},
	{"alone no-clock", "", REFUSED, "PR_SET_TSC", "time stamp counter"},
	{"alone", "no-clock-and-filter", REFUSED, "PR_SET_TSC", "time stamp counter"})

/* PR_SET_MDWE needs Linux 6.3; Debian 12 has 6.1. */
HT_TEST(no_new_code)
{
	if (prctl(PR_GET_MDWE, 0, 0, 0, 0) < 0)
		printf("skipped: confined: this kernel has no PR_SET_MDWE\n");
	else
		check_works(&(struct works){"mdwe", "", ""});
	if (access("/proc/sys/vm/memfd_noexec", F_OK) != 0)
		printf("skipped: confined: this kernel has no vm.memfd_noexec\n");
	else
		check_works(&(struct works){"pid no-memfd-exec", "", ""});
}

/* mseal needs Linux 6.10. The target seals its mappings, so mprotect fails for slots and all
 * else. */
HT_TEST(sealed)
{
	if (syscall(SYS_mseal, 0, 0, 0) < 0) {
		printf("skipped: confined: this kernel has no mseal(2)\n");
		return;
	}
	check_works(&(struct works){"", "sealed", ""});
	check_works(&(struct works){"", "", "sealed"});
}

/* The agent needs the clock to record. If the target forbids it, the capture ends by itself and
 * leaves nothing. */
static void check_ended(const char *start, const char *during)
{
	const unsigned flags = PROCSNAP_MASKS_CHANGE | PROCSNAP_FILTERED;
	struct confined c;
	struct tap tap;
	confined_start(&c, start);
	struct procsnap *before = procsnap_take(c.pid, flags);
	tap_confined(&tap, c.pid);
	confine(&c, during);
	json_t *attach = tap_wait(&tap, TARGET_ENDED);
	tap_check_clean(attach);
	ck_assert_str_eq(report_text(attach, "ended"), "forbidden");
	json_decref(attach);
	json_t *report = report_load(tap.trace);
	ck_assert_str_eq(report_text(report, "capture.ended"), "forbidden");
	json_decref(report);
	check_as_before(before, c.pid, flags, during);
	victim_prove_alive(&c.victim);
	victim_kill(&c.victim);
}

HT_TEST(strict_entered)
{
	check_ended("", "strict-in-thread");
	check_ended("alone", "strict");
	check_ended("alone", "no-clock");
}

/* A static program calls prctl and syscall without slots, so their guards are entry hooks. */
static void check_static(const char *name)
{
	program = name;
	check_works(&(struct works){"", "filter-kill", ""});
	check_works(&(struct works){"", "", "filter-kill"});
	check_works(&(struct works){"", "", "filter-by-prctl"});
	check_works(&(struct works){"", "", "filter-in-thread"});
	check_works(&(struct works){"", "", "filter-alone-in-thread"});
}

HT_TEST(linked_statically)
{
	check_static("tests/targets/confined-static");
}

HT_TEST(linked_statically_anywhere)
{
	check_static("tests/targets/confined-static-pie");
	/* Without the clock heaptap has no thread records, and without unwind tables the proof of
	 * detach counts stale words on the stack. A program at fixed addresses may have such words,
	 * so only the one at random addresses is tested. */
	check_ended("", "strict-in-thread");
	check_ended("alone", "no-clock");
}

/* One thread may not read the clock, but attach asks another thread. heaptap finds out when the
 * first one allocates. */
HT_TEST(no_clock_in_a_thread)
{
	struct confined c;
	struct tap tap;
	confined_start(&c, "");
	confine(&c, "no-clock-in-thread");
	json_decref(work(&c, 100, ""));
	struct procsnap *before = procsnap_take(c.pid, PROCSNAP_MASKS_CHANGE);
	tap_start(&tap, c.pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_on(&tap, "/confined");
	json_decref(work(&c, 1000, ""));
	json_t *attach = tap_wait(&tap, TARGET_ENDED);
	tap_check_clean(attach);
	ck_assert_str_eq(report_text(attach, "ended"), "forbidden");
	json_decref(attach);
	procsnap_verify(before, c.pid);
	json_decref(work(&c, 1000, ""));
	victim_stop(&c.victim);
}

/* --- memory control groups ----------------------------------------------------------------------
 */

static bool group_make(struct ctlgroup *group, const char *limit)
{
	const struct ctlgroup_kind kinds[] = {
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", limit},
		{"/sys/fs/cgroup", "memory.max", limit}};
	return ctlgroup_make(group, kinds, HT_ARRAY_SIZE(kinds));
}

HT_TEST(memory_group)
{
	struct confined c;
	struct ctlgroup group;
	if (!group_make(&group, "31457280"))
		return;
	confined_start(&c, "");
	ctlgroup_move(&group, c.pid);
	refuse(&c, REFUSED, "control group", "raise that limit");
	victim_stop(&c.victim);
	ctlgroup_remove(&group);
}

/* A group of 48 MiB, the room that a refusal asks for, is enough. */
HT_TEST(narrow_memory_group)
{
	struct confined c;
	struct ctlgroup group;
	if (!group_make(&group, "50331648"))
		return;
	confined_start(&c, "");
	ctlgroup_move(&group, c.pid);
	capture(&c, "");
	victim_stop(&c.victim);
	ctlgroup_remove(&group);
}

/* The kernel kills the target during the capture, because its memory group is full. */
HT_TEST(memory_group_is_full)
{
	struct victim victim;
	struct ctlgroup group;
	struct tap tap;
	if (!group_make(&group, "134217728"))
		return;
	victim_start(&victim, (const char *[]){run_built("tests/targets/actor"), NULL});
	ctlgroup_move(&group, victim.pid);
	tap_start(&tap, victim.pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_on(&tap, "/actor");
	free(victim_ask(&victim, "work 1000", ANSWER_MS));
	victim_send(&victim, "hold 2000");
	ck_assert_int_eq(victim_wait(&victim, ANSWER_MS), 128 + SIGKILL);
	json_decref(tap_wait(&tap, TARGET_ENDED));
	json_t *report = report_load(tap.trace);
	ck_assert_uint_gt(report_u64(report, "totals.allocations"), 1000);
	json_decref(report);
	ctlgroup_remove(&group);
}

HT_SUITE("integration/confined")
