/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace as a file: its permissions, what heaptap never overwrites, where it can be written, and
 * that no event is lost, however target or capture end.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define ANSWER_MS  20000
#define HEAPTAP_MS 60000
#define WORK	   100000u /* allocations, of 100 bytes each; a tenth of them stays */
#define WORK_LINE  "work 100000"

static void start_actor(struct victim *victim)
{
	victim_start(victim, (const char *[]){run_built("tests/targets/actor"), NULL});
}

static void start_tapped(struct victim *victim, struct tap *tap)
{
	start_actor(victim);
	tap_start(tap, victim->pid, NULL);
	tap_wait_on(tap, "/actor");
}

static void work(struct victim *victim)
{
	HT_FREED char *answer = victim_ask(victim, WORK_LINE, ANSWER_MS);
	ck_assert_str_eq(answer, "worked");
}

static void check_work(const char *trace, enum rec_end_reason reason)
{
	struct tracefile file;
	tracefile_load(trace, &file);
	uint64_t allocations = 0;
	for (size_t i = 0; i < file.event_count; i++)
		allocations += file.event[i].kind == ABI_EVENT_ALLOC && file.event[i].size == 100;
	ck_assert_uint_eq(allocations, WORK);
	ck_assert(file.ended);
	ck_assert_int_eq(file.end_reason, reason);
	ck_assert(file.complete);
	tracefile_deinit(&file);
	json_auto_t *report = report_load(trace);
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), WORK);
	ck_assert_uint_eq(report_u64(report, "totals.outstanding_blocks"), WORK / 10);
}

HT_TEST(only_the_owner_reads_it)
{
	struct victim victim;
	start_actor(&victim);
	umask(0);
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/actor");
	json_decref(tap_stop(&tap, 0));
	struct stat st;
	ck_assert_int_eq(stat(tap.trace, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0600);
	victim_stop(&victim);
}

static int attach_to(struct victim *victim, const char *output, const char *option, char **ret_err)
{
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", victim->pid);
	return run_program((const char *[]){run_built("heaptap"), "attach", "-p", pid, "-d", "1s",
				   "-o", output, option, NULL},
		HEAPTAP_MS, NULL, ret_err);
}

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");
	ck_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void check_text(const char *path, const char *text)
{
	char found[64] = "";
	FILE *file = fopen(path, "re");
	ck_assert(file && fgets(found, sizeof(found), file));
	fclose(file);
	ck_assert_str_eq(found, text);
}

HT_TEST(existing_files_stay)
{
	struct victim victim;
	start_actor(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	char *path = tmpdir_path("precious"), *link = tmpdir_path("link"), *err;
	write_text(path, "precious");
	ck_assert_int_eq(symlink(path, link), 0);
	ck_assert_int_ne(attach_to(&victim, path, NULL, &err), 0);
	ck_assert_msg(strstr(err, path) && strstr(err, "-f"), "%s", err);
	ck_assert_int_ne(attach_to(&victim, link, NULL, &err), 0);
	check_text(path, "precious");
	ck_assert_int_eq(attach_to(&victim, path, "-f", &err), 0);
	json_decref(report_load(path));
	write_text(path, "precious");
	attach_to(&victim, link, "-f",
		&err); /* -f may replace the link, never the file that it points to */
	check_text(path, "precious");
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(standard_output)
{
	struct victim victim;
	start_actor(&victim);
	char *path = tmpdir_path("out.htap"), pid[16];
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	struct tap tap = {.target = victim.pid};
	tap_look(&tap, 0);
	run_start_to(&tap.run,
		(const char *[]){run_built("heaptap"), "attach", "-p", pid, "-o", "-", NULL}, fd);
	tap_wait_on(&tap, "/actor");
	work(&victim);
	json_t *attach = tap_stop(&tap, 0);
	ck_assert_ptr_null(attach);
	check_work(path, REC_END_SIGNAL);
	victim_stop(&victim);
}

static void end_by_signal(int signal)
{
	struct victim victim;
	start_actor(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/actor");
	work(&victim);
	kill(tap.run.pid, signal);
	tap_check_clean(tap_wait(&tap, 0));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	check_work(tap.trace, REC_END_SIGNAL);
}

HT_TEST(interrupt)
{
	end_by_signal(SIGINT);
}

HT_TEST(terminate)
{
	end_by_signal(SIGTERM);
}

HT_TEST(hangup)
{
	end_by_signal(SIGHUP);
}

HT_TEST(duration)
{
	struct victim victim;
	start_actor(&victim);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	struct tap tap;
	tap_start(&tap, victim.pid, (const char *[]){"-d", "3s", NULL});
	tap_wait_on(&tap, "/actor");
	work(&victim);
	tap_check_clean(tap_wait(&tap, 0));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	check_work(tap.trace, REC_END_DURATION);
	json_auto_t *report = report_load(tap.trace);
	uint64_t duration_ns = report_u64(report, "capture.duration_ns");
	ck_assert_uint_ge(duration_ns, 3000000000u);
}

/* All events before the target's death are in the trace. */
HT_TEST(target_killed)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap);
	work(&victim);
	victim_kill(&victim);
	json_decref(tap_wait(&tap, 5));
	check_work(tap.trace, REC_END_TARGET_EXIT);
}

HT_TEST(target_exits)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap);
	work(&victim);
	victim_send(&victim, "exit 7");
	ck_assert_int_eq(victim_wait(&victim, ANSWER_MS), 7);
	json_decref(tap_wait(&tap, 5));
	check_work(tap.trace, REC_END_TARGET_EXIT);
}

