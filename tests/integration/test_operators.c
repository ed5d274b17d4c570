/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators new and delete of allocators that define their own: each call of any form is recorded
 * once, to the byte. Without memory the program's new-handler is called, and may allocate and
 * throw; the unwinder never meets a frame of the agent (tests/targets/operators.cc).
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/books.h"
#include "tests/support/hookedcode.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define PHASE_MS 60000

/* `entries`: functions that get entry hooks; NULL: each function has a slot. */
static char *record_phase(
	struct victim *victim, const char *program, const char *const entries[], struct tap *tap)
{
	struct hookedcode watched = {.memory = -1};
	free(victim_ask(victim, "go", PHASE_MS));
	struct procsnap *before = procsnap_take(victim->pid, 0);
	if (entries)
		hookedcode_watch(&watched, victim->pid, program, entries);
	tap_start(tap, victim->pid, (const char *[]){"--hook", entries ? "auto" : "slot", NULL});
	if (entries)
		hookedcode_wait(&watched, tap);
	else
		tap_wait_any(tap);
	char *books = victim_ask(victim, "go", PHASE_MS);
	json_t *attach = tap_stop(tap, 0);
	tap_check_clean(attach);
	ck_assert_str_eq(report_text(attach, "unseen"), "");
	ck_assert_uint_eq(report_u64(attach, "unseen_places"), 0);
	json_decref(attach);
	close(watched.memory);
	procsnap_verify(before, victim->pid);
	free(victim_ask(victim, "go", PHASE_MS));
	return books;
}

static void compare(const char *name, const char *option, const char *const entries[])
{
	const char *program = run_built(name);
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){program, option, NULL});
	HT_FREED char *books = record_phase(&victim, program, entries, &tap);
	victim_stop(&victim);
	json_auto_t *ledger = report_parse(books);
	books_check(tap.trace, ledger, true, false);
	struct tracefile file;
	tracefile_load(tap.trace, &file);
	/* "At least", because jemalloc's operator new calls malloc once more, through its slot,
	 * before it fails. */
	ck_assert_uint_ge(file.counter[REC_COUNTER_FAILED_CALLS], report_u64(ledger, "failures"));
	tracefile_deinit(&file);
}

HT_TEST(tcmalloc)
{
	compare("tests/targets/operators-tcmalloc", NULL, NULL);
}

HT_TEST(jemalloc)
{
	compare("tests/targets/operators-jemalloc", NULL, NULL);
}

/* mimalloc built as C cannot throw, and aborts without memory; -n leaves that case out. */
HT_TEST(mimalloc)
{
	compare("tests/targets/operators-mimalloc", "-n", NULL);
}

/* The program calls the linked-in operators directly, its libraries call them through slots. */
HT_TEST(linked_in)
{
	compare("tests/targets/operators-tcmalloc-direct", NULL,
		(const char *[]){"tc_new", "tc_new_aligned", "tc_new_nothrow",
			"tc_new_aligned_nothrow", "tc_delete_sized", "tc_delete_sized_aligned",
			"tc_delete_nothrow", "tc_delete_aligned", "tc_delete_aligned_nothrow",
			NULL});
	compare("tests/targets/operators-jemalloc-direct", NULL,
		(const char *[]){
			"_Znwm", "_ZnwmRKSt9nothrow_t", "_ZdlPvm", "_ZdaPvmSt11align_val_t", NULL});
}

HT_SUITE("integration/operators")
