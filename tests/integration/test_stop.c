/* SPDX-License-Identifier: Apache-2.0
 *
 * The stop is invisible: a program that waits in a system call while heaptap attaches and detaches
 * gets the same result, errno and time as a twin without heaptap. 80 kinds of wait, each in three
 * roles of the thread: the only thread, which must run the stub; a thread that heaptap only
 * inspects; a thread that heaptap stops in detach, because addresses may have escaped. A sample
 * tries each wait in one role.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/sample.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define WAITERS_MAX 64
#define ANSWER_MS   60000
#define TIMED_MS    6000
#define LATE_MS                                                                                    \
	3600 /* age of the waits when heaptap stops them; restarted they last 1.6 times as long */
#define LONG_MS	 600000
#define EARLY_NS 20000000 /* a socket's timeout may end this much early */

struct waiter {
	char name[48];
	struct victim victim, twin;
	pid_t helper, twin_helper;
	struct procsnap *before;
	struct tap tap;
	uint64_t began_ms;
	uint64_t touched_ms; /* run_now_ms() from which on heaptap may stop the thread */
};

static struct waiter waiter[WAITERS_MAX];
static size_t waiters;

/* The role of the waiting thread. A sample tries each wait in one of the first three. */
enum met { RUNS_THE_STUB, LOOKED_AT, STOPPED_IN_DETACH, PLACES, INTERRUPTED = PLACES, RESTARTED };

static void list_waiters(const char *program, const char *kind, enum met met)
{
	unsigned index = 0;
	char *out, *rest;
	ck_assert_int_eq(
		run_program((const char *[]){run_built(program), NULL}, ANSWER_MS, &out, NULL), 0);
	rest = out;
	waiters = 0;
	for (char *line; (line = strsep(&rest, "\n"));) {
		char *name = strchr(line, ' ');
		if (!name)
			continue;
		*name++ = '\0';
		if (strcmp(line, kind) != 0 || !sample_has(index++, met, PLACES))
			continue;
		ck_assert_uint_lt(waiters, WAITERS_MAX);
		snprintf(waiter[waiters++].name, sizeof(waiter->name), "%s", name);
	}
	ck_assert_uint_gt(waiters, 0);
	free(out);
}

static pid_t go(struct victim *victim)
{
	pid_t helper;
	HT_FREED char *line = victim_ask(victim, "go", ANSWER_MS);
	ck_assert_int_eq(sscanf(line, "waiting %d", &helper), 1);
	return helper;
}

enum place { RUNNING, IN_COMMAND, IN_CALL };

/* A thread in read(2) of descriptor 0 waits for the next command. */
static enum place place_of(pid_t pid, const char *tid)
{
	char path[300];
	long nr;
	unsigned long long fd;
	snprintf(path, sizeof(path), "/proc/%d/task/%s/syscall", pid, tid);
	FILE *file = fopen(path, "re");
	int got = file ? fscanf(file, "%ld 0x%llx", &nr, &fd) : 2;
	if (file)
		fclose(file);
	if (got != 2)
		return RUNNING;
	return nr == 0 && fd == 0 ? IN_COMMAND : IN_CALL;
}

/* Are all threads blocked, and one of them (or, with `or_done`, none) in another call than the read
 * of the next command? */
static bool is_waiting(pid_t pid, bool or_done)
{
	char path[64];
	bool running = false, waiting = or_done;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *task = opendir(path);
	ck_assert_ptr_nonnull(task);
	for (struct dirent *entry; (entry = readdir(task));) {
		if (entry->d_name[0] == '.')
			continue;
		enum place place = place_of(pid, entry->d_name);
		running |= place == RUNNING;
		waiting |= place == IN_CALL;
	}
	closedir(task);
	return waiting && !running;
}

