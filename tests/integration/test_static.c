/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs without a dynamic linker: heaptap sets entry hooks on the functions of their own C
 * library, counts are exact, and the hooks are removed again. Without --hook, or where hooks are
 * impossible, heaptap refuses and leaves the target untouched.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/books.h"
#include "tests/support/hookedcode.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/sample.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define PHASE_MS   60000
#define COMMAND_MS 60000
#define REFUSED	   3
#define CAPTURES   sample_size(8, 3)
#define ROOM	   (4ull << 30)

static const char *const hooked[] = {"malloc", "free", "calloc", "realloc", NULL};
static const char *const glibc[] = {"malloc", "free", "calloc", "realloc", "aligned_alloc",
	"posix_memalign", "valloc", "pvalloc", NULL};
static const char *const jemalloc[] = {"malloc", "free", "calloc", "realloc", "aligned_alloc",
	"posix_memalign", "memalign", "valloc", NULL};

static bool has_jemalloc(const char *name)
{
	return strstr(name, "jemalloc");
}

static bool is_placed_anywhere(const char *name)
{
	return strstr(name, "-pie") || strstr(name, "rust");
}

/* Is the stack of a randomly placed program far enough above the program, so that jumps can reach
 * free memory? */
static bool has_room(pid_t pid)
{
	char line[512];
	unsigned long lo, first = 0, stack = 0;
	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	FILE *maps = fopen(line, "re");
	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps)) {
		ck_assert_int_eq(sscanf(line, "%lx-", &lo), 1);
		first = !first || (strstr(line, "tests/targets/") && lo < first) ? lo : first;
		stack = strstr(line, "[stack]") ? lo : stack;
	}
	fclose(maps);
	return stack - first > ROOM;
}

/* Starts the target. A program at fixed addresses runs without randomization, because the result
 * depends on the addresses of its heap (brk) and stack. A randomly placed program is started again
 * until it has room. */
static void start(struct victim *victim, const char *const words[])
{
	char path[64];
	const char *argv[10] = {"/usr/bin/setarch", "-R"};
	size_t count = is_placed_anywhere(words[0]) ? 0 : 2;
	snprintf(path, sizeof(path), "tests/targets/%s", words[0]);
	argv[count++] = run_built(path);
	for (size_t i = 1; words[i]; i++)
		argv[count++] = words[i];
	argv[count] = NULL;
	victim_start(victim, argv);
	while (is_placed_anywhere(words[0]) && !has_room(victim->pid)) {
		victim_kill(victim);
		victim_start(victim, argv);
	}
}

static void watch(struct hookedcode *watched, const struct victim *victim, const char *name,
	const char *const *functions)
{
	char path[64];
	snprintf(path, sizeof(path), "tests/targets/%s", name);
	hookedcode_watch(watched, victim->pid, run_built(path), functions);
}

/* Ends the capture, which must leave nothing. */
static json_t *stop(struct tap *tap, const struct hookedcode *watched)
{
	json_t *attach = tap_stop(tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_ge(report_u64(attach, "entries"), watched->count);
	ck_assert_uint_eq(report_u64(attach, "unseen_places"), 0);
	ck_assert_str_eq(report_text(attach, "refused"), "");
	ck_assert_uint_eq(hookedcode_count(watched), 0);
	close(watched->memory);
	return attach;
}

/* --- counts ----------------------------------------------------------------------------------- */

static json_t *record_phase(struct victim *victim, const char *name, struct tap *tap)
{
	struct hookedcode watched;
	struct procsnap *before = procsnap_take(victim->pid, PROCSNAP_MASKS_CHANGE);
	watch(&watched, victim, name, has_jemalloc(name) ? jemalloc : glibc);
	tap_start(tap, victim->pid, (const char *[]){"--hook", "auto", NULL});
	hookedcode_wait(&watched, tap);
	HT_FREED char *books = victim_ask(victim, "go", PHASE_MS);
	json_decref(stop(tap, &watched));
	procsnap_verify(before, victim->pid);
	json_t *ledger = report_parse(books);
	return ledger;
}

/* Runs one phase before the captures, so that older blocks exist, and one after each, which must
 * not be in the traces. */
static void compare_books(const char *const words[], bool by_thread)
{
	struct victim victim;
	struct tap tap;
	start(&victim, words);
	free(victim_ask(&victim, "go", PHASE_MS));
	for (unsigned round = 0; round < 2; round++) {
		json_t *ledger = record_phase(&victim, words[0], &tap);
		free(victim_ask(&victim, "go", PHASE_MS));
		if (!has_jemalloc(words[0]))
			books_fold(ledger, "memalign", "aligned_alloc");
		books_fold(ledger, "reallocarray", "realloc");
		books_check(tap.trace, ledger, by_thread, false);
		json_decref(ledger);
	}
	victim_stop(&victim);
}

#define BOOKS_TEST(name, by_thread, ...)                                                           \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		compare_books((const char *[]){__VA_ARGS__, NULL}, by_thread);                     \
	}

