/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls of heaptap fail, and signals come (HEAPTAP_SWEEP, tests/support/sweep.h): heaptap
 * exits with a code of the man page's table and prints at most one line, nothing stays in the
 * target, and if it reports success the trace is valid.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/ordeal.h"
#include "tests/support/tmpdir.h"
#include "tests/targets/failing.h"

/* In canaries a thread that computes runs the stub; in busy it is the main thread, which waits in
 * read(2). */
static const struct ordeal_target computing = {"computing", {"canaries"}, NULL, 0, false};
static const struct ordeal_target failing[] = {{"computing", {"canaries"}, NULL, 0, false},
	{"threaded", {"busy", "-t", "4"}, NULL, 0, false},
	{"blocked", {"sleepy"}, NULL, PROCSNAP_MASKS_CHANGE, false},
	{"in a signal storm", {"busy", "-t2", "-s"}, NULL, PROCSNAP_MASKS_CHANGE, true}};

#define NOBODY	      65534
#define TAKING_CALLS  12
#define KEEPING_CALLS 11
#define READING_CALLS 1

enum {
	DONE,
	INTERNAL,
	USAGE,
	REFUSED,
	PERMISSION,
	TARGET_ENDED,
	DETACH_INCOMPLETE,
	TRACE_INCOMPLETE,
};

static unsigned line_count(const char *text)
{
	unsigned lines = 0;
	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

/* DETACH_INCOMPLETE is allowed: the guardian removes the rest, and has ended by now. */
static bool is_documented(int status, int error)
{
	switch (status) {
	case DONE:
	case INTERNAL:
	case USAGE:
	case REFUSED:
	case PERMISSION:
	case DETACH_INCOMPLETE:
	case TRACE_INCOMPLETE:
		return true;
	case TARGET_ENDED:
		return error == ESRCH;
	default:
		return false;
	}
}

static void check_end(struct ordeal *o, const struct sweep *sweep, int status)
{
	char where[200], *err = run_err(&sweep->run);

	snprintf(where, sizeof(where), "%s, %s", o->target->name, sweep_text(sweep));
	ck_assert_msg(is_documented(status, sweep->plan.value), "%s: exit code %d: %s", where,
		status, err);
	/* A capture may print several lines, an error only one. */
	if (!ordeal_is_capture(err))
		ck_assert_msg(line_count(err) <= 1, "%s: %s", where, err);
	ordeal_check(o, where);
	ordeal_check_trace(o, status == DONE);
	free(err);
}

static bool fail_at(struct ordeal *o, const struct sweep_plan *plan)
{
	struct sweep sweep;
	sweep_start(&sweep, o->argv, plan);
	int status = sweep_wait(&sweep, ORDEAL_HEAPTAP_MS);
	if (getenv("VERBOSE"))
		fprintf(stderr, "%3d %s: %.300s\n", status, sweep_text(&sweep),
			run_err(&sweep.run));
	check_end(o, &sweep, status);
	sweep_deinit(&sweep);
	return sweep.hit;
}

/* Before heaptap blocks signals (the first call), the signal simply ends it. */
static bool signal_at(struct ordeal *o, const struct sweep_plan *plan)
{
	struct sweep sweep;
	sweep_start(&sweep, o->argv, plan);
	int status = sweep_wait(&sweep, ORDEAL_HEAPTAP_MS);
	if (sweep.hit_at == 1 && status == 128 + plan->value)
		ordeal_check(o, sweep_text(&sweep));
	else
		check_end(o, &sweep, status);
	ck_assert_msg(status == DONE || sweep.hit_at == 1, "%s: %d", sweep_text(&sweep), status);
	sweep_deinit(&sweep);
	return sweep.hit;
}

/* Each target adds the places that no target before it has reached. */
static void fail_places(const struct sweep_plan *plan)
{
	struct places *places = places_new(run_built("heaptap"));

	for (size_t i = 0; i < HT_ARRAY_SIZE(failing); i++) {
		struct ordeal ordeal;
		ordeal_init(&ordeal, &failing[i]);
		ordeal_sweep_places(&ordeal, *plan, fail_at, places);
		ordeal_deinit(&ordeal);
	}
	places_destroy(places);
}

/* Sweeps the target `chosen`, or every target if HEAPTAP_SWEEP is set. Calls fail from main's first
 * call on: the dynamic linker's handling of failures is not tested. */
static void fail_sweep(const struct ordeal_target *chosen, int error)
{
	const struct sweep_plan plan = {
		.action = SWEEP_FAIL, .value = error, .from = SYS_rt_sigprocmask};

	if (places_wanted()) {
		fail_places(&plan);
		return;
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(failing); i++)
		if (getenv("HEAPTAP_SWEEP") || &failing[i] == chosen) {
			struct ordeal ordeal;
			ordeal_init(&ordeal, &failing[i]);
			ordeal_sweep(&ordeal, plan, fail_at);
			ordeal_deinit(&ordeal);
		}
}

/* Without root only this heaptap can reach the image, once the worker has taken its descriptor. */
HT_TEST(taken_without_root)
{
	struct ordeal ordeal;
	if (getuid() == 0)
		ck_assert(!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY));
	ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1), 0);
	ordeal_init(&ordeal, &computing);
	struct sweep_plan taking = {
		.action = SWEEP_FAIL, .role = SWEEP_WORKER, .value = EIO, .from = SYS_pidfd_getfd};
	for (taking.at = 1; taking.at <= TAKING_CALLS; taking.at++)
		fail_at(&ordeal, &taking);
	/* The first recvmsg of main gets the worker's answer; fail later calls. */
	struct sweep_plan keeping = {
		.action = SWEEP_FAIL, .role = SWEEP_MAIN, .value = EIO, .from = SYS_recvmsg};
	for (keeping.at = 2; keeping.at <= KEEPING_CALLS; keeping.at++)
		fail_at(&ordeal, &keeping);
	ordeal_deinit(&ordeal);
}

