/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/print_metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/array.h"
#include "format/foreign.h"

#define NS_PER_S 1000000000ull

/* The unit in which a field is printed: nanoseconds become seconds. */
enum unit { NUMBER, SECONDS };

static const struct metric {
	const char *name, *type, *help;
	size_t offset; /* in struct control_reply */
	enum unit unit;
	bool is_optional; /* left out if it is 0 */
} metrics_table[] = {
	{"heaptap_start_time_seconds", "gauge", "Unix time at which the window began.",
		offsetof(struct control_reply, start_unix_ns), SECONDS, false},
	{"heaptap_window_seconds", "gauge", "Time recorded so far.",
		offsetof(struct control_reply, elapsed_ns), SECONDS, false},
	{"heaptap_window_limit_seconds", "gauge", "Length of the window, if it has one.",
		offsetof(struct control_reply, duration_ns), SECONDS, true},
	{"heaptap_paused", "gauge", "1 while new allocations are not recorded.",
		offsetof(struct control_reply, paused), NUMBER, false},
	{"heaptap_events_total", "counter", "Allocations and frees recorded.",
		offsetof(struct control_reply, events), NUMBER, false},
	{"heaptap_dropped_events_total", "counter", "Events lost, for any reason.",
		offsetof(struct control_reply, dropped), NUMBER, false},
	{"heaptap_trace_bytes", "gauge", "Size of the trace.",
		offsetof(struct control_reply, trace_bytes), NUMBER, false},
	{"heaptap_sample_bytes", "gauge",
		"One allocation in so many bytes is recorded; absent if each is.",
		offsetof(struct control_reply, sample_bytes), NUMBER, true},
	{"heaptap_cull_live_blocks", "gauge",
		"Live blocks that the filter of --cull knows; absent without it.",
		offsetof(struct control_reply, live_blocks), NUMBER, true},
	{"heaptap_cull_bytes", "gauge",
		"Memory of the filter of --cull for its blocks; absent without it.",
		offsetof(struct control_reply, filter_bytes), NUMBER, true},
	{"heaptap_pauses_total", "counter", "Pauses begun.", offsetof(struct control_reply, pauses),
		NUMBER, false},
	{"heaptap_paused_seconds_total", "counter", "Time in which the capture was paused.",
		offsetof(struct control_reply, paused_ns), SECONDS, false},
	{"heaptap_marks_total", "counter", "Marks put into the trace.",
		offsetof(struct control_reply, marks), NUMBER, false},
};

static bool is_waiting(const struct control_reply *reply)
{
	return reply->phase == CONTROL_WAITING;
}

static size_t count_of(const struct print_metrics *metrics, bool waiting)
{
	size_t count = 0;
	for (size_t i = 0; i < metrics->count; i++)
		count += is_waiting(&metrics->reply[i]) == waiting;
	return count;
}

/* Is there a capture with the same user and PID already? A capture may claim the PID of another
 * process. The first one counts, because a reader refuses a text with two equal series. */
static bool is_double(const struct print_metrics *metrics, const struct control_reply *reply)
{
	for (size_t i = 0; i < metrics->count; i++) {
		const struct control_reply *other = &metrics->reply[i];
		const bool is_same = other->pid == reply->pid && other->user == reply->user;
		if (is_same && !is_waiting(other) && !is_waiting(reply))
			return true;
		/* Several captures may wait for one process. */
		if (is_same && is_waiting(other) && is_waiting(reply) &&
			other->heaptap_pid == reply->heaptap_pid)
			return true;
	}
	return false;
}

bool print_metrics_add(struct print_metrics *metrics, const struct control_reply *reply)
{
	if (is_double(metrics, reply)) {
		metrics->silent++;
		return true;
	}
	if (!ARRAY_HAS_ROOM(metrics->reply, metrics->count, metrics->capacity, 16))
		return false;
	metrics->reply[metrics->count++] = *reply;
	return true;
}

void print_metrics_add_silent(struct print_metrics *metrics)
{
	metrics->silent++;
}

/* Prints the value of a label: UTF-8 without control characters, with \ and " escaped. */
static void put_label(const char *before, const char *name, const char *text)
{
	char clean[sizeof(((struct control_reply *)0)->trace)];
	foreign_copy(clean, sizeof(clean), text);
	printf("%s%s=\"", before, name);
	for (const char *at = clean; *at; at++) {
		if (*at == '\\' || *at == '"')
			putchar('\\');
		putchar(*at);
	}
	putchar('"');
}

