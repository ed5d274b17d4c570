/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocators that are linked in and called without slots: heaptap sets entry hooks (--hook), counts
 * are exact, and the hooks are removed again. If a function cannot be hooked, heaptap hooks
 * none.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/books.h"
#include "tests/support/hookedcode.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define PHASE_MS   60000
#define COMMAND_MS 60000
#define PARKED_US  300000

static const char *const rjem[] = {"_rjem_malloc", "_rjem_calloc", "_rjem_realloc", "_rjem_free",
	"_rjem_posix_memalign", "_rjem_aligned_alloc", "_rjem_mallocx", "_rjem_rallocx",
	"_rjem_xallocx", "_rjem_dallocx", "_rjem_sdallocx", NULL};
static const char *const plain[] = {"malloc", "calloc", "realloc", "free", "posix_memalign",
	"aligned_alloc", "memalign", "valloc", NULL};
static const char *const own[] = {"malloc", "calloc", "realloc", "free", NULL};
static const char *const lto[] = {"_rjem_malloc", "_rjem_sdallocx", NULL};

struct program {
	const char *argv[8]; /* argv[0] is below tests/targets */
	const char *hook;
	const char *const *names;	/* the functions that get entry hooks */
	bool by_thread, nested, unseen; /* unseen: the program makes calls that no hook sees */
};

static void start(struct victim *victim, const struct program *program)
{
	char path[64];
	snprintf(path, sizeof(path), "tests/targets/%s", program->argv[0]);
	/* The heap (brk) may be where a jump would lead: turn off randomization. */
	const char *argv[10] = {"/usr/bin/setarch", "-R", run_built(path)};
	for (size_t i = 1; program->argv[i]; i++)
		argv[2 + i] = program->argv[i];
	victim_start(victim, argv);
}

static json_t *record_phase(struct victim *victim, const struct program *program, struct tap *tap)
{
	char path[64];
	struct hookedcode watched;
	snprintf(path, sizeof(path), "tests/targets/%s", program->argv[0]);
	hookedcode_watch(&watched, victim->pid, run_built(path), program->names);
	struct procsnap *before = procsnap_take(victim->pid, 0);
	tap_start(tap, victim->pid, (const char *[]){"--hook", program->hook, NULL});
	hookedcode_wait(&watched, tap);
	HT_FREED char *books = victim_ask(victim, "go", PHASE_MS);
	json_t *attach = tap_stop(tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_ge(report_u64(attach, "entries"), watched.count);
	ck_assert_uint_eq(report_u64(attach, "unseen_places") > 0, program->unseen);
	ck_assert_uint_eq(hookedcode_count(&watched), 0);
	procsnap_verify(before, victim->pid);
	close(watched.memory);
	json_decref(attach);
	json_t *ledger = report_parse(books);
	return ledger;
}

/* Runs one phase before the captures, so that older blocks exist, and one phase after each, which
 * must not be in the traces. The second capture meets the leftovers of the first. */
static void compare_books(const struct program *program)
{
	struct victim victim;
	struct tap tap;
	start(&victim, program);
	free(victim_ask(&victim, "go", PHASE_MS));
	for (unsigned round = 0; round < 2; round++) {
		json_t *ledger = record_phase(&victim, program, &tap);
		free(victim_ask(&victim, "go", PHASE_MS));
		books_check(tap.trace, ledger, program->by_thread, program->nested);
		json_decref(ledger);
	}
	victim_stop(&victim);
}

/* Test name, value of --hook, hooked functions, whether the ledger counts by thread, whether it
 * counts handlers' calls; then the program and its options. */
#define ENTRY_TEST(name, how, which, threads, handlers, ...)                                       \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		compare_books(&(const struct program){                                             \
			{__VA_ARGS__}, how, which, threads, handlers, false});                     \
	}

ENTRY_TEST(called_directly, "auto", rjem, true, false, "extended-direct")
/* In a program at fixed addresses a jump from free's first bytes would lead below address 0, so a
 * later instruction becomes the jump. */
