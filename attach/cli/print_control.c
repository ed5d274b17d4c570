/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/print_control.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "attach/proc/clock.h"
#include "format/quantity.h"

#define CLOCK_BYTES 32u

static const char *state_of(const struct control_reply *reply)
{
	if (reply->phase == CONTROL_ENDED)
		return "ended";
	if (reply->phase == CONTROL_NAMING)
		return "naming";
	if (reply->phase == CONTROL_SETTLING)
		return "settling";
	if (reply->phase == CONTROL_WAITING)
		return "waiting";
	if (reply->phase != CONTROL_RECORDING)
		return "detaching";
	return reply->paused ? "paused" : "recording";
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* "14:03:10", with the date if it is not today. */
static const char *clock_text(uint64_t unix_ns, char ret[CLOCK_BYTES])
{
	time_t when = (time_t)(unix_ns / CLOCK_NS_PER_S), now = time(NULL);
	struct tm day, today;
	localtime_r(&when, &day);
	localtime_r(&now, &today);
	bool is_today = day.tm_year == today.tm_year && day.tm_yday == today.tm_yday;
	if (!strftime(ret, CLOCK_BYTES, is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &day))
		*ret = '\0';
	return ret;
}

/* "12.0 s", "12 min 3 s", "5 h 12 min" */
static const char *span_text(uint64_t ns, char ret[CLOCK_BYTES])
{
	uint64_t s = ns / CLOCK_NS_PER_S;
	if (s < 60)
		snprintf(ret, CLOCK_BYTES, "%.1f s", seconds(ns));
	else if (s < 3600)
		snprintf(ret, CLOCK_BYTES, "%u min %u s", (unsigned)(s / 60), (unsigned)(s % 60));
	else
		snprintf(ret, CLOCK_BYTES, "%llu h %u min", (unsigned long long)(s / 3600),
			(unsigned)(s / 60 % 60));
	return ret;
}

/* --- one capture ----------------------------------------------------------------------------- */

static void put_name(const struct control_reply *reply)
{
	print_text(stdout, "%s (pid %llu)", reply->comm[0] ? reply->comm : "?",
		(unsigned long long)reply->pid);
}

static void put_times(const struct control_reply *reply)
{
	char since[CLOCK_BYTES], span[CLOCK_BYTES], end[CLOCK_BYTES];
	printf("  %s since %s (%s)",
		reply->phase == CONTROL_RECORDING  ? "recording"
		: reply->phase == CONTROL_SETTLING ? "settling; recorded"
		: reply->phase == CONTROL_NAMING
			? "left the process, writes names into the trace; recorded"
			: "detaching; recorded",
		clock_text(reply->start_unix_ns, since), span_text(reply->elapsed_ns, span));
	if (reply->paused)
		printf(", paused");
	if (reply->phase == CONTROL_RECORDING && reply->duration_ns)
		printf(", ends at %s", clock_text(reply->start_unix_ns + reply->duration_ns, end));
	if (reply->phase == CONTROL_SETTLING)
		printf("\n  settles  for %s of ", span_text(reply->settled_ns, span));
	if (reply->phase == CONTROL_SETTLING)
		printf("%s: only frees are recorded", span_text(reply->settle_ns, span));
	putchar('\n');
}

static void put_pauses(const struct control_reply *reply)
{
	char span[CLOCK_BYTES];
	if (reply->pauses)
		printf("  paused   %llu time%s, %s in all%s\n", (unsigned long long)reply->pauses,
			print_plural(reply->pauses), span_text(reply->paused_ns, span),
			!reply->paused		    ? ""
			: reply->paused_by_overhead ? "; it resumes by itself"
						    : "; heaptap resume ends the pause");
	if (reply->overhead_limit_ppm)
		printf("  overhead %.1f %% of the process's CPU time, limit %.1f %%\n",
			(double)reply->overhead_ppm / 1e4, (double)reply->overhead_limit_ppm / 1e4);
	if (reply->marks)
		printf("  marks    %llu\n", (unsigned long long)reply->marks);
}

static void put_filter(const struct control_reply *reply)
{
	char span[QUANTITY_TEXT_BYTES], size[PRINT_SIZE_BYTES];
	if (reply->cull_ns)
		printf("  cull     blocks that live less than %s are sums; %llu live, %s of "
		       "memory\n",
			quantity_duration_text(reply->cull_ns, span),
			(unsigned long long)reply->live_blocks,
			print_size(reply->filter_bytes, size));
}

/* "2 of 6"; "2" of a series without an end. */
static void put_window(const struct control_reply *reply)
{
	printf("%llu", (unsigned long long)reply->window);
	if (reply->windows > 1)
		printf(" of %llu", (unsigned long long)reply->windows);
}

/* "window 2 of 6 begins at 14:03:10", or "when its RSS is 60.0 MiB", or both. */
static void put_next(const struct control_reply *reply)
{
	char at[CLOCK_BYTES];
	printf("window ");
	put_window(reply);
	printf(" begins");
	if (*reply->waits_for)
		print_text(stdout, " when %s", reply->waits_for);
	if (reply->next_unix_ns)
		printf("%s%s", *reply->waits_for ? ", not before " : " at ",
			clock_text(reply->next_unix_ns, at));
	putchar('\n');
}

static void put_waiting(const struct control_reply *reply)
{
	char since[CLOCK_BYTES], span[CLOCK_BYTES];
	put_name(reply);
	printf("  waiting since %s (%s), nothing is recorded now\n  next     ",
		clock_text(reply->start_unix_ns, since), span_text(reply->elapsed_ns, span));
	put_next(reply);
}

static void put_capture(const struct control_reply *reply)
{
	char size[PRINT_SIZE_BYTES], rate[PRINT_SIZE_BYTES];
	put_name(reply);
	put_times(reply);
	if (reply->window) {
		printf("  window   ");
		put_window(reply);
		putchar('\n');
	}
	printf("  events   %llu (%llu/s)", (unsigned long long)reply->events,
		(unsigned long long)reply->events_per_s);
	if (reply->dropped)
		printf("; LOST %llu", (unsigned long long)reply->dropped);
	if (reply->sample_bytes)
		printf("; a sample, one in %llu bytes", (unsigned long long)reply->sample_bytes);
	printf("\n  trace    %s (%s/min)", print_size(reply->trace_bytes, size),
		print_size(reply->trace_bytes_per_min, rate));
	print_text(stdout, " %s\n", reply->trace);
	if (reply->partial[0])
		print_text(stdout, "           until the end in %s\n", reply->partial);
	put_filter(reply);
	put_pauses(reply);
}

static void add_window(json_t *object, const struct control_reply *reply)
{
	json_object_set_new(object, "window", json_integer((json_int_t)reply->window));
	json_object_set_new(object, "windows", json_integer((json_int_t)reply->windows));
	if (reply->phase != CONTROL_WAITING)
		return;
	json_object_set_new(object, "next_unix_ns", json_integer((json_int_t)reply->next_unix_ns));
	json_object_set_new(object, "waits_for", print_string(reply->waits_for));
}

static json_t *capture_json(const struct control_reply *reply)
{
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{"pid", reply->pid},
		{"start_ticks", reply->start_ticks},
		{"heaptap_pid", reply->heaptap_pid},
		{"uid", reply->user},
		{"start_unix_ns", reply->start_unix_ns},
		{"elapsed_ns", reply->elapsed_ns},
		{"duration_ns", reply->duration_ns},
		{"settle_ns", reply->settle_ns},
		{"settled_ns", reply->settled_ns},
		{"events", reply->events},
		{"events_per_s", reply->events_per_s},
		{"trace_bytes", reply->trace_bytes},
		{"trace_bytes_per_min", reply->trace_bytes_per_min},
		{"dropped_events", reply->dropped},
		{"sample_bytes", reply->sample_bytes},
		{"cull_ns", reply->cull_ns},
		{"cull_live_blocks", reply->live_blocks},
		{"cull_bytes", reply->filter_bytes},
		{"overhead_ppm", reply->overhead_ppm},
		{"overhead_limit_ppm", reply->overhead_limit_ppm},
		{"paused_by_overhead", reply->paused_by_overhead},
		{"pauses", reply->pauses},
		{"paused_ns", reply->paused_ns},
		{"marks", reply->marks},
	};
	json_t *object = json_pack("{s:s, s:o, s:o, s:o}", "state", state_of(reply), "comm",
		print_string(reply->comm), "trace", print_string(reply->trace), "partial",
		print_string(reply->partial));
	for (size_t i = 0; object && i < HT_ARRAY_SIZE(numbers); i++)
		json_object_set_new(
			object, numbers[i].name, json_integer((json_int_t)numbers[i].value));
	if (object && reply->window)
		add_window(object, reply);
	return object;
}