static void start_waiters(const char *program, unsigned time_ms, const char *const extra[2])
{
	char ms[16];
	snprintf(ms, sizeof(ms), "%u", time_ms);
	for (size_t i = 0; i < waiters; i++) {
		struct waiter *w = &waiter[i];
		const char *argv[] = {run_built(program), w->name, ms, extra[0], extra[1], NULL};
		victim_start(&w->victim, argv);
		victim_start(&w->twin, argv);
	}
	for (size_t i = 0; i < waiters; i++) {
		waiter[i].began_ms = run_now_ms();
		waiter[i].helper = go(&waiter[i].victim);
		waiter[i].twin_helper = go(&waiter[i].twin);
	}
	for (size_t i = 0; i < waiters; i++) {
		run_until(is_waiting(waiter[i].victim.pid, false), ANSWER_MS);
		run_until(is_waiting(waiter[i].twin.pid, false), ANSWER_MS);
		waiter[i].before = procsnap_take(waiter[i].victim.pid,
			PROCSNAP_MASKS_CHANGE | PROCSNAP_THREADS_CHANGE | PROCSNAP_FDS_CHANGE);
	}
}

static void attach_all(unsigned late_ms)
{
	for (size_t i = 0; i < waiters; i++) {
		struct waiter *w = &waiter[i];
		run_until(run_now_ms() - w->began_ms >= late_ms, ANSWER_MS);
		w->touched_ms = run_now_ms();
		tap_start(&w->tap, w->victim.pid, (const char *[]){"--symbolize", "later", NULL});
	}
}

/* `late_ms` (unless 0): when the waits are that old, the detach begins, which stops the waiting
 * threads for the first time. */
static void detach_all(const char *module, unsigned late_ms)
{
	for (size_t i = 0; i < waiters; i++)
		tap_wait_on(&waiter[i].tap, module);
	for (size_t i = 0; i < waiters; i++) {
		run_until(run_now_ms() - waiter[i].began_ms >= late_ms, ANSWER_MS);
		if (late_ms)
			waiter[i].touched_ms = run_now_ms();
		kill(waiter[i].tap.run.pid, SIGINT);
	}
	for (size_t i = 0; i < waiters; i++) {
		json_t *attach = tap_wait(&waiter[i].tap, 0);
		tap_check_clean(attach);
		json_decref(attach);
	}
}

static bool signal_is_pending(pid_t pid)
{
	char line[256];
	unsigned long long pending = 0;
	snprintf(line, sizeof(line), "/proc/%d/status", pid);
	FILE *status = fopen(line, "re");
	ck_assert_ptr_nonnull(status);
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "ShdPnd: %llx", &pending) == 1)
			break;
	fclose(status);
	return pending >> (SIGUSR2 - 1) & 1;
}

static void signal_all(void)
{
	for (size_t i = 0; i < waiters; i++) {
		kill(waiter[i].victim.pid, SIGUSR2);
		kill(waiter[i].twin.pid, SIGUSR2);
	}
	for (size_t i = 0; i < waiters; i++)
		for (int twin = 0; twin < 2; twin++) {
			pid_t pid = (twin ? &waiter[i].twin : &waiter[i].victim)->pid;
			run_until(!signal_is_pending(pid) && is_waiting(pid, true), ANSWER_MS);
		}
}

static void release_all(void)
{
	for (size_t i = 0; i < waiters; i++) {
		kill(waiter[i].helper, SIGUSR1);
		kill(waiter[i].twin_helper, SIGUSR1);
	}
}

/* Splits an answer: its first part must equal that of the twin, which ran without heaptap; the two
 * times at its end may differ. Returns the first part; the caller frees it. */
static char *split_answer(struct victim *victim, uint64_t *ret_begin_ns, uint64_t *ret_end_ns)
{
	char *answer = victim_line(victim, ANSWER_MS);
	char *end = strrchr(answer, ' ');
	ck_assert_ptr_nonnull(end);
	*end = '\0';
	char *begin = strrchr(answer, ' ');
	ck_assert_ptr_nonnull(begin);
	*begin = '\0';
	*ret_begin_ns = strtoull(begin + 1, NULL, 10);
	*ret_end_ns = strtoull(end + 1, NULL, 10);
	return answer;
}

