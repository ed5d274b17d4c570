/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap before the window: the report's figure of what a process held at attach equals the
 * figure of the process itself (tests/targets/holder.c with mallinfo2 or the counters of jemalloc
 * and tcmalloc; for mimalloc, which has none, the sum that the program itself keeps). Equal to the
 * byte if the process is idle, within the report's stated error if it works. A damaged heap is
 * reported as unknown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define PHASE_MS    60000
#define OWN_BYTES   16384u	  /* of blocks of the C library itself, for each thread */
#define CHURN_BYTES (64u * 20000) /* by which a thread's live bytes vary while it works */
#define NO_CACHES   "glibc.malloc.tcache_count=0"

static const char *root; /* the target's root directory; NULL: not changed */

static void start(struct victim *victim, const char *tunables)
{
	if (tunables)
		setenv("GLIBC_TUNABLES", tunables, 1);
	victim_start(victim, (const char *[]){run_built("tests/targets/holder"), "-t", "3",
				     root ? "-r" : NULL, root, NULL});
	unsetenv("GLIBC_TUNABLES");
}

static json_t *books_of(struct victim *victim)
{
	HT_FREED char *answer = victim_ask(victim, "books", PHASE_MS);
	json_t *books = report_parse(answer);
	return books;
}

/* Live bytes by mallinfo2, which counts cached chunks as live; `cached`: subtracts those. */
static uint64_t used_bytes(const json_t *books, bool cached)
{
	return report_u64(books, "used") + report_u64(books, "mapped") -
	       (cached ? report_u64(books, "cached") : 0);
}

static bool has_reading(const char *trace)
{
	json_auto_t *report = report_load_begun(trace);
	bool has = report && json_array_size(report_at(report, "heap.accounts")) != 0;
	return has;
}

static void order(struct victim *victim, const char *command, const char *expected)
{
	HT_FREED char *answer = victim_ask(victim, command, PHASE_MS);
	ck_assert_str_eq(answer, expected);
}

static void attach(struct tap *tap, const struct victim *victim, const char *module)
{
	tap_start(tap, victim->pid, NULL);
	tap_wait_on(tap, module);
	run_until(has_reading(tap->trace), PHASE_MS);
}

static json_t *detach(struct tap *tap)
{
	tap_check_clean(tap_stop(tap, 0));
	return report_load(tap->trace);
}

static bool warns(const json_t *report)
{
	size_t index;
	json_t *warning;
	json_array_foreach(report_at(report, "warnings"), index, warning)
	{
		if (strstr(json_string_value(warning), "own data show"))
			return true;
	}
	return false;
}

static void check_bytes(const json_t *heap, const char *what, const char *off, uint64_t expected)
{
	uint64_t bytes = report_u64(heap, what), allowed = report_u64(heap, off);
	uint64_t distance = bytes > expected ? bytes - expected : expected - bytes;
	HT_FREED char *text = json_dumps(heap, 0);
	ck_assert_msg(distance <= allowed, "%s should be %lu: %s", what, expected, text);
}

