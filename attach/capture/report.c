/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/daemon/receiver.h"
#include "attach/plan/given_report.h"
#include "format/foreign.h"

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

void report_fill_coverage(
	struct session_report *report, const struct survey *survey, const struct entries *entries)
{
	char *unseen = coverage_unseen(&survey->coverage);
	foreign_copy(report->unseen, sizeof(report->unseen), unseen ? unseen : "?");
	report->unseen_places = survey->coverage.places;
	free(unseen);
	char *refused = entries_refused(entries);
	foreign_copy(report->refused, sizeof(report->refused), refused ? refused : "?");
	report->entries = entries->hooked;
	free(refused);
	char *given = given_describe(&survey->slots, &survey->coverage);
	foreign_copy(report->given, sizeof(report->given), given ? given : "?");
	free(given);
}

void report_add_partial(struct session_report *report, const struct survey *survey)
{
	char *unseen = report->unseen;
	size_t length = strlen(unseen);

	if (!survey->partial_count)
		return;
	snprintf(unseen + length, sizeof(report->unseen) - length,
		"%spart of %s, which is too large to be searched", length ? ", " : "",
		survey->partial_path);
	/* Do not cut inside a character. */
	foreign_copy(unseen, sizeof(report->unseen), unseen);
	report->unseen_places += survey->partial_count;
}
