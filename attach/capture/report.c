/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/report.h"

#include <stdio.h>

#include "attach/daemon/receiver.h"

void report_fill_totals(
	struct session_report *report, const struct receiver *receiver, const struct sink *sink)
{
	struct receiver_totals totals = {0};

	if (receiver)
		totals = receiver_totals(receiver);
	report->events = totals.events;
	report->nested_events = totals.nested;
	report->threads = totals.threads;
	report->damage = totals.damage;
	report->mappings = totals.mappings;
	report->dropped_events = sink_dropped_events(sink) + totals.samples_lost;
	for (size_t i = 0; i < ABI_LOSS_COUNT; i++)
		report->dropped_events += totals.lost[i];
	for (size_t i = 0; i < ABI_TRUNC_COUNT; i++)
		report->truncated_stacks += totals.trunc[i];
}

void report_fill_output(struct session_report *report, const struct sink *sink)
{
	const char *problem = sink_problem(sink);

	report->sink_state = sink_state(sink);
	snprintf(report->sink_problem, sizeof(report->sink_problem), "%s", problem ? problem : "");
	snprintf(report->symbols_problem, sizeof(report->symbols_problem), "%s",
		sink_append_problem(sink));
	report->trace_bytes = sink_bytes(sink);
	report->trace_finished = report->sink_state != STORE_BROKEN && report->trace_bytes > 0;
}
