/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces that are cut, damaged or still being written: every command that reads such a trace warns
 * before it prints, and exits with 7 if it read a part and with 9 if it read nothing. None exits
 * with 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracebuild.h"
#include "tests/support/victim.h"

#define COMMAND_MS 60000
#define BIT_STEP   53u /* flips every 53rd bit; not a multiple of 8, to try each bit of a byte */

static const char *const command[][4] = {
	{"report"},
	{"report", "--json"},
	{"info"},
	{"dump"},
	{"export", "--format", "collapsed"},
	{"export", "--format", "heaptrack"},
	{"tree"},
	{"tree", "--bottom-up", "--json"},
	{"flame", "-o", "-"},
	{"symbols", "--emit"},
	{"symbols", "--json"},
	{"anonymize", "-o", "-"},
	{"check", "--max-outstanding", "1G"},
};

struct result {
	int status;
	char *out, *err;
};

static struct result run_command(size_t index, const char *trace)
{
	const char *argv[8] = {run_built("heaptap-analyze")};
	size_t count = 1;
	struct result result;
	for (size_t i = 0; i < 4 && command[index][i]; i++)
		argv[count++] = command[index][i];
	argv[count] = trace;
	result.status = run_program(argv, COMMAND_MS, &result.out, &result.err);
	return result;
}

static void check_part(const char *trace, const struct result *result, const char *says)
{
	ck_assert_msg(strncmp(result->err, "heaptap: warning: ", 18) == 0 &&
			      strstr(result->err, says) && strstr(result->err, trace),
		"%s", result->err);
}

/* Runs a command, which must exit with 7 and a warning, or with 9 and one line of error alone.
 * Returns the status. */
static int check_not_whole(size_t index, const char *trace, const char *says, const char *how)
{
	struct result result = run_command(index, trace);
	ck_assert_msg(result.status == 7 || result.status == 9, "%s %s: status %d: %s", how,
		command[index][0], result.status, result.err);
	if (result.status == 9)
		ck_assert_msg(!result.out[0] && strchr(result.err, '\n') ==
							result.err + strlen(result.err) - 1,
			"%s %s: %s%s", how, command[index][0], result.err, result.out);
	else if (strcmp(command[index][0], "symbols") != 0)
		check_part(trace, &result, says);
	int status = result.status;
	free(result.out);
	free(result.err);
	return status;
}

static void put_events(struct tracebuild *build, struct eventbuild *events, uint64_t tsc)
{
	uint32_t node = tracebuild_node(build, 0, 0x400000 + tsc);
	eventbuild_restart(events);
	eventbuild_thread(events, 77, 0);
	for (unsigned i = 0; i < 6; i++)
		eventbuild_alloc(
			events, ABI_EVENT_ALLOC, 0, tsc + 64 * i, tsc * 64 + 32 * i, 10 + i, node);
	tracebuild_events(build, 0, events);
	tracebuild_sync(build, tsc + 1000, tsc + 1000);
	ck_no_err(trace_writer_flush(build->writer));
}

/* A trace of some blocks, each with some events. */
static void build_trace(struct bytes_out *ret)
{
	struct tracebuild build;
	struct eventbuild events = {0};
	tracebuild_init(&build);
	tracebuild_start(&build, 77, 1000, 1000);
	for (uint64_t i = 1; i < 5; i++)
		put_events(&build, &events, 10000 * i);
	tracebuild_end(&build, REC_END_DURATION, 60000, 60000);
	tracebuild_slurp(tracebuild_finish(&build), ret);
	eventbuild_deinit(&events);
	tracebuild_deinit(&build);
}

static char *write_trace(const void *data, size_t length)
{
	char *path = tmpdir_path("damaged.htap");
	FILE *file = fopen(path, "w");
	ck_assert(file && fwrite(data, 1, length, file) == length && fclose(file) == 0);
	return path;
}

HT_TEST(whole)
{
	struct bytes_out trace = {0};
	build_trace(&trace);
	HT_FREED char *path = write_trace(trace.data, trace.length);
	for (size_t i = 0; i < HT_ARRAY_SIZE(command); i++) {
		struct result result = run_command(i, path);
		ck_assert_msg(result.status == 0 && !result.err[0], "%s: %d, %s", command[i][0],
			result.status, result.err);
		free(result.out);
		free(result.err);
	}
	bytes_out_deinit(&trace);
}