/* --- status, list ---------------------------------------------------------------------------- */

void print_control_begin(struct print_control *print)
{
	if (print->options->json)
		print->captures = json_array();
}

static void put_row(const struct control_reply *reply, bool is_first)
{
	char span[CLOCK_BYTES];
	if (is_first)
		printf("%-8s %-16s %-10s %-14s %s\n", "PID", "COMMAND", "STATE", "FOR", "TRACE");
	print_text(stdout, "%-8llu %-16s %-10s %-14s ", (unsigned long long)reply->pid, reply->comm,
		state_of(reply), span_text(reply->elapsed_ns, span));
	if (reply->phase == CONTROL_WAITING) {
		put_next(reply);
		return;
	}
	print_text(stdout, "%s", reply->trace);
	if (reply->window) {
		printf("  window ");
		put_window(reply);
	}
	putchar('\n');
}

void print_control_capture(struct print_control *print, const struct control_reply *reply)
{
	bool is_first = print->count++ == 0;
	if (print->options->metrics)
		print->lacks_memory |= !print_metrics_add(&print->metrics, reply);
	else if (print->options->json)
		json_array_append_new(print->captures, capture_json(reply));
	else if (print->options->command == COMMAND_LIST)
		put_row(reply, is_first);
	else if (print->options->quiet)
		return;
	else if (reply->phase == CONTROL_WAITING)
		put_waiting(reply);
	else
		put_capture(reply);
}