/* While the target is idle, the figures at the start and at the end are exact. */
static void check_at_rest(const char *tunables)
{
	struct victim victim;
	struct tap tap;
	start(&victim, tunables);
	json_t *books = books_of(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	attach(&tap, &victim, "/holder");
	json_t *report = detach(&tap), *heap = report_at(report, "heap");
	procsnap_verify(before, victim.pid);
	uint64_t expected = used_bytes(books, !tunables), held = report_u64(books, "held");
	check_bytes(heap, "start_bytes", "off_bytes", expected);
	check_bytes(heap, "end_bytes", "end_off_bytes", expected);
	ck_assert_uint_eq(report_u64(heap, "off_bytes"), 0);
	ck_assert_uint_ge(report_u64(heap, "start_bytes"), held);
	ck_assert_uint_le(report_u64(heap, "start_bytes"), held + 4 * OWN_BYTES);
	json_t *account = json_array_get(report_at(heap, "accounts"), 0);
	ck_assert_uint_ge(report_u64(account, "arenas"), 4);
	ck_assert_uint_eq(report_u64(account, "system_bytes"),
		report_u64(books, "system") + report_u64(books, "mapped"));
	ck_assert_str_eq(report_text(account, "reason"), "");
	ck_assert(!warns(report));
	victim_stop(&victim);
}

HT_TEST(at_rest_it_is_exact)
{
	check_at_rest(NULL);
	/* In a chroot, mountinfo lacks the mount of the target's files. Only root can make one. */
	root = geteuid() == 0 ? "/proc" : NULL;
	check_at_rest(NULL);
}

HT_TEST(at_rest_without_caches)
{
	check_at_rest(NO_CACHES);
}

/* The growth that the trace explains must equal the difference of both readings of the heap. */
HT_TEST(the_end_is_the_start_and_the_trace)
{
	struct victim victim;
	struct tap tap;
	start(&victim, NO_CACHES);
	uint64_t first = used_bytes(books_of(&victim), false);
	attach(&tap, &victim, "/holder");
	order(&victim, "shrink 1500", "done");
	order(&victim, "grow 3000", "done");
	uint64_t last = used_bytes(books_of(&victim), false);
	json_t *report = detach(&tap), *heap = report_at(report, "heap");
	check_bytes(heap, "start_bytes", "off_bytes", first);
	check_bytes(heap, "end_bytes", "end_off_bytes", last);
	ck_assert_uint_eq(report_u64(heap, "off_bytes"), 0);
	int64_t growth = json_integer_value(report_at(heap, "growth_bytes"));
	int64_t explained = json_integer_value(report_at(heap, "explained_bytes"));
	ck_assert_int_eq(growth, (int64_t)(last - first));
	/* The rest is headers and rounding: up to 48 bytes a block, and pages for blocks with their
	 * own mapping. */
	ck_assert_int_ge(growth, explained);
	ck_assert_int_le(growth, explained + 3000 * 48 + 30 * 8192);
	ck_assert_uint_gt(report_u64(report, "totals.before_frees"), 1000);
	json_t *timeline = report_at(report, "timeline");
	json_t *step = json_array_get(timeline, json_array_size(timeline) - 1);
	ck_assert_int_eq((int64_t)report_u64(step, "heap_bytes"), (int64_t)first + explained);
	ck_assert(!warns(report));
	victim_stop(&victim);
}

#define READINGS 10u

static json_t *report_of_moment(struct victim *victim)
{
	struct tap tap;
	tap_start(&tap, victim->pid, (const char *[]){"-d", "200ms", NULL});
	tap_check_equal(tap_wait(&tap, TAP_MAY_DROP));
	return report_load(tap.trace);
}

/* Captures while the target's threads work. Returns whether the heap at the start is known: then it
 * must lie within its bound; else the account must give a reason. */
static bool is_known_at_work(struct victim *victim, uint64_t held)
{
	json_auto_t *report = report_of_moment(victim);
	const json_t *heap = report_at(report, "heap");
	if (json_is_false(report_at(heap, "known"))) {
		const json_t *account = json_array_get(report_at(heap, "accounts"), 0);
		ck_assert_str_ne(report_text(account, "reason"), "");
		return false;
	}
	uint64_t bytes = report_u64(heap, "start_bytes"), off = report_u64(heap, "off_bytes");
	HT_FREED char *text = json_dumps(heap, 0);
	ck_assert_msg(bytes + off >= held && bytes <= held + off + 3 * CHURN_BYTES + 4 * OWN_BYTES,
		"%lu: %s", held, text);
	return true;
}

/* The threads allocate while heaptap reads the heap. A reading gives a figure with a bound, or the
 * reason why there is none. */
HT_TEST(at_work_it_is_as_far_off_as_it_says)
{
	struct victim victim;
	unsigned known = 0;
	start(&victim, NULL);
	json_auto_t *books = books_of(&victim);
	order(&victim, "churn", "churning");
	for (unsigned i = 0; i < READINGS; i++)
		known += is_known_at_work(&victim, report_u64(books, "held"));
	order(&victim, "rest", "resting");
	ck_assert_uint_ge(known, 1);
	victim_stop(&victim);
}

/* The target overwrites its arena with other values before each reading. */
HT_TEST(overwritten_heap_is_unknown)
{
	struct victim victim;
	struct tap tap;
	start(&victim, NULL);
	order(&victim, "scribble", "scribbling");
	attach(&tap, &victim, "/holder");
	json_t *heap = report_at(detach(&tap), "heap");
	ck_assert(json_is_false(report_at(heap, "known")));
	ck_assert(json_is_null(report_at(heap, "start_bytes")));
	victim_kill(&victim);
}

/* A capture of a program with another allocator, preloaded or linked in. */
struct subject {
	struct victim victim;
	struct tap tap;
	uint64_t first; /* live bytes before attach, by the allocator's own figure */
};

static void start_with(struct victim *victim, const char *preloaded, const char *program)
{
	if (preloaded)
		setenv("LD_PRELOAD", preloaded, 1);
	victim_start(victim, (const char *[]){run_built(program), "-t", "3", NULL});
	unsetenv("LD_PRELOAD");
}

static void start_jemalloc(struct victim *victim, const char *kind)
{
	bool preloaded = !strcmp(kind, "preloaded");
	start_with(victim, preloaded ? "libjemalloc.so.2" : NULL,
		preloaded ? "tests/targets/holder" : "tests/targets/holder-rjem");
}

/* jemalloc's own figure, as the program reads it: stats.allocated without
 * stats.arenas.*.tcache_bytes. Asks twice, because the first answer allocates buffers. */
static uint64_t jemalloc_bytes(struct victim *victim)
{
	(void)books_of(victim);
	json_t *books = books_of(victim);
	return report_u64(books, "used") - report_u64(books, "cached");
}

static void begin_jemalloc(struct subject *subject, const char *kind, const char *module)
{
	start_jemalloc(&subject->victim, kind);
	subject->first = jemalloc_bytes(&subject->victim);
	attach(&subject->tap, &subject->victim, module);
}

static uint64_t known_bytes(const json_t *account)
{
	ck_assert_msg(json_is_true(report_at(account, "known")), "%s is unknown: %s",
		report_text(account, "allocator"), report_text(account, "reason"));
	return report_u64(account, "held_bytes");
}

/* The account of `allocator`. If the allocator is linked in, the C library holds blocks, too:
 * `ret_others` gets their bytes. */
static const json_t *account_of(const json_t *heap, const char *allocator, uint64_t *ret_others)
{
	const json_t *found = NULL;
	size_t index;
	json_t *account;
	*ret_others = 0;
	json_array_foreach(report_at(heap, "accounts"), index, account)
	{
		if (!strcmp(report_text(account, "allocator"), allocator))
			found = account;
		else
			*ret_others += known_bytes(account);
	}
	ck_assert_ptr_nonnull(found);
	return found;
}

static void check_account_at_rest(const json_t *account, uint64_t expected)
{
	ck_assert_uint_eq(report_u64(account, "held_bytes"), expected);
	ck_assert_uint_eq(report_u64(account, "off_bytes"), 0);
	ck_assert_str_eq(report_text(account, "reason"), "");
	ck_assert_uint_ge(report_u64(account, "system_bytes"), expected);
}

static void check_jemalloc_at_rest(const char *kind, const char *module)
{
	struct subject subject;
	uint64_t others;
	begin_jemalloc(&subject, kind, module);
	uint64_t expected = subject.first;
	json_t *report = detach(&subject.tap), *heap = report_at(report, "heap");
	check_account_at_rest(account_of(heap, "jemalloc", &others), expected);
	ck_assert_uint_eq(report_u64(heap, "start_bytes"), expected + others);
	ck_assert_uint_eq(report_u64(heap, "end_bytes"), expected + others);
	uint64_t held = report_u64(books_of(&subject.victim), "held");
	ck_assert_uint_ge(expected, held);
	/* jemalloc keeps its caches in blocks that its counter includes. */
	ck_assert_uint_le(expected, held + 4 * 65536);
	ck_assert(!warns(report));
	victim_stop(&subject.victim);
}

HT_TEST(jemalloc_preloaded)
{
	check_jemalloc_at_rest("preloaded", "/holder");
}

HT_TEST(jemalloc_linked_in)
{
	check_jemalloc_at_rest("linked", "/holder-rjem");
}

/* The growth must equal what the trace explains: bytes asked for, rounded up to size classes. */
static void check_growth(const json_t *report, int64_t expected)
{
	const json_t *heap = report_at(report, "heap");
	int64_t growth = json_integer_value(report_at(heap, "growth_bytes"));
	int64_t explained = json_integer_value(report_at(heap, "explained_bytes"));
	ck_assert_int_eq(growth, expected);
	ck_assert_int_ge(growth, explained);
	ck_assert_int_le(
		growth, explained + (int64_t)report_u64(report, "totals.allocated_bytes") / 4);
	ck_assert_uint_gt(report_u64(report, "totals.before_frees"), 1000);
	ck_assert(!warns(report));
}

static void check_jemalloc_end(const char *kind, const char *module)
{
	struct subject subject;
	uint64_t others;
	begin_jemalloc(&subject, kind, module);
	order(&subject.victim, "shrink 1500", "done");
	order(&subject.victim, "grow 3000", "done");
	uint64_t last = jemalloc_bytes(&subject.victim);
	json_t *report = detach(&subject.tap), *heap = report_at(report, "heap");
	(void)account_of(heap, "jemalloc", &others);
	ck_assert_uint_eq(report_u64(heap, "start_bytes"), subject.first + others);
	ck_assert_uint_eq(report_u64(heap, "end_bytes"), last + others);
	check_growth(report, (int64_t)(last - subject.first));
	victim_stop(&subject.victim);
}

HT_TEST(jemalloc_preloaded_the_end)
{
	check_jemalloc_end("preloaded", "/holder");
}

HT_TEST(jemalloc_linked_in_the_end)
{
	check_jemalloc_end("linked", "/holder-rjem");
}

static void check_at_work(struct victim *victim, const char *allocator)
{
	struct tap tap;
	uint64_t others;
	json_t *books = books_of(victim);
	order(victim, "churn", "churning");
	tap_start(&tap, victim->pid, (const char *[]){"-d", "200ms", NULL});
	tap_check_equal(tap_wait(&tap, TAP_MAY_DROP));
	order(victim, "rest", "resting");
	const json_t *account =
		account_of(report_at(report_load(tap.trace), "heap"), allocator, &others);
	uint64_t bytes = known_bytes(account);
	uint64_t off = report_u64(account, "off_bytes"), held = report_u64(books, "held");
	char *text = json_dumps(account, 0);
	ck_assert_msg(bytes + off >= held && bytes <= held + off + 3 * CHURN_BYTES + 4 * 65536,
		"%lu: %s", held, text);
	victim_stop(victim);
}

HT_TEST(jemalloc_at_work)
{
	struct victim victim;
	start_jemalloc(&victim, "preloaded");
	check_at_work(&victim, "jemalloc");
}

static void check_scribbled(
	struct victim *victim, const char *command, const char *module, const char *allocator)
{
	struct tap tap;
	uint64_t others;
	order(victim, command, "scribbling");
	attach(&tap, victim, module);
	json_t *heap = report_at(detach(&tap), "heap");
	ck_assert(json_is_false(report_at(heap, "known")));
	ck_assert(json_is_null(report_at(heap, "start_bytes")));
	(void)account_of(heap, allocator, &others);
	victim_kill(victim);
}

/* The target overwrites jemalloc's data about an extent with other values before each reading. */
HT_TEST(jemalloc_scribbled_over)
{
	struct victim victim;
	start_jemalloc(&victim, "linked");
	check_scribbled(&victim, "scribble-map", "/holder-rjem", "jemalloc");
}

/* --- mimalloc --- */

#define MIMALLOC "libmimalloc.so.2.0"

static uint64_t mimalloc_bytes(struct victim *victim)
{
	return report_u64(books_of(victim), "held");
}

/* The heap's size as heaptap reads it while the program is idle. */
static uint64_t at_rest_bytes(struct victim *victim, const char *allocator)
{
	struct tap tap;
	uint64_t others;
	struct procsnap *before = procsnap_take(victim->pid, 0);
	tap_start(&tap, victim->pid, (const char *[]){"-d", "100ms", NULL});
	tap_check_clean(tap_wait(&tap, 0));
	json_t *report = report_load(tap.trace);
	procsnap_verify(before, victim->pid);
	const json_t *account = account_of(report_at(report, "heap"), allocator, &others);
	uint64_t held = report_u64(account, "held_bytes");
	check_account_at_rest(account, held);
	ck_assert(!warns(report));
	return held;
}

/* mimalloc holds exactly the blocks that the program counts. Blocks are freed by their own thread
 * or by another one, are in full and in other pages, belong to an ended thread, or fill one or more
 * pages. */
HT_TEST(mimalloc_for_some_blocks_alone)
{
	static const char *const orders[] = {"books", "pass 700", "grow 500", "pass 1500",
		"huge 200000", "huge 20000000", "huge 3000000000", "shrink 300", "end", "pass 800",
		"pass 1000000"};
	struct victim victim;
	start_with(&victim, NULL, "tests/targets/holder-mi");
	for (size_t i = 0; i < HT_ARRAY_SIZE(orders); i++) {
		free(victim_ask(&victim, orders[i], PHASE_MS));
		uint64_t held = at_rest_bytes(&victim, "mimalloc");
		ck_assert_msg(held == mimalloc_bytes(&victim), "%s: %lu, %lu", orders[i], held,
			mimalloc_bytes(&victim));
	}
	victim_stop(&victim);
}

/* The C library holds a constant number of mimalloc's blocks. */
HT_TEST(mimalloc_preloaded)
{
	static const char *const orders[] = {"pass 700", "huge 20000000", "end", "pass 1500"};
	struct victim victim;
	start_with(&victim, MIMALLOC, "tests/targets/holder");
	uint64_t rest = at_rest_bytes(&victim, "mimalloc") - mimalloc_bytes(&victim);
	ck_assert_uint_le(rest, 4 * OWN_BYTES);
	for (size_t i = 0; i < HT_ARRAY_SIZE(orders); i++) {
		order(&victim, orders[i], "done");
		uint64_t held = at_rest_bytes(&victim, "mimalloc");
		ck_assert_msg(held == mimalloc_bytes(&victim) + rest, "%s: %lu, %lu", orders[i],
			held, mimalloc_bytes(&victim) + rest);
	}
	victim_stop(&victim);
}

HT_TEST(mimalloc_preloaded_the_end)
{
	struct victim victim;
	struct tap tap;
	start_with(&victim, MIMALLOC, "tests/targets/holder");
	uint64_t first = mimalloc_bytes(&victim);
	attach(&tap, &victim, "/holder");
	order(&victim, "shrink 1500", "done");
	order(&victim, "grow 3000", "done");
	order(&victim, "pass 200", "done");
	uint64_t last = mimalloc_bytes(&victim);
	json_t *report = detach(&tap), *heap = report_at(report, "heap");
	ck_assert_uint_eq(report_u64(heap, "off_bytes"), 0);
	check_growth(report, (int64_t)(last - first));
	victim_stop(&victim);
}

HT_TEST(mimalloc_at_work)
{
	struct victim victim;
	start_with(&victim, MIMALLOC, "tests/targets/holder");
	check_at_work(&victim, "mimalloc");
}

HT_TEST(mimalloc_scribbled_over)
{
	struct victim victim;
	start_with(&victim, MIMALLOC, "tests/targets/holder");
	check_scribbled(&victim, "scribble-pages", "/holder", "mimalloc");
}

/* --- tcmalloc --- */

#define TCMALLOC "libtcmalloc_minimal.so.4"

/* After each step heaptap's figure must equal tcmalloc's generic.current_allocated_bytes. */
static void check_tcmalloc(const char *preloaded, const char *program)
{
	static const char *const orders[] = {"books", "pass 700", "grow 500", "pass 1500",
		"huge 300000", "huge 20000000", "shrink 300", "end", "pass 1000000"};
	struct victim victim;
	start_with(&victim, preloaded, program);
	for (size_t i = 0; i < HT_ARRAY_SIZE(orders); i++) {
		free(victim_ask(&victim, orders[i], PHASE_MS));
		uint64_t held = at_rest_bytes(&victim, "tcmalloc");
		uint64_t used = report_u64(books_of(&victim), "used");
		ck_assert_msg(held == used, "%s: %lu, %lu", orders[i], held, used);
	}
	victim_stop(&victim);
}

HT_TEST(tcmalloc_preloaded)
{
	check_tcmalloc(TCMALLOC, "tests/targets/holder");
}

HT_TEST(tcmalloc_linked_in)
{
	check_tcmalloc(NULL, "tests/targets/holder-tc");
}

HT_TEST(tcmalloc_at_work)
{
	struct victim victim;
	start_with(&victim, TCMALLOC, "tests/targets/holder");
	check_at_work(&victim, "tcmalloc");
}

HT_TEST(another_allocator_is_unknown_and_named)
{
	struct victim victim;
	struct tap tap;
	start_with(&victim, run_built("tests/targets/libownalloc-sysv.so"), "tests/targets/holder");
	attach(&tap, &victim, "/holder");
	json_t *heap = report_at(detach(&tap), "heap");
	ck_assert(json_is_false(report_at(heap, "known")));
	json_t *account = json_array_get(report_at(heap, "accounts"), 0);
	ck_assert_str_eq(report_text(account, "allocator"), "libownalloc-sysv.so");
	char *text;
	const char *const argv[] = {run_built("heaptap"), "report", tap.trace, NULL};
	ck_assert_int_eq(run_program(argv, PHASE_MS, &text, NULL), 0);
	ck_assert_ptr_nonnull(strstr(text, "unknown: libownalloc-sysv.so"));
	victim_stop(&victim);
}

/* A real program, which reads mallinfo2 as tests/targets/holder.c does. */
HT_TEST(python)
{
	static const char script[] = "import ctypes, os, sys\n"
				     "class M(ctypes.Structure): _fields_ = [(n, ctypes.c_size_t) "
				     "for n in 'abcdefghij']\n"
				     "libc = ctypes.CDLL(None); libc.mallinfo2.restype = M\n"
				     "held = [bytes(n * 7 % 3000) for n in range(20000)]\n"
				     "del held[::3]\n"
				     "libc.prctl(0x59616d61, ctypes.c_long(-1), 0, 0, 0)\n"
				     "os.write(1, b'ready %d\\n' % os.getpid())\n"
				     "line = b''\n"
				     "while True:\n"
				     "    line = os.read(0, 100)\n"
				     "    if line == b'ping\\n': os.write(1, b'pong\\n')\n"
				     "    elif line == b'books\\n':\n"
				     "        m = libc.mallinfo2()\n"
				     "        os.write(1, b'%d\\n' % (m.h + m.e))\n"
				     "    else: break\n";
	struct victim victim;
	struct tap tap;
	setenv("GLIBC_TUNABLES", NO_CACHES, 1);
	victim_start(&victim, (const char *[]){"/usr/bin/python3", "-c", script, NULL});
	unsetenv("GLIBC_TUNABLES");
	free(victim_ask(&victim, "books", PHASE_MS));
	char *answer = victim_ask(&victim, "books", PHASE_MS);
	attach(&tap, &victim, "/python3.11");
	json_t *heap = report_at(detach(&tap), "heap");
	uint64_t used = strtoull(answer, NULL, 10), bytes = report_u64(heap, "start_bytes");
	/* The answer itself allocates less than OWN_BYTES. */
	ck_assert_msg(
		bytes + OWN_BYTES >= used && bytes <= used + OWN_BYTES, "%lu, %lu", used, bytes);
	ck_assert_uint_eq(report_u64(heap, "off_bytes"), 0);
	victim_stop(&victim);
}

HT_SUITE("integration/heap")