static void put_family(const char *name, const char *type, const char *help)
{
	printf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_name(const char *name, const struct control_reply *reply)
{
	printf("%s{uid=\"%" PRIu64 "\",pid=\"%" PRIu64 "\"", name, reply->user, reply->pid);
	put_label(",", "comm", reply->comm);
}

static uint64_t value_of(const struct metric *metric, const struct control_reply *reply)
{
	uint64_t value;
	memcpy(&value, (const char *)reply + metric->offset, sizeof(value));
	return value;
}

static void put_value(const struct metric *metric, const struct control_reply *reply)
{
	const uint64_t value = value_of(metric, reply);
	if (metric->is_optional && value == 0)
		return;
	put_name(metric->name, reply);
	if (metric->unit == SECONDS)
		printf("} %" PRIu64 ".%09u\n", (uint64_t)(value / NS_PER_S),
			(unsigned)(value % NS_PER_S));
	else
		printf("} %" PRIu64 "\n", value);
}

static void put_info(const struct print_metrics *metrics)
{
	static const char *const phases[CONTROL_PHASES] = {[CONTROL_RECORDING] = "recording",
		[CONTROL_DETACHING] = "detaching",
		[CONTROL_ENDED] = "ended",
		[CONTROL_NAMING] = "naming",
		[CONTROL_SETTLING] = "settling",
		[CONTROL_WAITING] = "waiting"};
	put_family("heaptap_capture_info", "gauge", "A running capture; always 1.");
	for (size_t i = 0; i < metrics->count; i++) {
		const struct control_reply *reply = &metrics->reply[i];
		if (is_waiting(reply))
			continue;
		put_name("heaptap_capture_info", reply);
		put_label(",", "phase",
			reply->phase < CONTROL_PHASES ? phases[reply->phase] : "unknown");
		put_label(",", "trace", reply->trace);
		printf(",heaptap_pid=\"%" PRIu64 "\"} 1\n", reply->heaptap_pid);
	}
}

static void put_waiting(const struct print_metrics *metrics)
{
	put_family("heaptap_waiting_info", "gauge",
		"A heaptap that waits for its next window; always 1.");
	for (size_t i = 0; i < metrics->count; i++) {
		const struct control_reply *reply = &metrics->reply[i];
		if (!is_waiting(reply))
			continue;
		put_name("heaptap_waiting_info", reply);
		put_label(",", "waits_for", reply->waits_for);
		printf(",heaptap_pid=\"%" PRIu64 "\"} 1\n", reply->heaptap_pid);
	}
	bool has_family = false;
	for (size_t i = 0; i < metrics->count; i++) {
		const struct control_reply *reply = &metrics->reply[i];
		if (!is_waiting(reply) || !reply->next_unix_ns)
			continue;
		if (!has_family)
			put_family("heaptap_next_window_time_seconds", "gauge",
				"Unix time before which the next window does not begin.");
		has_family = true;
		put_name("heaptap_next_window_time_seconds", reply);
		printf(",heaptap_pid=\"%" PRIu64 "\"} %" PRIu64 ".%09u\n", reply->heaptap_pid,
			(uint64_t)(reply->next_unix_ns / NS_PER_S),
			(unsigned)(reply->next_unix_ns % NS_PER_S));
	}
}

/* Does no capture have a value? A family without samples is left out. */
static bool is_empty(const struct print_metrics *metrics, const struct metric *metric)
{
	uint64_t all = !metric->is_optional && count_of(metrics, false);
	for (size_t i = 0; i < metrics->count; i++)
		if (!is_waiting(&metrics->reply[i]))
			all |= value_of(metric, &metrics->reply[i]);
	return all == 0;
}

void print_metrics_end(struct print_metrics *metrics)
{
	put_family("heaptap_captures", "gauge", "Captures that run and answer.");
	printf("heaptap_captures %zu\n", count_of(metrics, false));
	put_family("heaptap_captures_silent", "gauge", "Captures that do not answer.");
	printf("heaptap_captures_silent %" PRIu64 "\n", metrics->silent);
	put_family("heaptap_waiting", "gauge", "heaptaps that wait for their next window.");
	printf("heaptap_waiting %zu\n", count_of(metrics, true));
	if (count_of(metrics, false))
		put_info(metrics);
	if (count_of(metrics, true))
		put_waiting(metrics);
	for (size_t m = 0; m < HT_ARRAY_SIZE(metrics_table); m++) {
		const struct metric *metric = &metrics_table[m];
		if (is_empty(metrics, metric))
			continue;
		put_family(metric->name, metric->type, metric->help);
		for (size_t i = 0; i < metrics->count; i++)
			if (!is_waiting(&metrics->reply[i]))
				put_value(metric, &metrics->reply[i]);
	}
	free(metrics->reply);
	*metrics = (struct print_metrics){0};
}
