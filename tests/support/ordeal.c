/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/ordeal.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/report.h"
#include "tests/support/sample.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"

#define POINTS	    8
#define REFUSED	    3
#define REPEATS	    10
#define TOLD_EVERY  500
#define VICTIM_NICE 19
#define SIGNALS_MIN 200 /* during an attach busy -s queues far more to its main thread */
#define ANSWER_MS   20000

/* Gives the target a lower priority: the tracer stops heaptap twice at each call, and a busy target
 * would delay heaptap each time. Keeps the priority if HEAPTAP_TEST_ALL=1 is set, and that of a
 * `storm`, whose signals must arrive; with HEAPTAP_SWEEP lowers both. Only root can restore it. */
static void start_victim(struct victim *victim, const char *const argv[], bool storm)
{
	int usual = getpriority(PRIO_PROCESS, 0);
	bool yields = (getenv("HEAPTAP_SWEEP") || (!sample_is_whole() && !storm)) && geteuid() == 0;

	if (yields)
		ck_assert_int_eq(setpriority(PRIO_PROCESS, 0, VICTIM_NICE), 0);
	victim_start(victim, argv);
	if (yields)
		ck_assert_int_eq(setpriority(PRIO_PROCESS, 0, usual), 0);
}

void ordeal_init(struct ordeal *o, const struct ordeal_target *target)
{
	char path[64];
	*o = (struct ordeal){
		.target = target, .trace = tmpdir_path("ordeal.htap"), .points = POINTS};
	snprintf(path, sizeof(path), "tests/targets/%s", target->argv[0]);
	start_victim(&o->victim,
		(const char *[]){
			run_built(path), target->argv[1], target->argv[2], target->argv[3], NULL},
		target->storm);
	snprintf(o->pid, sizeof(o->pid), "%d", o->victim.pid);
	o->before = procsnap_take(o->victim.pid, target->changes);
	const char *argv[] = {run_built("heaptap"), "attach", "-p", o->pid, "-o", o->trace, "-d",
		"20ms", "--symbolize", "later", "--json", NULL};
	memcpy(o->argv, argv, sizeof(argv));
	if (target->hook) {
		o->argv[HT_ARRAY_SIZE(argv) - 1] = "--hook";
		o->argv[HT_ARRAY_SIZE(argv)] = target->hook;
	}
}

void ordeal_deinit(struct ordeal *o)
{
	procsnap_verify(o->before, o->victim.pid);
	victim_stop(&o->victim);
	free(o->trace);
}

/* The signals handled so far by the main thread, which runs the stub. busy's own check at its end
 * counts the signals of all threads. */
static uint64_t signals_met(struct ordeal *o)
{
	if (!o->target->storm)
		return 0;
	char *answer = victim_ask(&o->victim, "count", ANSWER_MS);
	json_t *count = report_parse(answer);
	uint64_t met = report_u64(count, "main_handled");
	json_decref(count);
	free(answer);
	return met;
}

uint64_t ordeal_undisturbed(struct ordeal *o, const struct sweep_plan *like)
{
	struct sweep sweep;
	struct sweep_plan plan = {.action = SWEEP_COUNT,
		.from = like->from,
		.from_guardian = like->from_guardian,
		.request = like->request,
		.number = like->number};
	uint64_t met = signals_met(o);
	sweep_start(&sweep, o->argv, &plan);
	int status = sweep_wait(&sweep, ORDEAL_HEAPTAP_MS);
	char *out = run_out(&sweep.run), *err = run_err(&sweep.run);
	ck_assert_msg(status == 0, "status %d: %s", status, err);
	json_t *attach = report_parse(out);
	tap_check_clean(attach);
	json_decref(attach);
	free(out);
	free(err);
	if (o->target->storm)
		ck_assert_uint_ge(signals_met(o) - met, SIGNALS_MIN);
	ck_assert(ordeal_check_trace(o, true));
	sweep_deinit(&sweep);
	return sweep.calls[like->role];
}

bool ordeal_is_capture(const char *err)
{
	static const char *const proofs[] = {"process unchanged: ", "left in the process: ",
		"heaptap has left the process", "the process has ended: "};
	for (size_t i = 0; i < HT_ARRAY_SIZE(proofs); i++)
		if (strstr(err, proofs[i]))
			return true;
	return false;
}

