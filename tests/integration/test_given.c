/* SPDX-License-Identifier: Apache-2.0
 *
 * A program's own allocators, named by --alloc-fn: heaptap records each of their allocations once,
 * besides those of the C library, by GOT slots and by entry hooks, removes the hooks, and refuses
 * wrong options.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/books.h"
#include "tests/support/hookedcode.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define PHASE_MS   60000
#define COMMAND_MS 60000

enum { USAGE = 2, REFUSED = 3 };

#define GIVEN                                                                                      \
	"--alloc-fn=arena_get=malloc", "--alloc-fn=arena_zeroed=calloc",                           \
		"--alloc-fn=arena_resize=realloc", "--alloc-fn=arena_aligned=aligned_alloc",       \
		"--alloc-fn=arena_place=posix_memalign", "--alloc-fn=arena_put=free",              \
		"--alloc-fn", "arena_put_sized=dallocx"

/* arena_put_sized is not hooked: it only jumps to arena_put, whose hook records the call. */
static const char *const functions[] = {"arena_get", "arena_zeroed", "arena_resize",
	"arena_aligned", "arena_place", "arena_put", NULL};

/* The heap (brk) may be where a jump would lead: turn off randomization. */
static void start(struct victim *victim, const char *program)
{
	victim_start(victim, (const char *[]){"/usr/bin/setarch", "-R", run_built(program), NULL});
	/* After a "go" the slots are bound, and older blocks exist. */
	free(victim_ask(victim, "go", PHASE_MS));
}

/* Makes two captures with --hook `way`, because the second one meets the leftovers of the first.
 * `at_entries`: the functions get entry hooks. `how`: a text that attach prints about them. */
static void compare_books(const char *program, const char *way, bool at_entries, const char *how)
{
	struct victim victim;
	struct hookedcode watched = {0};
	struct tap tap;
	start(&victim, program);
	if (at_entries)
		hookedcode_watch(&watched, victim.pid, run_built(program), functions);
	for (unsigned round = 0; round < 2; round++) {
		struct procsnap *before = procsnap_take(victim.pid, 0);
		tap_start(&tap, victim.pid, (const char *[]){"--hook", way, GIVEN, NULL});
		if (at_entries)
			hookedcode_wait(&watched, &tap);
		tap_wait_on(&tap, "");
		char *books = victim_ask(&victim, "go", PHASE_MS);
		json_t *attach = tap_stop(&tap, 0);
		tap_check_clean(attach);
		ck_assert_uint_eq(report_u64(attach, "entries"), watched.count);
		ck_assert_uint_eq(report_u64(attach, "unseen_places"), 0);
		ck_assert_ptr_nonnull(strstr(report_text(attach, "given"), how));
		procsnap_verify(before, victim.pid);
		free(victim_ask(&victim, "go", PHASE_MS));
		json_t *ledger = report_parse(books);
		books_check(tap.trace, ledger, true, false);
		json_decref(ledger);
		json_decref(attach);
		free(books);
	}
	if (at_entries)
		close(watched.memory);
	victim_stop(&victim);
}

HT_TEST(hooks_given_functions_by_slots)
{
	compare_books("tests/targets/arena-shared", "slot", false,
		"arena_put as free (recorded addresses: 2)");
}

HT_TEST(hooks_given_functions_by_unnamed_words)
{
	compare_books("tests/targets/arena-words", "slot", false,
		"arena_place as posix_memalign (recorded addresses: 1)");
}

HT_TEST(at_their_entries)
{
	compare_books(
		"tests/targets/arena-direct", "auto", true, "arena_put as free (at its entry)");
}

