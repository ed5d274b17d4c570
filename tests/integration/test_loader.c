/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic linker works during a capture: libraries come and go, and programs are linked in many
 * ways. Counts are exact, and heaptap writes only its own words. Other hooks: test_hooks.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/books.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/sample.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define ANSWER_MS 30000
#define STORMS	  sample_size(8, 3) /* captures within one storm */
/* With more operations mimalloc 2.0.9 returns misaligned blocks. */
#define OPERATIONS "5000"
#define MUSL	   "/lib/ld-musl-x86_64.so.1"

static unsigned long ask_count(struct victim *victim, const char *command)
{
	HT_FREED char *answer = victim_ask(victim, command, ANSWER_MS);
	unsigned long count = strtoul(answer, NULL, 10);
	return count;
}

static void storm_start(struct victim *victim)
{
	victim_start(victim, (const char *[]){run_built("tests/targets/storm"),
				     run_built("tests/targets/libburst-lazy.so"),
				     run_built("tests/targets/libburst-now.so"),
				     run_built("tests/targets/libburst-noplt.so"),
				     run_built("tests/targets/libburst-sysv.so"), NULL});
}

/* Attaches, captures and detaches several times while libraries are loaded and unloaded. */
HT_TEST(storm)
{
	struct victim victim;
	storm_start(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	ask_count(&victim, "storm");
	for (unsigned i = 0; i < STORMS; i++) {
		struct tap tap;
		tap_start(&tap, victim.pid, (const char *[]){"--symbolize", "later", NULL});
		tap_wait_any(&tap);
		unsigned long loads = ask_count(&victim, "count");
		run_until(ask_count(&victim, "count") > loads + 200, ANSWER_MS);
		tap_check_clean(tap_stop(&tap, 0));
		unlink(tap.trace);
	}
	ask_count(&victim, "calm");
	ask_count(&victim, "hold");
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

static void check_rounds(struct victim *victim, const char *program)
{
	/* In the first round heaptap binds lazy slots, in the second the dynamic linker. */
	for (int round = 0; round < 2; round++) {
		struct tap tap;
		struct procsnap *before = procsnap_take(victim->pid, 0);
		tap_start(&tap, victim->pid, NULL);
		tap_wait_on(&tap, program);
		char *books = victim_ask(victim, "go", ANSWER_MS);
		json_t *attach = tap_stop(&tap, 0);
		tap_check_clean(attach);
		ck_assert_uint_eq(report_u64(attach, "untapped_modules"), 0);
		json_decref(attach);
		procsnap_verify(before, victim->pid);
		json_t *ledger = report_parse(books);
		books_check(tap.trace, ledger, true, strstr(program, "musl"));
		json_decref(ledger);
		free(books);
		free(victim_ask(victim, "go", ANSWER_MS));
	}
}

/* Starts the ledger `program` with `setting` (NAME=VALUE) in its environment, or NULL. The trace
 * must have what the ledger counts. `lax`: the allocator is not glibc's. */
static void check_books(const char *program, const char *setting, bool lax)
{
	struct victim victim;
	char name[64], *variable = setting ? strdup(setting) : NULL;
	snprintf(name, sizeof(name), "tests/targets/%s", program);
	bool may_miss = !strcmp(program, "linked-mold") || !strcmp(program, "linked-musl");
	if (may_miss && access(run_built(name), X_OK)) {
		printf("skipped: loader: %s: its linker is not installed\n", program);
		return;
	}
	char *value = variable ? strchr(variable, '=') : NULL;
	if (value) {
		*value = '\0';
		setenv(variable, value + 1, 1);
	}
	victim_start(&victim, (const char *[]){run_built(name), "-n", OPERATIONS, "-t", "2",
				      lax ? "-l" : NULL, NULL});
	if (value)
		unsetenv(variable);
	free(variable);
	check_rounds(&victim, program);
	victim_stop(&victim);
}

static const struct {
	const char *program, *setting;
	bool lax; /* not glibc's allocator */
} linked[] = {
	{"linked-gold", NULL, false},
	{"linked-lld", NULL, false},
	{"linked-mold", NULL, false},
	{"linked-relr", NULL, false},
	{"linked-sysv", NULL, false},
	{"linked-gnu", NULL, false},
	{"linked-noplt", NULL, false},
	{"linked-bare", NULL, false},
	{"linked-musl", NULL, true},
	{"ledger-lazy", "LD_BIND_NOW=1", false},
	{"ledger-nopie", "LD_BIND_NOW=1", false},
	{"ledger", "LD_PRELOAD=libjemalloc.so.2", true},
	{"ledger-lazy", "LD_PRELOAD=libjemalloc.so.2", true},
	{"ledger", "LD_PRELOAD=libtcmalloc_minimal.so.4", true},
	{"ledger", "LD_PRELOAD=libmimalloc.so.2", true},
};

HT_TEST(every_way_of_linking)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(linked); i++) {
		/* The output names the program that fails. */
		printf("%s %s\n", linked[i].program, linked[i].setting ? linked[i].setting : "");
		fflush(stdout);
		check_books(linked[i].program, linked[i].setting, linked[i].lax);
	}
}

