/* SPDX-License-Identifier: Apache-2.0
 *
 * Detach leaves nothing, and the target never notices: repeated captures of busy targets, escaped
 * hook addresses, blocking calls, libraries that are loaded and unloaded, and the death of heaptap
 * at any moment.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/support/gotwords.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/sample.h"
#include "tests/support/tap.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define CYCLES	    50 /* captures of one test, of which there are six; scripts/soak makes thousands */
#define FEW_CYCLES  3 /* in a sample */
#define ANSWER_MS   20000
#define MEASURE_MS  300
#define KILLS	    25 /* kills in attach, and as many in detach */
#define KILLS_SHARE 4  /* a sample makes every fourth of them */
#define GUARDIAN_MS 30000

static void start_target(struct victim *victim, const char *name, const char *option)
{
	char path[64];
	snprintf(path, sizeof(path), "tests/targets/%s", name);
	victim_start(victim, (const char *[]){run_built(path), option, NULL});
}

static uint64_t cpu_ticks(pid_t pid)
{
	char path[64], text[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *stat = fopen(path, "re");
	ck_assert(stat && fgets(text, sizeof(text), stat));
	fclose(stat);
	uint64_t user = 0, system = 0;
	ck_assert_int_eq(
		sscanf(strrchr(text, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			&user, &system),
		2);
	return user + system;
}

/* Rounds per tick of CPU time, because that does not depend on other load on the machine. */
static double busy_speed(struct victim *victim)
{
	uint64_t rounds = report_count(victim, "rounds"), ticks = cpu_ticks(victim->pid);
	uint64_t end = run_now_ms() + MEASURE_MS;
	while (run_now_ms() < end || cpu_ticks(victim->pid) < ticks + 10)
		run_pause();
	return (double)(report_count(victim, "rounds") - rounds) /
	       (double)(cpu_ticks(victim->pid) - ticks);
}

static void cycle(struct victim *victim, unsigned flags, const char *module)
{
	struct procsnap *before = procsnap_take(victim->pid, flags);
	struct tap tap;
	tap_start(&tap, victim->pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_on(&tap, module);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	unlink(tap.trace);
	victim_prove_alive(victim);
	procsnap_verify(before, victim->pid);
}

static void many_cycles(const char *option)
{
	struct victim victim;
	start_target(&victim, "busy", option);
	double before = busy_speed(&victim);
	for (unsigned i = 0; i < sample_size(CYCLES, FEW_CYCLES); i++)
		cycle(&victim, PROCSNAP_MASKS_CHANGE, "");
	double after = busy_speed(&victim);
	ck_assert_msg(after > before / 2, "%.0f rounds a tick before, %.0f after", before, after);
	victim_stop(&victim);
}

#define MANY_CYCLES(name, option)                                                                  \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		many_cycles(option);                                                               \
	}

MANY_CYCLES(busy_cycles, NULL)
MANY_CYCLES(storm_cycles, "-s")
MANY_CYCLES(busy_cycles_of_a_second, NULL)
MANY_CYCLES(storm_cycles_of_a_second, "-s")
MANY_CYCLES(busy_cycles_of_a_third, NULL)
MANY_CYCLES(storm_cycles_of_a_third, "-s")

/* The target has only a thread that computes. A thread that waits in a call would run the stub
 * instead, and hold no values in its registers. */
HT_TEST(registers_and_red_zone)
{
	struct victim victim;
	start_target(&victim, "canaries", NULL);
	cycle(&victim, PROCSNAP_MASKS_CHANGE | PROCSNAP_STILL, "");
	victim_stop(&victim);
}

HT_TEST(blocking_calls)
{
	struct victim victim;
	start_target(&victim, "sleepy", NULL);
	for (int i = 0; i < 20; i++)
		cycle(&victim, PROCSNAP_MASKS_CHANGE, "");
	victim_stop(&victim);
}

/* A program that does nothing during the capture has exactly the same mappings, to the byte. */
HT_TEST(still_target)
{
	struct victim victim;
	start_target(&victim, "plughost", NULL);
	for (int i = 0; i < 3; i++)
		cycle(&victim, PROCSNAP_STILL, "");
	victim_stop(&victim);
}

static size_t heaptap_mappings(pid_t pid)
{
	char line[4400];
	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	FILE *maps = fopen(line, "re");
	ck_assert_ptr_nonnull(maps);
	size_t count = 0;
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "heaptap-") != NULL;
	fclose(maps);
	return count;
}

/* Ends the capture; heaptap may leave one jump page, which its report must name. */
static void stop_with_escapes(struct tap *tap)
{
	kill(tap->run.pid, SIGINT);
	int status = run_wait(&tap->run, 60000);
	char *out = run_out(&tap->run), *err = run_err(&tap->run);
	ck_assert_msg(status == 0, "status %d: %s", status, err);
	ck_assert_str_eq(err, "");
	json_t *attach = report_parse(out);
	size_t left = heaptap_mappings(tap->target);
	ck_assert_uint_le(left, 1);
	ck_assert_int_eq(report_u64(attach, "page") != 0, left == 1);
	ck_assert_int_eq(report_u64(attach, "level") == 2, left == 1);
	size_t all;
	ck_assert_uint_eq(gotwords_tapped(tap->target, "", &all), 0);
	json_decref(attach);
	free(err);
	free(out);
	run_deinit(&tap->run);
}

/* Once the program has forgotten the addresses, cleanup removes the jump page, if there is one. */
static void clean_up(pid_t target)
{
	json_decref(report_run("cleanup", target, 0));
}

HT_TEST(escaped_addresses)
{
	struct victim victim;
	start_target(&victim, "escape", NULL);
	free(victim_ask(&victim, "take", ANSWER_MS));
	free(victim_ask(&victim, "use",
		ANSWER_MS)); /* creating the first thread changes signal dispositions */
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	for (int round = 0; round < 5; round++) {
		struct tap tap;
		tap_start(&tap, victim.pid, (const char *[]){"-q", NULL});
		tap_wait_on(&tap, "/escape");
		free(victim_ask(&victim, "take", ANSWER_MS));
		free(victim_ask(&victim, "use", ANSWER_MS));
		stop_with_escapes(&tap);
		for (int i = 0; i < 20; i++)
			free(victim_ask(&victim, "use", ANSWER_MS));
		/* The program still uses the addresses of this capture when the next attach
		 * begins. */
	}
	free(victim_ask(&victim, "forget", ANSWER_MS));
	clean_up(victim.pid);
	procsnap_verify(before, victim.pid);
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

static bool count_differs(struct victim *victim, const char *count)
{
	HT_FREED char *now = victim_ask(victim, "count", ANSWER_MS);
	bool differs = strcmp(now, count) != 0;
	return differs;
}

HT_TEST(addresses_in_registers)
{
	struct victim victim;
	start_target(&victim, "hoist", NULL);
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	for (unsigned round = 0; round < sample_size(30, 8); round++) {
		struct tap tap;
		tap_start(&tap, victim.pid,
			(const char *[]){"-q", "--lossless", "--linger", "0", NULL});
		tap_wait_on(&tap, "/hoist");
		free(victim_ask(&victim, "restart", ANSWER_MS));
		char *at_restart = victim_ask(&victim, "count", ANSWER_MS);
		run_until(count_differs(&victim, at_restart), ANSWER_MS);
		free(at_restart);
		stop_with_escapes(&tap);
		char *at_detach = victim_ask(&victim, "count", ANSWER_MS);
		run_until(count_differs(&victim, at_detach), ANSWER_MS);
		free(at_detach);
	}
	free(victim_ask(&victim, "restart", ANSWER_MS));
	clean_up(victim.pid);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* heaptap rewrites hook addresses in registers, so no page stays for addresses that are only
 * there. */
HT_TEST(addresses_in_every_register)
{
	struct victim victim;
	start_target(&victim, "hoist", "-e");
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/hoist");
	free(victim_ask(&victim, "restart", ANSWER_MS));
	json_t *attach = tap_stop(&tap, 0);
	tap_check_equal(attach);
	json_decref(attach);
	free(victim_ask(&victim, "restart", ANSWER_MS));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

static uint64_t events_of_size(const char *trace, uint64_t size)
{
	struct tracefile file;
	tracefile_load(trace, &file);
	uint64_t count = 0;
	for (size_t i = 0; i < file.event_count; i++)
		count += file.event[i].kind == ABI_EVENT_ALLOC && file.event[i].size == size;
	tracefile_deinit(&file);
	return count;
}

HT_TEST(library_loaded_during_capture)
{
	struct victim victim;
	start_target(&victim, "plughost", NULL);
	struct tap tap;
	tap_start_changing(&tap, victim.pid, PROCSNAP_MODULES_GROW, NULL);
	tap_wait_on(&tap, "");
	free(victim_ask(&victim, "open", ANSWER_MS));
	tap_wait_on(&tap, "/libplug.so");
	free(victim_ask(&victim, "work 1000", ANSWER_MS));
	tap_check_clean(tap_stop(&tap, 0));
	ck_assert_uint_eq(events_of_size(tap.trace, 333), 1000);
	free(victim_ask(&victim, "work 1000", ANSWER_MS));
	free(victim_ask(&victim, "close", ANSWER_MS));
	victim_stop(&victim);
}

HT_TEST(library_unloaded_during_capture)
{
	struct victim victim;
	start_target(&victim, "plughost", NULL);
	free(victim_ask(&victim, "open", ANSWER_MS));
	struct tap tap;
	tap_start_changing(&tap, victim.pid, PROCSNAP_PLUG_CHANGES, NULL);
	tap_wait_on(&tap, "");
	free(victim_ask(&victim, "work 10", ANSWER_MS));
	free(victim_ask(&victim, "close", ANSWER_MS));
	json_t *attach = tap_stop(&tap, 0);
	ck_assert_uint_eq(report_u64(attach, "level"), 0);
	victim_prove_alive(&victim);
	ck_assert_uint_eq(heaptap_mappings(victim.pid), 0);
	victim_stop(&victim);
}

/* Memory of the program, at former slots, now holds the agent's addresses. heaptap must not write
 * there, so the jump page that those addresses lead to stays. */
HT_TEST(library_replaced_during_capture)
{
	struct victim victim;
	start_target(&victim, "plughost", NULL);
	free(victim_ask(&victim, "open", ANSWER_MS));
	struct tap tap;
	tap_start_changing(&tap, victim.pid, PROCSNAP_PLUG_CHANGES, NULL);
	tap_wait_on(&tap, "/libplug.so");
	free(victim_ask(&victim, "replace", ANSWER_MS));
	json_t *attach = tap_stop(&tap, 0);
	ck_assert_uint_eq(report_u64(attach, "level"), 2);
	json_decref(attach);
	tap_verify_but(&tap, (const char *[]){PROCSNAP_PAGE, NULL});
	free(victim_ask(&victim, "check", ANSWER_MS));
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

HT_TEST(libraries_come_and_go)
{
	struct victim victim;
	start_target(&victim, "plughost", NULL);
	struct procsnap *before = procsnap_take(victim.pid, 0);
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "");
	free(victim_ask(&victim, "churn 500", ANSWER_MS));
	json_t *attach = tap_stop(&tap, 0);
	ck_assert_uint_eq(report_u64(attach, "level"), 0);
	free(victim_ask(&victim, "churn 20", ANSWER_MS));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* Kills heaptap `after_ms` from now, whatever it is doing then. */
static void kill_later(struct tap *tap, unsigned after_ms)
{
	uint64_t end = run_now_ms() + after_ms;
	while (run_now_ms() < end && !run_has_ended(&tap->run))
		run_pause();
	run_deinit(&tap->run);
	unlink(tap->trace);
}

/* Kills heaptap at ever later moments of attach, capture and detach. The guardian removes the
 * hooks, and the next attach works normally. */
static void kill_sweep(const char *option)
{
	struct victim victim;
	start_target(&victim, "busy", option);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	for (unsigned after_ms = 0; after_ms < 2 * KILLS; after_ms++) {
		struct tap tap;
		if (!sample_has(after_ms / 2, after_ms % 2, KILLS_SHARE))
			continue;
		tap_start(&tap, victim.pid, NULL);
		bool in_detach = after_ms % 2;
		if (in_detach) {
			tap_wait_on(&tap, "/busy");
			kill(tap.run.pid, SIGINT);
		}
		kill_later(&tap, after_ms);
		victim_prove_alive(&victim);
		procsnap_wait(before, victim.pid, GUARDIAN_MS);
		run_until(tap_guardian_is_done(victim.pid), GUARDIAN_MS);
	}
	procsnap_destroy(before);
	cycle(&victim, PROCSNAP_MASKS_CHANGE, "");
	victim_stop(&victim);
}

HT_TEST(killed_at_any_moment)
{
	kill_sweep(NULL);
}

HT_TEST(killed_in_a_signal_storm)
{
	kill_sweep("-s");
}

HT_SUITE("integration/detach")