HT_TEST(target_becomes_another_program)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap);
	work(&victim);
	victim_send(&victim, "exec");
	char expected[32];
	snprintf(expected, sizeof(expected), "ready %d", victim.pid);
	char *ready = victim_line(&victim, ANSWER_MS);
	ck_assert_str_eq(ready, expected);
	struct procsnap *new_program = procsnap_take(victim.pid, 0);
	json_decref(tap_wait(&tap, 5));
	procsnap_verify(new_program, victim.pid);
	victim_prove_alive(&victim);
	victim_stop(&victim);
	check_work(tap.trace, REC_END_TARGET_EXEC);
}

/* The target allocates at full speed and is killed in the middle of it. */
HT_TEST(target_killed_in_a_flood)
{
	for (int round = 0; round < 5; round++) {
		struct victim victim;
		struct tap tap;
		start_tapped(&victim, &tap);
		free(victim_ask(&victim, "flood", ANSWER_MS));
		for (int i = 0; i < 30; i++)
			victim_prove_alive(&victim);
		victim_kill(&victim);
		json_decref(tap_wait(&tap, 5));
		struct tracefile file;
		tracefile_load(tap.trace, &file);
		ck_assert_uint_gt(file.event_count, 0);
		ck_assert_uint_eq(file.event_count, file.counter[REC_COUNTER_EVENTS]);
		ck_assert(file.complete);
		tracefile_deinit(&file);
		unlink(tap.trace);
	}
}

/* heaptap is killed: what was written is a trace, without its end. */
HT_TEST(heaptap_killed)
{
	struct victim victim;
	struct tap tap;
	start_actor(&victim);
	free(victim_ask(&victim, "flood", ANSWER_MS));
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/actor");
	for (int i = 0; i < 30; i++)
		victim_prove_alive(&victim);
	struct stat st = {0};
	run_until(stat(tap.trace, &st) == 0 && st.st_size > 100000, ANSWER_MS);
	run_deinit(&tap.run);
	tap_verify_soon(&tap, ANSWER_MS);
	json_t *report = report_load(tap.trace);
	ck_assert_uint_gt(report_u64(report, "totals.allocations"), 0);
	ck_assert_uint_gt(json_array_size(report_at(report, "warnings")), 0);
	json_decref(report);
	victim_prove_alive(&victim);
	victim_kill(&victim);
}

HT_TEST(cut_file)
{
	struct victim victim;
	struct tap tap;
	start_tapped(&victim, &tap);
	work(&victim);
	json_decref(tap_stop(&tap, 0));
	victim_stop(&victim);
	struct stat st;
	ck_assert_int_eq(stat(tap.trace, &st), 0);
	uint64_t last = WORK;
	for (off_t cut = st.st_size - 1; cut > 0; cut -= 1 + st.st_size / 16) {
		ck_assert_int_eq(truncate(tap.trace, cut), 0);
		char *out, *err;
		int status = run_program(
			(const char *[]){run_built("heaptap"), "report", "--json", tap.trace, NULL},
			HEAPTAP_MS, &out, &err);
		/* 9: the cut is in the first block, so that nothing can be read. */
		ck_assert_msg(status == 7 || (status == 9 && !out[0]), "cut at %ld: %d, %s", cut,
			status, err);
		if (status == 7) {
			json_t *report = report_parse(out);
			uint64_t allocations = report_u64(report, "totals.allocations");
			ck_assert_uint_le(allocations, last);
			ck_assert_uint_gt(json_array_size(report_at(report, "warnings")), 0);
			last = allocations;
			json_decref(report);
		}
		free(out);
		free(err);
	}
}

HT_SUITE("integration/trace")