ENTRY_TEST(at_fixed_addresses, "auto", rjem, true, false, "extended-direct-fixed")
/* With --hook entry heaptap leaves the program's slots unchanged. */
ENTRY_TEST(called_by_slots, "entry", rjem, true, false, "extended-static")
ENTRY_TEST(malloc_of_the_process, "auto", plain, true, false, "ledger-direct", "-l", "-t4")
/* jemalloc is left out: a handler must not call it, because it may interrupt jemalloc's set-up of a
 * thread. */
ENTRY_TEST(handlers_between_calls, "auto", own, false, false, "ledger-own-direct", "-t4", "-m",
	"signals")
ENTRY_TEST(handlers_within_calls, "auto", own, false, true, "ledger-own-direct", "-t4", "-n30000",
	"-m", "nested")
ENTRY_TEST(forked_children, "auto", plain, false, false, "ledger-direct", "-l", "-t2", "-n20000",
	"-m", "forks")
ENTRY_TEST(rust, "auto", lto, false, false, "rust-jemalloc-lto")

/* heaptap must refuse to hook some functions, for `reasons`; the program's results stay right. */
static void refuse_of(const char *name, const char *const reasons[])
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){"/usr/bin/setarch", "-R", run_built(name), NULL});
	free(victim_ask(&victim, "go", PHASE_MS));
	struct procsnap *before = procsnap_take(victim.pid, 0);
	tap_start(&tap, victim.pid, (const char *[]){"--hook", "entry", NULL});
	tap_wait_any(&tap);
	for (unsigned i = 0; i < 20; i++)
		free(victim_ask(&victim, "go", PHASE_MS));
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_eq(report_u64(attach, "unseen_places") > 0, true);
	for (; *reasons; reasons++)
		ck_assert_ptr_nonnull(strstr(report_text(attach, "refused"), *reasons));
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* The compiler knows which registers a leaf allocator preserves; its callers keep values there, and
 * a hook would overwrite them. heaptap does not hook it, and reports it as not covered. */
HT_TEST(registers_of_callers)
{
	refuse_of("tests/targets/leafalloc",
		(const char *[]){"free (its callers", "malloc (its callers", NULL});
}

/* The function jumps back to an instruction that could become the hook's jump. A hook would execute
 * the instructions before it again. */
HT_TEST(a_part_elsewhere_comes_back)
{
	refuse_of("tests/targets/comeback", (const char *[]){"within reach of a jump", NULL});
}

/* Without --hook heaptap sets no entry hooks. */
HT_TEST(not_asked_for)
{
	const struct program program = {{"extended-direct"}, "slot", rjem, true, false, true};
	struct victim victim;
	struct hookedcode watched;
	struct tap tap;
	start(&victim, &program);
	hookedcode_watch(&watched, victim.pid, run_built("tests/targets/extended-direct"), rjem);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_any(&tap);
	ck_assert_uint_eq(hookedcode_count(&watched), 0);
	json_t *attach = tap_stop(&tap, 0);
	ck_assert_uint_eq(report_u64(attach, "entries"), 0);
	json_decref(attach);
	victim_stop(&victim);
}

/* All processes of heaptap are killed: the target goes on, verify lists the hooks, and recover
 * removes them with the journal in the target. */
HT_TEST(recovered)
{
	const struct program program = {{"extended-direct"}, "auto", rjem, true, false, false};
	struct victim victim;
	struct hookedcode watched;
	struct tap tap;
	char children[64], guardian[16];
	start(&victim, &program);
	hookedcode_watch(&watched, victim.pid, run_built("tests/targets/extended-direct"), rjem);
	/* Take the snapshot after a "go": the target's threads exist then. */
	free(victim_ask(&victim, "go", PHASE_MS));
	struct procsnap *before = procsnap_take(victim.pid, 0);
	tap_start(&tap, victim.pid, (const char *[]){"--hook", "auto", NULL});
	hookedcode_wait(&watched, &tap);
	snprintf(children, sizeof(children), "/proc/%d/task/%d/children", tap.run.pid, tap.run.pid);
	FILE *file = fopen(children, "re");
	ck_assert_ptr_nonnull(file);
	kill(tap.run.pid, SIGSTOP);
	while (fscanf(file, "%15s", guardian) == 1)
		kill((pid_t)strtol(guardian, NULL, 10), SIGKILL);
	fclose(file);
	kill(tap.run.pid, SIGKILL);
	run_wait(&tap.run, COMMAND_MS);
	free(victim_ask(&victim, "go", PHASE_MS));
	ck_assert_uint_eq(hookedcode_count(&watched), watched.count);
	json_t *verify = report_run("verify", victim.pid, 6);
	ck_assert_str_eq(report_text(verify, "state"), "abandoned");
	const char *code = report_text(report_at(report_at(verify, "parts"), "code"), "text");
	ck_assert_msg(strstr(code, "jumps to heaptap"), "%s", code);
	json_decref(verify);
	json_decref(report_run("recover", victim.pid, 0));
	ck_assert_uint_eq(hookedcode_count(&watched), 0);
	json_decref(report_run("verify", victim.pid, 0));
	procsnap_verify(before, victim.pid);
	free(victim_ask(&victim, "go", PHASE_MS));
	victim_stop(&victim);
}