/* The readlink of one of the target's descriptors fails. The cleanup must still succeed. */
HT_TEST(descriptor_unread)
{
	struct ordeal ordeal;
	struct sweep_plan reading = {
		.action = SWEEP_FAIL, .role = SWEEP_WORKER, .value = ENOMEM, .from = SYS_readlink};

	ordeal_init(&ordeal, &computing);
	for (reading.at = 1; reading.at <= READING_CALLS; reading.at++)
		ck_assert(fail_at(&ordeal, &reading));
	ordeal_deinit(&ordeal);
}

/* A failed PTRACE_PEEKDATA looks to heaptap as if the target had executed another program. */
HT_TEST(memory_unread)
{
	struct ordeal ordeal;
	struct sweep_plan peeking = {.action = SWEEP_FAIL,
		.at = 1,
		.role = SWEEP_WORKER,
		.value = EIO,
		.request = PTRACE_PEEKDATA};

	ordeal_init(&ordeal, &computing);
	ck_assert(fail_at(&ordeal, &peeking));
	ordeal_deinit(&ordeal);
}

/* --- malloc ------------------------------------------------------------------------------------
 */

#define PLACES_TRIED 8

static char *books_path;

static void be_short_of_memory(void *context)
{
	char place[24], preload[PATH_MAX];
	snprintf(place, sizeof(place), "%lu", *(const unsigned long *)context);
	if (!realpath(run_built("tests/targets/libfailing.so"), preload) ||
		setenv("FAILING_PLACE", place, 1) || setenv("FAILING_BOOKS", books_path, 1) ||
		setenv("LD_PRELOAD", preload, 1))
		_exit(126);
}

static struct failing_books *books_new(void)
{
	int fd = open(books_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, sizeof(struct failing_books)), 0);
	void *books = mmap(NULL, sizeof(struct failing_books), PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(books, MAP_FAILED);
	close(fd);
	return books;
}

/* The first allocation at the `place`-th calling place fails; 0: none. Returns the number of
 * places. */
static unsigned long fail_at_place(struct ordeal *o, unsigned long place)
{
	struct failing_books *books = books_new();
	struct sweep sweep;
	sweep_start(&sweep, o->argv,
		&(struct sweep_plan){.action = SWEEP_COUNT,
			.at = place,
			.value = ENOMEM,
			.prepare = be_short_of_memory,
			.context = &place});
	int status = sweep_wait(&sweep, ORDEAL_HEAPTAP_MS);
	unsigned long count = books->count;
	if (getenv("VERBOSE"))
		fprintf(stderr, "%3d place %lu of %lu: %.300s\n", status, place, count,
			run_err(&sweep.run));
	ck_assert(place || status == DONE);
	check_end(o, &sweep, status);
	sweep_deinit(&sweep);
	munmap(books, sizeof(*books));
	return count;
}