void print_control_silent(struct print_control *print, const struct control_client *client)
{
	print->count++;
	if (print->options->metrics)
		print_metrics_add_silent(&print->metrics);
	else if (print->options->json)
		json_array_append_new(print->captures,
			json_pack("{s:s, s:i}", "state", "silent", "pid", (int)client->pid));
	else if (!print->options->quiet && client->waiter)
		print_text(stdout,
			"process %d: heaptap %d, which waits to record it, does not answer\n",
			(int)client->pid, (int)client->waiter);
	else if (!print->options->quiet)
		print_text(stdout, "process %d: its capture does not answer\n", (int)client->pid);
}

struct ht_err *print_control_end(struct print_control *print)
{
	if (print->options->metrics) {
		print_metrics_end(&print->metrics);
		return print->lacks_memory ? ht_err_new(HT_ERR_NOMEM, "no memory for all captures")
					   : NULL;
	}
	if (!print->options->json) {
		if (!print->count && !print->options->quiet)
			printf("no capture is running\n");
		return NULL;
	}
	return print_json(
		json_pack("{s:s, s:o}", "schema", "heaptap.status/1", "captures", print->captures));
}

/* --- stop, pause, resume, mark --------------------------------------------------------------- */

void print_control_phase(const struct options *options, const struct control_reply *reply)
{
	const unsigned long long pid = (unsigned long long)reply->pid;
	if (options->quiet)
		return;
	if (reply->phase == CONTROL_DETACHING)
		fprintf(stderr, "heaptap: leaving process %llu\n", pid);
	else if (reply->phase == CONTROL_NAMING)
		fprintf(stderr, "heaptap: process %llu was left; writing names into the trace\n",
			pid);
}

static void put_ended(const struct control_reply *reply)
{
	char size[PRINT_SIZE_BYTES];
	put_name(reply);
	printf(": the %s has ended with status %llu", reply->window ? "series" : "capture",
		(unsigned long long)reply->exit_status);
	print_text(stdout, "%s%s\n", reply->message[0] ? ": " : "", reply->message);
	/* The series ended while it waited for a window: no trace is open. */
	if (reply->window)
		return;
	print_text(stdout, "trace: %s (%s, %llu event%s in %.1f s)\n", reply->trace,
		print_size(reply->trace_bytes, size), (unsigned long long)reply->events,
		print_plural(reply->events), seconds(reply->elapsed_ns));
}

static void put_done(const struct options *options, const struct control_reply *reply)
{
	char span[CLOCK_BYTES];
	int pid = (int)options->pid;
	switch ((int)options->command) {
	case COMMAND_STOP:
		put_name(reply);
		printf(reply->window ? ": the series ends; no window follows\n"
				     : ": the capture is ending\n");
		break;
	case COMMAND_PAUSE:
		put_name(reply);
		printf(": new allocations are not recorded until heaptap resume -p %d\n", pid);
		break;
	case COMMAND_RESUME:
		put_name(reply);
		printf(": new allocations are recorded; paused for %s in all\n",
			span_text(reply->paused_ns, span));
		break;
	default:
		put_name(reply);
		printf(": marked at +%.1f s\n", seconds(reply->elapsed_ns));
		break;
	}
}

struct ht_err *print_control_done(const struct options *options, const struct control_reply *reply)
{
	if (options->json) {
		json_t *object = capture_json(reply);
		if (object)
			json_object_set_new(object, "schema", json_string("heaptap.control/1"));
		if (object && options->wait)
			json_object_set_new(object, "exit_status",
				json_integer((json_int_t)reply->exit_status));
		if (object && options->wait)
			json_object_set_new(object, "message", print_string(reply->message));
		return print_json(object);
	}
	if (options->quiet)
		return NULL;
	if (options->wait)
		put_ended(reply);
	else
		put_done(options, reply);
	return NULL;
}

struct ht_err *print_control_snapshot(
	const struct options *options, const char *path, uint64_t bytes, const char *problem)
{
	char size[PRINT_SIZE_BYTES];
	if (options->json)
		return print_json(json_pack("{s:s, s:i, s:o, s:I, s:o}", "schema",
			"heaptap.snapshot/1", "pid", (int)options->pid, "trace", print_string(path),
			"trace_bytes", (json_int_t)bytes, "problem",
			*problem ? print_string(problem) : json_null()));
	if (*problem)
		print_text(stderr, "heaptap: %s\n", problem);
	if (!options->quiet)
		print_text(stderr, "trace: %s (%s)\nnext:  heaptap report %s\n", path,
			print_size(bytes, size), path);
	return NULL;
}