/* A debugger's breakpoint inside one of heaptap's jumps would send the program to a wrong address.
 * So heaptap removes entry hooks when a debugger begins to trace, before the debugger reads
 * symbols. */
HT_TEST(a_debugger_comes)
{
	const struct program program = {{"extended-direct"}, "auto", rjem, true, false, false};
	struct victim victim;
	struct hookedcode watched;
	struct tap tap;
	start(&victim, &program);
	hookedcode_watch(&watched, victim.pid, run_built("tests/targets/extended-direct"), rjem);
	free(victim_ask(&victim, "go", PHASE_MS));
	struct procsnap *before = procsnap_take(victim.pid, 0);
	tap_start(&tap, victim.pid, (const char *[]){"--hook", "auto", NULL});
	hookedcode_wait(&watched, &tap);
	run_until(ptrace(PTRACE_SEIZE, victim.pid, NULL, NULL) == 0, COMMAND_MS);
	run_until(hookedcode_count(&watched) == 0, COMMAND_MS);
	ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, victim.pid, NULL, NULL), 0);
	ck_assert_int_eq(waitpid(victim.pid, NULL, __WALL), victim.pid);
	ck_assert_int_eq(ptrace(PTRACE_DETACH, victim.pid, NULL, NULL), 0);
	json_t *attach = tap_wait(&tap, 1);
	ck_assert_ptr_null(attach);
	procsnap_verify(before, victim.pid);
	free(victim_ask(&victim, "go", PHASE_MS));
	victim_stop(&victim);
}

/* A signal handler sleeps while its thread is in the code between an entry hook's jump and the
 * agent. Detach must not unmap that code before the thread has left it. */
static void check_parked(const char *where)
{
	const struct program program = {{"steps"}, "auto", own, false, false, false};
	struct victim victim;
	struct hookedcode watched;
	struct tap tap;
	char command[16];
	start(&victim, &program);
	hookedcode_watch(&watched, victim.pid, run_built("tests/targets/steps"), own);
	free(victim_ask(&victim, "go", PHASE_MS));
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_THREADS_CHANGE);
	tap_start(&tap, victim.pid, (const char *[]){"--hook", "auto", NULL});
	hookedcode_wait(&watched, &tap);
	snprintf(command, sizeof(command), "park %s", where);
	free(victim_ask(&victim, command, PHASE_MS));
	kill(tap.run.pid, SIGINT);
	run_until(hookedcode_count(&watched) == 0, COMMAND_MS);
	free(victim_ask(&victim, "go", PHASE_MS));
	/* A detach that overlooks the thread ends within PARKED_US. */
	usleep(PARKED_US);
	ck_assert(!run_has_ended(&tap.run));
	free(victim_ask(&victim, "release", PHASE_MS));
	json_decref(tap_wait(&tap, 0));
	/* glibc has installed a signal handler of its own since the second thread started. */
	procsnap_verify_but(
		before, victim.pid, (const char *[]){"SigCgt:\t0000000100000010", NULL});
	free(victim_ask(&victim, "go", PHASE_MS));
	victim_stop(&victim);
}

HT_TEST(parked_on_the_way)
{
	check_parked("pad");
	check_parked("thunk");
	check_parked("bridge");
}

HT_SUITE("integration/entry")