/* Cuts the trace to each length, and reads it with one of the commands in turn. */
HT_TEST(cut_anywhere)
{
	struct bytes_out trace = {0};
	size_t parts = 0;
	char how[32];
	build_trace(&trace);
	for (size_t length = 0; length < trace.length; length++) {
		char *path = write_trace(trace.data, length);
		snprintf(how, sizeof(how), "%zu bytes", length);
		parts += check_not_whole(length % HT_ARRAY_SIZE(command), path, "the trace is cut",
				 how) == 7;
		free(path);
	}
	/* Only a cut within the first block leaves nothing to read. */
	ck_assert_uint_gt(parts, trace.length / 2);
	bytes_out_deinit(&trace);
}

HT_TEST(one_bit_flipped)
{
	struct bytes_out trace = {0};
	size_t turn = 0;
	char how[32];
	build_trace(&trace);
	for (size_t bit = 0; bit < 8 * trace.length; bit += BIT_STEP, turn++) {
		trace.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		char *path = write_trace(trace.data, trace.length);
		trace.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		snprintf(how, sizeof(how), "bit %zu", bit);
		check_not_whole(turn % HT_ARRAY_SIZE(command), path, "the trace is ", how);
		free(path);
	}
	bytes_out_deinit(&trace);
}

HT_TEST(bytes_behind_the_end)
{
	static const uint8_t rest[70000];
	static const size_t more[] = {1, 4, 100, sizeof(rest)};
	struct bytes_out trace = {0};
	build_trace(&trace);
	size_t length = trace.length;
	for (size_t i = 0; i < HT_ARRAY_SIZE(more) * HT_ARRAY_SIZE(command); i++) {
		trace.length = length;
		ck_no_err(bytes_out_put(&trace, rest, more[i / HT_ARRAY_SIZE(command)]));
		char *path = write_trace(trace.data, trace.length);
		int status = check_not_whole(i % HT_ARRAY_SIZE(command), path,
			"something follows the end of the trace", "bytes behind");
		ck_assert_int_eq(status, 7);
		free(path);
	}
	bytes_out_deinit(&trace);
}

/* A trace from a pipe with all its events but without its end. The warning says that it is cut off
 * behind its last event. */
HT_TEST(through_a_pipe)
{
	struct bytes_out trace = {0};
	char *line, *out, *err;
	build_trace(&trace);
	HT_FREED char *path = write_trace(trace.data, trace.length - 10);
	static const char *const piped[] = {"report", "info", "dump"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(piped); i++) {
		ck_assert_int_gt(
			asprintf(&line, "cat %s | %s %s -", path, run_built("heaptap"), piped[i]),
			0);
		const char *const argv[] = {"sh", "-c", line, NULL};
		int status = run_program(argv, COMMAND_MS, &out, &err);
		ck_assert_msg(status == 7, "%s: %d, %s", line, status, err);
		ck_assert_msg(strstr(err, "cut off behind its last event"), "%s", err);
		free(line);
		free(out);
		free(err);
	}
	bytes_out_deinit(&trace);
}

static bool holds_events(const char *trace)
{
	struct result result = run_command(3, trace);
	bool holds = strstr(result.out, "\nevent slot=") != NULL;
	free(result.out);
	free(result.err);
	return holds;
}

static bool is_cut(const char *trace)
{
	json_auto_t *report = report_load(trace);
	bool is_cut = strcmp(report_text(report, "capture.file"), "cut") == 0;
	return is_cut;
}

HT_TEST(while_the_capture_runs)
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){run_built("tests/targets/actor"), NULL});
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/actor");
	free(victim_ask(&victim, "hold 1", COMMAND_MS));
	run_until(holds_events(tap.trace), COMMAND_MS);
	for (size_t i = 0; i < HT_ARRAY_SIZE(command); i++)
		ck_assert_int_eq(
			check_not_whole(i, tap.trace, "the capture still runs", "running"), 7);
	json_t *report = report_load(tap.trace);
	ck_assert_str_eq(report_text(report, "capture.file"), "growing");
	ck_assert_str_eq(report_text(report, "capture.ended"), "running");
	json_decref(report);
	run_deinit(&tap.run); /* kills heaptap */
	run_until(is_cut(tap.trace), COMMAND_MS);
	for (size_t i = 0; i < HT_ARRAY_SIZE(command); i++)
		ck_assert_int_eq(check_not_whole(i, tap.trace, "the trace is cut", "killed"), 7);
	tap_verify_soon(&tap, COMMAND_MS);
	victim_kill(&victim);
}

HT_SUITE("integration/damaged")
