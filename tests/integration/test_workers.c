/* SPDX-License-Identifier: Apache-2.0
 *
 * The report names JavaScript functions of Node.js worker threads, without any options of Node.js,
 * also while workers end and begin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/scripts.h"

#define WORKERS	  "tests/targets/workers.js"
#define SIZE_BASE 100000
#define AWAY_BASE 300000
#define NUMBERS	  100 /* of different function names */
#define EXPORT_MS 120000

/* Does the stack belong to a function of a worker? */
static bool is_of_worker(const char *line)
{
	return strstr(line, ";allocateHere") || strstr(line, ";allocateAway") ||
	       strstr(line, ";within") || strstr(line, ";made");
}

/* The trace's stacks of workers, one a line, each with its value of `metric`. */
static char *exported(const char *trace, const char *metric)
{
	char *out, *err;
	int status = run_program((const char *[]){run_built("heaptap"), "export", "--format",
					 "collapsed", "--metric", metric, trace, NULL},
		EXPORT_MS, &out, &err);
	/* While the capture runs, the trace is incomplete (7), or empty (9). */
	ck_assert_msg(status == 0 || status == 7 || status == 9, "export of %s ended with %d: %s",
		trace, status, err);
	free(err);
	char *rest = out, *to = out;
	for (char *line; (line = strsep(&rest, "\n"));) {
		const size_t length = strlen(line);
		if (!is_of_worker(line))
			continue;
		memmove(to, line, length);
		to[length] = '\n';
		to += length + 1;
	}
	*to = '\0';
	return out;
}

/* The sum of all lines with this stack: there are several if files or line numbers differ. */
static uint64_t value_of(const char *text, const char *stack)
{
	const size_t length = strlen(stack);
	uint64_t sum = 0;
	for (; *text; text += strcspn(text, "\n") + 1)
		if (!strncmp(text, stack, length) && text[length] == ' ' &&
			strspn(text + length + 1, "0123456789") == strcspn(text + length + 1, "\n"))
			sum += strtoull(text + length + 1, NULL, 10);
	return sum;
}

struct named_in {
	uint64_t here, away; /* named calls of allocateHere and of allocateAway */
};

/* The allocated sizes tell which function of which worker made them. Modifies `stack`. */
static void check_worker(char *stack, uint64_t calls, uint64_t bytes, struct named_in *named)
{
	const bool is_away = bytes / calls >= AWAY_BASE;
	const uint64_t base = is_away ? AWAY_BASE : SIZE_BASE;
	if (bytes / calls < SIZE_BASE)
		return; /* an allocation of V8 itself below such a function */
	for (char *frame; (frame = strsep(&stack, ";"));) {
		unsigned number;
		if (sscanf(frame, "within%u", &number) == 1 ||
			sscanf(frame, "made%u", &number) == 1)
			ck_assert_msg(bytes == calls * (base + number),
				"%lu calls of %s allocated %lu bytes", calls, frame, bytes);
		if (strcmp(frame, "allocateHere") != 0 && strcmp(frame, "allocateAway") != 0)
			continue;
		ck_assert_msg(!strcmp(frame, is_away ? "allocateAway" : "allocateHere") &&
				      bytes < calls * (base + NUMBERS),
			"%lu calls of %s allocated %lu bytes", calls, frame, bytes);
		*(is_away ? &named->away : &named->here) += calls;
	}
}

static struct named_in check_exported(const char *trace)
{
	char *calls = exported(trace, "calls"), *bytes = exported(trace, "allocated");
	char *all = strdup(calls), *rest = all;
	struct named_in named = {0};
	for (char *line; (line = strsep(&rest, "\n")) && *line;) {
		*strrchr(line, ' ') = '\0';
		check_worker(line, value_of(calls, line), value_of(bytes, line), &named);
	}
	free(all);
	free(calls);
	free(bytes);
	return named;
}

/* In the trace as far as it is written: are both functions named? */
static bool both_are_named(const char *trace)
{
	HT_FREED char *text = exported(trace, "calls");
	bool both = strstr(text, ";allocateHere;") && strstr(text, ";allocateAway;");
	return both;
}

static uint64_t left_of(struct victim *victim)
{
	HT_FREED char *answer = victim_ask(victim, "left", SCRIPTS_ANSWER_MS);
	uint64_t left = strtoull(answer, NULL, 10);
	return left;
}

/*
 * Two workers stay. Others end and are followed by new ones, which may get the same addresses.
 * Nothing is compiled, so each name is of an interpreted function. How soon heaptap finds workers
 * and names depends on the machine's load, so the two workers go on until they have names.
 */
static void check_workers(const char *node)
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){node, "--expose-gc", "--no-sparkplug", "--no-maglev",
				      "--no-opt", WORKERS, NULL});
	tap_start_changing(&tap, victim.pid, PROCSNAP_NODE, NULL);
	tap_wait_any(&tap);
	do
		scripts_work(&victim, 32);
	while (!both_are_named(tap.trace));
	free(victim_ask(&victim, "begin", SCRIPTS_ANSWER_MS));
	do
		scripts_work(&victim, 32);
	while (left_of(&victim));
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_str_eq(report_text(attach, "scripts_problem"), "");
	victim_prove_alive(&victim);
	victim_stop(&victim);
	struct named_in named = check_exported(tap.trace);
	ck_assert_uint_gt(named.here, 0);
	ck_assert_uint_gt(named.away, 0);
}

HT_TEST(workers_functions_have_their_own_names)
{
	check_workers("/usr/bin/node");
}

/* Before the first worker there are more threads than heaptap examines in one search for
 * workers. */
HT_TEST(workers_beside_a_large_pool)
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){"/usr/bin/env", "UV_THREADPOOL_SIZE=400",
				      "/usr/bin/node", "--expose-gc", "--no-sparkplug",
				      "--no-maglev", "--no-opt", WORKERS, "crowd", NULL});
	/* Each new worker maps node's builtin code again. */
	tap_start_changing(&tap, victim.pid,
		PROCSNAP_NODE | PROCSNAP_FDS_CHANGE | PROCSNAP_MODULES_GROW, NULL);
	tap_wait_any(&tap);
	free(victim_ask(&victim, "crowd", SCRIPTS_ANSWER_MS));
	do
		scripts_work(&victim, 32);
	while (!both_are_named(tap.trace));
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_str_eq(report_text(attach, "scripts_problem"), "");
	victim_stop(&victim);
}

static void try_version(const char *variable)
{
	const char *node = run_named("workers", variable);
	if (node)
		check_workers(node);
}

HT_TEST(node_22)
{
	try_version("HEAPTAP_NODE22");
}

HT_TEST(node_24)
{
	try_version("HEAPTAP_NODE24");
}

HT_SUITE("integration/workers")