HT_TEST(malloc_fails)
{
#ifdef __SANITIZE_ADDRESS__
	printf("skipped: faults: a sanitizer brings an allocator of its own\n");
	return;
#endif
	struct ordeal ordeal;
	ordeal_init(&ordeal, &computing);
	books_path = tmpdir_path("books");
	unsigned long count = fail_at_place(&ordeal, 0);
	ck_assert_uint_gt(count, 50);
	struct sweep_points points = sweep_points_of("malloc", count, PLACES_TRIED);
	for (uint64_t at = points.first; at <= points.last && at <= count; at += points.stride)
		fail_at_place(&ordeal, at);
	fail_at_place(&ordeal, 0);
	ordeal_deinit(&ordeal);
}

/* --- code that changes during the attach ------------------------------------------------- */

/* Sets a breakpoint, as a debugger does, at the beginning of the C library's code. */
static void change_code(void *context)
{
	const struct victim *victim = context;
	victim_poke(victim->pid, victim_libc(victim->pid, false), "\xcc", 1);
}

/* Main's fourth pwrite64, of the first slot, fails, so attach fails and removes everything. The
 * comparison must still report the target's changed code. */
HT_TEST(names_differences_after_a_failed_attach)
{
	struct victim victim;
	struct sweep sweep;
	char *trace = tmpdir_path("trace");
	victim_start(&victim, (const char *[]){run_built("tests/targets/sleepy"), NULL});
	sweep_attach(&sweep, victim.pid, trace,
		&(struct sweep_plan){.action = SWEEP_FAIL,
			.role = SWEEP_MAIN,
			.number = SYS_pwrite64,
			.at = 4,
			.value = EIO,
			.call = change_code,
			.context = &victim});
	int status = sweep_wait(&sweep, ORDEAL_HEAPTAP_MS);
	char *err = run_err(&sweep.run);
	ck_assert_msg(status == DETACH_INCOMPLETE, "status %d: %s", status, err);
	ck_assert_msg(strstr(err, "cannot write to ") && strstr(err, "; and ") &&
			      strstr(err, "libc.so.6") && line_count(err) == 1,
		"%s", err);
	free(err);
	sweep_deinit(&sweep);
	ck_assert_int_ne(unlink(trace), 0);
	free(trace);
	victim_kill(&victim);
}

/* --- signals -----------------------------------------------------------------------------------
 */

/* The signal is sent again at each later call: a user who sends it repeatedly must still get a
 * clean detach. */
static void signal_sweep(int signal)
{
	struct ordeal ordeal;
	/* After a second signal heaptap waits only one second for the output, in which a disk may
	 * not finish its fsync. */
	ck_assert_int_eq(setenv("TMPDIR", "/dev/shm", 0), 0);
	ordeal_init(&ordeal, &computing);
	ordeal_sweep(&ordeal,
		(struct sweep_plan){
			.action = SWEEP_SIGNAL, .value = signal, .from = SYS_rt_sigprocmask},
		signal_at);
	ordeal_deinit(&ordeal);
}

HT_TEST(no_memory)
{
	fail_sweep(&failing[0], ENOMEM);
}

HT_TEST(no_permission)
{
	fail_sweep(&failing[1], EPERM);
}

HT_TEST(io_error)
{
	fail_sweep(&failing[2], EIO);
}

HT_TEST(interrupted)
{
	fail_sweep(&failing[3], EINTR);
}

HT_TEST(no_such_process)
{
	fail_sweep(&failing[0], ESRCH);
}

HT_TEST(interrupted_by_terminal)
{
	signal_sweep(SIGINT);
}

HT_TEST(terminated)
{
	signal_sweep(SIGTERM);
}

HT_TEST(hung_up)
{
	signal_sweep(SIGHUP);
}

HT_SUITE("integration/faults")