/* musl's dynamic linker can be started as a program, and is a library at the same time. */
HT_TEST(musl_started_by_hand)
{
	struct victim victim;
	const char *program = run_built("tests/targets/linked-musl");
	if (access(program, X_OK) || access(MUSL, X_OK)) {
		printf("skipped: loader: musl_started_by_hand: its linker is not installed\n");
		return;
	}
	victim_start(
		&victim, (const char *[]){MUSL, program, "-n", OPERATIONS, "-t", "2", "-l", NULL});
	check_rounds(&victim, "linked-musl");
	victim_stop(&victim);
}

HT_TEST(linked_statically)
{
	static const char *const programs[] = {
		"linked-static", "linked-static-pie", "linked-musl-static"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(programs); i++) {
		struct victim victim;
		char name[64], pid[16], *err;
		snprintf(name, sizeof(name), "tests/targets/%s", programs[i]);
		if (access(run_built(name), X_OK)) {
			printf("skipped: loader: %s: its libc is not installed\n", programs[i]);
			continue;
		}
		victim_start(&victim, (const char *[]){run_built(name), "-n", "1000", NULL});
		struct procsnap *before = procsnap_take(victim.pid, 0);
		snprintf(pid, sizeof(pid), "%d", victim.pid);
		char *trace = tmpdir_path("none");
		ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "attach", "-p",
						     pid, "-o", trace, NULL},
					 ANSWER_MS, NULL, &err),
			3);
		ck_assert_msg(strstr(err, "statically linked"), "%s", err);
		free(err);
		free(trace);
		procsnap_verify(before, victim.pid);
		victim_stop(&victim);
	}
}

static void check_preloaded(const char *program, const char *library, bool lax)
{
	char name[64], setting[4200];
	snprintf(name, sizeof(name), "tests/targets/%s", library);
	snprintf(setting, sizeof(setting), "LD_PRELOAD=%s", run_built(name));
	check_books(program, setting, lax);
}

HT_TEST(shim_below)
{
	check_preloaded("ledger", "libcounting.so", false);
}

/* heaptap must bind lazy slots to the preloaded allocator, which has only the old hash table
 * (DT_HASH). */
HT_TEST(allocator_with_the_old_hash)
{
	check_preloaded("ledger-lazy", "libownalloc-sysv.so", true);
}

static void load_in_namespace(struct victim *victim, const char *library)
{
	char name[64], command[4200];
	snprintf(name, sizeof(name), "tests/targets/%s", library);
	snprintf(command, sizeof(command), "space %s", run_built(name));
	ask_count(victim, command);
}

/* Each linker namespace has its own C library, so its functions need thunks of their own. A lazy
 * slot must be bound to the library of its namespace. */
HT_TEST(namespaces)
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){run_built("tests/targets/rewire"), NULL});
	load_in_namespace(&victim, "libburst-now.so");
	load_in_namespace(&victim, "libburst-lazy.so");
	struct procsnap *before = procsnap_take(victim.pid, 0);
	for (int round = 0; round < 2; round++) {
		tap_start(&tap, victim.pid, NULL);
		tap_wait_on(&tap, "/rewire");
		tap_wait_on(&tap, "/libburst-lazy.so");
		ask_count(&victim, "work 100");
		ask_count(&victim, "use 100");
		json_t *attach = tap_stop(&tap, 0);
		tap_check_clean(attach);
		json_decref(attach);
		ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 333), 100);
		ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 444), 100);
		ck_assert_uint_eq(tracefile_blocks_of(tap.trace, 111), 100);
	}
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_SUITE("integration/loader")