BOOKS_TEST(fixed, true, "linked-static", "-t4", "-n", "4000")
BOOKS_TEST(anywhere, true, "linked-static-pie", "-t4", "-n", "4000")
BOOKS_TEST(threads_come_and_go, false, "linked-static", "-t4", "-n", "4000", "-m", "storm")
BOOKS_TEST(handlers, false, "linked-static", "-t4", "-n", "4000", "-m", "signals")
BOOKS_TEST(jemalloc_of_its_own, true, "linked-jemalloc-static-pie", "-l", "-t4", "-n", "4000")
BOOKS_TEST(jemalloc_fixed, true, "linked-jemalloc-static", "-l", "-t4", "-n", "4000")
BOOKS_TEST(forked_children, false, "linked-static-pie", "-t2", "-n", "4000", "-m", "forks")

/* --- languages -------------------------------------------------------------------------------- */

/* Operators new and delete, and Rust's allocator, call hooked functions, so no call is missed. */
static void check_language(const char *name, const char *frame)
{
	struct victim victim;
	struct hookedcode watched;
	struct tap tap;
	char *text;
	start(&victim, (const char *[]){name, NULL});
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	watch(&watched, &victim, name, hooked);
	tap_start(&tap, victim.pid, (const char *[]){"--hook", "auto", NULL});
	hookedcode_wait(&watched, &tap);
	victim_prove_alive(&victim);
	json_t *attach = stop(&tap, &watched);
	ck_assert_uint_gt(report_u64(attach, "events"), 0);
	ck_assert_uint_eq(report_u64(attach, "truncated_stacks"), 0);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "report", "--stacks",
					     tap.trace, NULL},
				 COMMAND_MS, &text, NULL),
		0);
	ck_assert_msg(strstr(text, frame), "%s is not in: %s", frame, text);
	free(text);
	victim_stop(&victim);
}

HT_TEST(cxx)
{
	check_language("cxx-static", "cxx.cc");
	check_language("cxx-static-pie", "cxx.cc");
}

HT_TEST(rust)
{
	check_language("rust-static", "rust.rs");
}

/* --- libraries -------------------------------------------------------------------------------- */

static void check_blocks_of_library(struct victim *victim, const char *name, const char *opened)
{
	struct hookedcode watched;
	struct tap tap;
	watch(&watched, victim, name, hooked);
	tap_start(&tap, victim->pid, (const char *[]){"--hook", "auto", NULL});
	hookedcode_wait(&watched, &tap);
	if (opened)
		free(victim_ask(victim, opened, PHASE_MS));
	tap_wait_on(&tap, "/libplug.so");
	free(victim_ask(victim, "work 1000", PHASE_MS));
	json_decref(stop(&tap, &watched));
	ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 333), 1000);
	free(victim_ask(victim, "work 1000", PHASE_MS));
}

/* A library that a static program loads with dlopen brings another C library, whose functions it
 * calls through slots. The first capture has the library loaded during it, the second one before
 * it. */
static void check_libraries(const char *name)
{
	struct victim victim;
	start(&victim, (const char *[]){name, NULL});
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MODULES_GROW);
	check_blocks_of_library(&victim, name, "open");
	procsnap_verify(before, victim.pid);
	before = procsnap_take(victim.pid, 0);
	check_blocks_of_library(&victim, name, NULL);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(libraries)
{
	check_libraries("plughost-static");
	check_libraries("plughost-static-pie");
}