char *ordeal_difference(const struct ordeal *o)
{
	struct procsnap *now = procsnap_take(o->victim.pid, o->target->changes);
	char *text = procsnap_diff(o->before, now);
	procsnap_destroy(now);
	return text;
}

void ordeal_check(struct ordeal *o, const char *where)
{
	victim_prove_alive(&o->victim);
	char *left = ordeal_difference(o);
	ck_assert_msg(!left[0], "%s: %.2000s", where, left);
	free(left);
}

bool ordeal_check_trace(struct ordeal *o, bool whole)
{
	struct tracefile file;
	struct stat stat;
	if (lstat(o->trace, &stat) != 0)
		return false;
	if (stat.st_size > 0) {
		tracefile_load(o->trace, &file);
		ck_assert(!whole || (file.complete && file.ended));
		tracefile_deinit(&file);
	}
	ck_assert(!whole || stat.st_size > 0);
	unlink(o->trace);
	return true;
}

/* The leftover may be a stub with a thread inside: a new attach must not write over it. */
static void check_attach_refused(struct ordeal *o, const char *where)
{
	char *err;
	int status = run_program(o->argv, ORDEAL_HEAPTAP_MS, NULL, &err);
	ck_assert_msg(
		status == REFUSED, "%s: the next attach ended with %d: %s", where, status, err);
	ck_assert_msg(strstr(err, "recover"), "%s: %s", where, err);
	free(err);
}

void ordeal_recover(struct ordeal *o, const char *where)
{
	const char *const argv[] = {run_built("heaptap"), "recover", "-p", o->pid, NULL};
	char *err, *left = ordeal_difference(o);
	if (left[0]) {
		check_attach_refused(o, where);
		victim_prove_alive(&o->victim);
		int status = run_program(argv, ORDEAL_HEAPTAP_MS, NULL, &err);
		ck_assert_msg(status == 0, "%s: recover ended with %d: %s", where, status, err);
		free(err);
	}
	free(left);
}

/* Takes the smaller count, because a run that polled for long makes more calls than others do. */
static uint64_t least(uint64_t calls, uint64_t again)
{
	return again < calls ? again : calls;
}

void ordeal_sweep_places(struct ordeal *o, struct sweep_plan plan,
	bool (*once)(struct ordeal *ordeal, const struct sweep_plan *plan), struct places *places)
{
	size_t runs = 0;
	bool hit;

	plan.places = places;
	do {
		hit = once(o, &plan);
		runs += hit;
		if (!hit || runs % TOLD_EVERY == 0)
			printf("places: %s, %zu runs, %zu places%s\n", o->target->name, runs,
				places_count(places), hit ? "" : ", none left");
		fflush(stdout);
	} while (hit);
	plan.places = NULL;
	ordeal_undisturbed(o, &plan);
}

static void sweep_own_places(struct ordeal *o, const struct sweep_plan *plan,
	bool (*once)(struct ordeal *ordeal, const struct sweep_plan *plan))
{
	struct places *places = places_new(run_built("heaptap"));
	ordeal_sweep_places(o, *plan, once, places);
	places_destroy(places);
}

void ordeal_sweep(struct ordeal *o, struct sweep_plan plan,
	bool (*once)(struct ordeal *ordeal, const struct sweep_plan *plan))
{
	if (places_wanted()) {
		sweep_own_places(o, &plan, once);
		return;
	}
	uint64_t calls = ordeal_undisturbed(o, &plan), hits = 0, count = 0;
	struct sweep_points points = sweep_points_of(o->target->name, calls, o->points);

	for (plan.at = points.first; plan.at <= points.last; plan.at += points.stride) {
		bool hit = once(o, &plan);
		/* Attaches differ in their number of calls: this one has ended before the point. */
		if (!hit && plan.at > calls)
			break;
		hits += hit;
		if (++count % REPEATS == 0)
			calls = least(calls, ordeal_undisturbed(o, &plan));
		if (count % TOLD_EVERY == 0)
			printf("sweep: %s, %lu points reached, at call %lu\n", o->target->name,
				hits, plan.at);
		fflush(stdout);
	}
	for (plan.at = points.first / 2; !hits && plan.at; plan.at /= 2)
		hits += once(o, &plan);
	calls = least(calls, ordeal_undisturbed(o, &plan));
	printf("sweep: %s, %lu points reached\n", o->target->name, hits);
	sweep_points_check(&points, calls, hits);
}