/* If an allocator's free cannot be hooked, heaptap hooks none of its functions and reports all. */
static void check_none_hooked(const char *program, const char *given, const char *refused)
{
	struct victim victim;
	struct tap tap;
	start(&victim, program);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	tap_start(&tap, victim.pid,
		(const char *[]){"--hook", "auto", GIVEN, "--alloc-fn", given, NULL});
	tap_wait_any(&tap);
	free(victim_ask(&victim, "go", PHASE_MS));
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_eq(report_u64(attach, "entries"), 0);
	ck_assert_uint_gt(report_u64(attach, "unseen_places"), 0);
	ck_assert_ptr_nonnull(strstr(report_text(attach, "unseen"), "given (arena_get"));
	ck_assert_ptr_nonnull(strstr(report_text(attach, "refused"), refused));
	ck_assert_ptr_nonnull(
		strstr(report_text(attach, "given"), "arena_get as malloc (NOT RECORDED"));
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(unhookable_free_hooks_nothing)
{
	check_none_hooked("tests/targets/arena-direct", "arena_forget=free",
		"arena_forget (its callers may rely");
}

/* The function jumps to a hooked free with another block than its own argument. */
HT_TEST(free_that_passes_another_block_hooks_nothing)
{
	check_none_hooked(
		"tests/targets/arena-fixed", "arena_put_behind=free", "arena_put_behind (");
}

/* arena_get_kept reaches the hooked function only with some of its calls, so heaptap reports it as
 * not recorded. */
HT_TEST(allocator_that_keeps_blocks)
{
	struct victim victim;
	struct tap tap;
	start(&victim, "tests/targets/arena-fixed");
	tap_start(&tap, victim.pid,
		(const char *[]){
			"--hook", "auto", GIVEN, "--alloc-fn", "arena_get_kept=malloc", NULL});
	tap_wait_any(&tap);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	const char *given = report_text(attach, "given");
	ck_assert_ptr_nonnull(strstr(given, "arena_get as malloc (at its entry)"));
	ck_assert_ptr_nonnull(strstr(given, "arena_get_kept as malloc (NOT RECORDED"));
	json_decref(attach);
	victim_stop(&victim);
}

/* All processes of heaptap are killed: recover reads the names from the journal in the target. */
static void check_recovered(const char *program, const char *way)
{
	struct victim victim;
	struct tap tap;
	start(&victim, program);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	tap_start(&tap, victim.pid, (const char *[]){"--hook", way, GIVEN, NULL});
	tap_wait_on(&tap, "");
	tap_abandon(&tap);
	free(victim_ask(&victim, "go", PHASE_MS));
	json_decref(report_run("recover", victim.pid, 0));
	json_decref(report_run("verify", victim.pid, 0));
	procsnap_verify(before, victim.pid);
	free(victim_ask(&victim, "go", PHASE_MS));
	victim_stop(&victim);
}

HT_TEST(recovered)
{
	check_recovered("tests/targets/arena-shared", "slot");
	check_recovered("tests/targets/arena-words", "slot");
	check_recovered("tests/targets/arena-direct", "auto");
}

/* `heaptap COMMAND --alloc-fn GIVEN` must exit with `status` and one line that contains `why`. */
static void refuse(pid_t pid, const char *command, const char *given, int status, const char *why)
{
	char number[16], *out, *err;
	snprintf(number, sizeof(number), "%d", pid);
	HT_FREED char *trace = tmpdir_path("refused.htap");
	bool attach = !strcmp(command, "attach");
	const char *argv[] = {run_built("heaptap"), command, "-p", number, "--alloc-fn", given,
		attach ? "-o" : NULL, trace, "-d", "1s", NULL};
	int got = run_program(argv, RUN_REFUSAL_MS, &out, &err);
	ck_assert_msg(got == status, "%s %s: %d: %s", command, given, got, err);
	ck_assert_msg(strstr(err, why), "%s %s: %s", command, given, err);
	ck_assert_ptr_eq(strchr(err, '\n'), err + strlen(err) - 1);
	ck_assert_str_eq(out, "");
	ck_assert_int_ne(access(trace, F_OK), 0);
	free(out);
	free(err);
}

HT_TEST(wrong)
{
	static const struct {
		const char *program, *given;
		int status;
		const char *why;
	} cases[] = {
		{"arena-direct", "arena_get", USAGE, "NAME=KIND"},
		{"arena-direct", "arena_get=mallok", USAGE, "KIND must be"},
		{"arena-direct", "arena_gets=malloc", REFUSED, "no function of that name"},
		{"arena-direct", "phases_start=malloc", REFUSED, "no function of that name"},
		{"arena-stripped", "arena_get=malloc", REFUSED, "no function of that name"},
		{"arena-twice", "arena_put=free", REFUSED, "several functions of that name"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		struct victim victim;
		char program[64];
		snprintf(program, sizeof(program), "tests/targets/%s", cases[i].program);
		start(&victim, program);
		struct procsnap *before = procsnap_take(victim.pid, 0);
		refuse(victim.pid, "doctor", cases[i].given, cases[i].status, cases[i].why);
		refuse(victim.pid, "attach", cases[i].given, cases[i].status, cases[i].why);
		procsnap_verify(before, victim.pid);
		victim_stop(&victim);
	}
}

/* More coroutines wait within one hook than the agent has records for. The agent records the first
 * ones, and knows of the others only that there are some, so it must stay. */
HT_TEST(coroutines_wait_within_a_hook)
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){run_built("tests/targets/queued"), NULL});
	tap_start(&tap, victim.pid,
		(const char *[]){"--hook", "auto", "--alloc-fn", "pool_get=malloc", "--alloc-fn",
			"pool_put=free", NULL});
	tap_wait_any(&tap);
	free(victim_ask(&victim, "wait", PHASE_MS));
	free(victim_ask(&victim, "serve 6", PHASE_MS));
	json_t *attach = tap_stop(&tap, 6);
	tap_drop(&tap, "those that wait within the agent keep all of it");
	ck_assert_uint_eq(report_u64(attach, "level"), 3);
	ck_assert_uint_eq(report_u64(attach, "entries"), 2);
	json_decref(attach);
	char *served = victim_ask(&victim, "serve 20", PHASE_MS);
	ck_assert_str_eq(served, "20");
	free(served);
	victim_stop(&victim);
}

static void feed(void *context)
{
	static const char commands[] = "go\nstop\n";
	int fd = memfd_create("input", MFD_CLOEXEC);
	(void)context;
	if (write(fd, commands, strlen(commands)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		_exit(125);
	dup2(fd, STDIN_FILENO);
}

/* Only the program itself calls arena_place, and nothing calls posix_memalign, which has the same
 * hook number: the trace must have each call of arena_place, from the first. */
HT_TEST(hooks_given_functions_of_a_command)
{
	HT_FREED char *trace = tmpdir_path("run.htap");
	const char *const argv[] = {run_built("heaptap"), "run", "-q", "-o", trace, GIVEN, "--",
		run_built("tests/targets/arena-shared"), NULL};
	struct run run;
	run_start_prepared(&run, argv, feed, NULL);
	ck_assert_int_eq(run_wait(&run, COMMAND_MS), 0);
	char *out = run_out(&run);
	json_t *ledger = report_parse(strchr(out, '\n') + 1);
	struct tracefile file;
	tracefile_load(trace, &file);
	struct tracefile_count placed = tracefile_allocations(&file, 0, ABI_HOOK_POSIX_MEMALIGN);
	ck_assert_uint_eq(placed.calls, report_u64(ledger, "functions.posix_memalign.calls"));
	ck_assert_uint_eq(placed.bytes, report_u64(ledger, "functions.posix_memalign.bytes"));
	ck_assert_uint_gt(placed.calls, 0);
	tracefile_deinit(&file);
	json_decref(ledger);
	free(out);
	run_deinit(&run);
}

HT_SUITE("integration/given")