/* heaptap must not refuse because libraries are being loaded or unloaded. */
HT_TEST(libraries_come_and_go)
{
	struct victim victim;
	struct tap tap;
	start(&victim, (const char *[]){"plughost-static", NULL});
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	victim_send(&victim, "churn 3000");
	for (unsigned i = 0; i < CAPTURES; i++) {
		tap_start(&tap, victim.pid,
			(const char *[]){
				"--hook", "auto", "-d", "20ms", "--symbolize", "later", NULL});
		json_t *attach = tap_wait(&tap, 0);
		ck_assert_uint_eq(report_u64(attach, "level"), 0);
		json_decref(attach);
		unlink(tap.trace);
	}
	free(victim_line(&victim, PHASE_MS));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* --- refused ---------------------------------------------------------------------------------- */

static void check_refused(const char *name, const char *hook, const char *reason)
{
	struct victim victim;
	char pid[16], *err, *trace = tmpdir_path("none");
	start(&victim, (const char *[]){name, NULL});
	struct procsnap *before = procsnap_take(victim.pid, 0);
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	int status = run_program((const char *[]){run_built("heaptap"), "attach", "-p", pid, "-o",
					 trace, hook ? "--hook" : NULL, hook, NULL},
		RUN_REFUSAL_MS, NULL, &err);
	ck_assert_msg(status == REFUSED, "%d: %s", status, err);
	ck_assert_msg(strstr(err, reason), "%s", err);
	ck_assert_msg(strchr(err, '\n') == strrchr(err, '\n'), "not one line: %s", err);
	free(err);
	free(trace);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* The refusal names the remedy, if there is one. */
HT_TEST(refused_untouched)
{
	check_refused("linked-static", NULL, "--hook auto");
	check_refused("linked-static-pie", "slot", "--hook auto");
	check_refused("linked-static-stripped", "auto", "no symbols");
}

/* A trace without its frees would mislead. */
HT_TEST(refused_where_free_has_no_hook)
{
	if (access(run_built("tests/targets/linked-musl-static"), X_OK))
		printf("skipped: static: linked-musl-static: its libc is not installed\n");
	else
		check_refused("linked-musl-static", "auto", "its free cannot be hooked");
}

/* doctor reports what attach would do, and changes nothing. */
HT_TEST(doctor)
{
	struct victim victim;
	char pid[16], *text;
	start(&victim, (const char *[]){"busy-static", "-t1", NULL});
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	ck_assert_int_eq(
		run_program((const char *[]){run_built("heaptap"), "doctor", "-p", pid, NULL},
			COMMAND_MS, &text, NULL),
		0);
	ck_assert_msg(strstr(text, "statically linked"), "%s", text);
	ck_assert_msg(strstr(text, "--hook auto"), "%s", text);
	ck_assert_msg(strstr(text, "othing was touched"), "%s", text);
	free(text);
	json_t *json = report_run("doctor", victim.pid, 0);
	ck_assert(json_is_true(report_at(json, "static")));
	ck_assert_uint_eq(report_u64(json, "entries"), 4);
	json_decref(json);
	victim_stop(&victim);
}

/* --- killed ----------------------------------------------------------------------------------- */

static void check_recovered(const char *name)
{
	struct victim victim;
	struct hookedcode watched;
	struct tap tap;
	start(&victim, (const char *[]){name, "-t2", NULL});
	struct procsnap *before = procsnap_take(victim.pid, 0);
	watch(&watched, &victim, name, hooked);
	tap_start(&tap, victim.pid, (const char *[]){"--hook", "auto", NULL});
	hookedcode_wait(&watched, &tap);
	tap_abandon(&tap);
	run_until(tap_guardian_is_done(victim.pid), COMMAND_MS);
	victim_prove_alive(&victim);
	ck_assert_uint_eq(hookedcode_count(&watched), watched.count);
	json_t *verify = report_run("verify", victim.pid, 6);
	ck_assert_str_eq(report_text(verify, "state"), "abandoned");
	const char *code = report_text(report_at(report_at(verify, "parts"), "code"), "text");
	ck_assert_msg(strstr(code, "recorded function"), "%s", code);
	json_decref(verify);
	json_decref(report_run("recover", victim.pid, 0));
	ck_assert_uint_eq(hookedcode_count(&watched), 0);
	json_decref(report_run("verify", victim.pid, 0));
	procsnap_verify(before, victim.pid);
	close(watched.memory);
	victim_stop(&victim);
}

/* All processes of heaptap are killed: the program goes on, and recover removes everything. */
HT_TEST(recovered)
{
	check_recovered("busy-static");
	check_recovered("busy-static-pie");
}

/* heaptap is killed: its guardian removes everything. */
HT_TEST(guardian)
{
	struct victim victim;
	struct hookedcode watched;
	struct tap tap;
	start(&victim, (const char *[]){"busy-static", "-t2", "-s", NULL});
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	watch(&watched, &victim, "busy-static", hooked);
	tap_start(&tap, victim.pid, (const char *[]){"--hook", "auto", NULL});
	hookedcode_wait(&watched, &tap);
	kill(tap.run.pid, SIGKILL);
	run_wait(&tap.run, COMMAND_MS);
	procsnap_wait(before, victim.pid, COMMAND_MS);
	procsnap_verify(before, victim.pid);
	close(watched.memory);
	victim_stop(&victim);
}

HT_SUITE("integration/static")