static size_t wrong;

/* The wait must not end before its timeout, and must end earlier than a wait that was restarted
 * when heaptap stopped the thread. */
static void check_time(const struct waiter *w, uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t took_ms = (end_ns - begin_ns) / 1000000;
	if (end_ns - begin_ns + EARLY_NS < TIMED_MS * 1000000ull ||
		end_ns / 1000000 > w->touched_ms + TIMED_MS) {
		fprintf(stderr, "# %s: %lu ms instead of %u\n", w->name, took_ms, TIMED_MS);
		wrong++;
	}
}

static void compare_all(bool timed)
{
	wrong = 0;
	for (size_t i = 0; i < waiters; i++) {
		struct waiter *w = &waiter[i];
		uint64_t begin_ns, end_ns, twin_begin_ns, twin_end_ns;
		char *answer = split_answer(&w->victim, &begin_ns, &end_ns);
		char *expected = split_answer(&w->twin, &twin_begin_ns, &twin_end_ns);
		if (strcmp(answer, expected) != 0) {
			fprintf(stderr, "# %s, untouched: %s\n", answer, expected);
			wrong++;
		}
		if (timed)
			check_time(w, begin_ns, end_ns);
		free(answer);
		free(expected);
		victim_prove_alive(&w->victim);
		procsnap_verify(w->before, w->victim.pid);
		victim_stop(&w->victim);
		victim_stop(&w->twin);
	}
	ck_assert_msg(!wrong, "%zu of %zu waits differ", wrong, waiters);
}

static void timed_waits(const char *program, const char *option, enum met met)
{
	list_waiters(program, "timed", met);
	start_waiters(program, TIMED_MS, (const char *[2]){option, NULL});
	attach_all(option ? 0 : LATE_MS);
	detach_all(strrchr(program, '/'), option ? LATE_MS : 0);
	compare_all(true);
}

static void released_waits(const char *program, const char *option, enum met met)
{
	list_waiters(program, "released", met);
	start_waiters(program, LONG_MS, (const char *[2]){option, NULL});
	attach_all(0);
	detach_all(strrchr(program, '/'), 0);
	release_all();
	compare_all(false);
}

static void interrupted_waits(const char *kind, const char *handler, enum met met)
{
	list_waiters("tests/targets/waits", kind, met);
	start_waiters("tests/targets/waits", LONG_MS, (const char *[2]){handler, NULL});
	attach_all(0);
	detach_all("/waits", 0);
	signal_all();
	if (!strcmp(kind, "released"))
		release_all();
	compare_all(false);
}

HT_TEST(only_thread_timed)
{
	timed_waits("tests/targets/waits", NULL, RUNS_THE_STUB);
}

HT_TEST(only_thread_released)
{
	released_waits("tests/targets/waits", NULL, RUNS_THE_STUB);
}

HT_TEST(looked_at_timed)
{
	timed_waits("tests/targets/waits", "-t", LOOKED_AT);
}

HT_TEST(looked_at_released)
{
	released_waits("tests/targets/waits", "-t", LOOKED_AT);
}

HT_TEST(stopped_in_detach_timed)
{
	timed_waits("tests/targets/waits-escape", "-t", STOPPED_IN_DETACH);
}

HT_TEST(stopped_in_detach_released)
{
	released_waits("tests/targets/waits-escape", "-t", STOPPED_IN_DETACH);
}

HT_TEST(then_interrupted)
{
	interrupted_waits("released", "-h", INTERRUPTED);
}

HT_TEST(then_interrupted_and_restarted)
{
	interrupted_waits("released", "-r", RESTARTED);
}

HT_SUITE("integration/stop")
