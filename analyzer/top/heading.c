/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/top/heading.h"

#include <inttypes.h>

#include "analyzer/top/columns.h"
#include "format/record.h"
#include "format/quantity.h"

#define COMM_COLUMNS  20u
#define TREND_COLUMNS 12u
#define LAST_COLUMNS  12u /* width of the last column: RSS or threads */
/* a capture shorter than this cannot show that a site grows */
#define SURE_NS 10000000000ull

const char *heading_state(const struct heading *heading)
{
	if (heading->has_ended || heading->last.phase == CONTROL_ENDED)
		return "ended";
	if (heading->last.phase == CONTROL_DETACHING || heading->last.phase == CONTROL_NAMING)
		return "detaching";
	return heading->last.paused ? "paused" : "recording";
}

const char *heading_end(const struct heading *heading, const struct snapshot *now)
{
	if (!heading->has_ended)
		return "";
	return now && now->figures.has_end ? rec_end_text(now->figures.end_reason)
					   : "the capture does not answer any more";
}

void heading_put_title(struct line *line, const struct heading *heading, const struct snapshot *now)
{
	const struct control_reply *last = &heading->last;
	const uint64_t time_ns = now ? now->figures.time_ns : last->elapsed_ns;
	char late[QUANTITY_TEXT_BYTES];
	line_put(line, "heaptap top - ");
	line_foreign(line, *last->comm ? last->comm : "process", COMM_COLUMNS);
	line_put(line, " %d  %s  ", (int)heading->pid, text_time(time_ns).text);
	line_styled(line, TEXT_BOLD, "%s", heading_state(heading));
	if (last->cull_ns)
		line_put(line, ", %s late (--cull)", quantity_duration_text(last->cull_ns, late));
	line_put(line, "  %s events", text_count(last->events).text);
	if (last->dropped)
		line_styled(line, TEXT_WARNING, "  %s lost", text_count(last->dropped).text);
	if (heading->is_frozen)
		line_styled(line, TEXT_BOLD, "  display held");
}

void heading_put_totals(
	struct line *line, const struct snapshot *now, const struct listing_figures *total)
{
	const struct snapshot_figures *figures = &now->figures;
	line_put(line, "outstanding %s%s%s ", figures->is_estimate ? "~" : "",
		columns_bytes(figures->sums.outstanding_bytes).text,
		columns_bound(line->text, (double)figures->sums.outstanding_bound_bytes).text);
	line_sparkline(line, figures->trend, figures->trend_count, 0, TREND_COLUMNS);
	line_put(line, " %s/min  alloc %s/s  calls %s/s",
		columns_change(total->per_minute_bytes).text,
		columns_bytes((uint64_t)total->bytes_per_s).text,
		columns_rate(total->calls_per_s).text);
	if (figures->has_rss && line_left(line) >= LAST_COLUMNS)
		line_put(line, "  RSS %s", columns_bytes(figures->rss_bytes).text);
	if (line_left(line) >= LAST_COLUMNS)
		line_put(line, "  %" PRIu64 " thread%s", figures->threads,
			figures->threads == 1 ? "" : "s");
}

void heading_put_verdict(
	struct line *line, const struct heading *heading, const struct snapshot *now)
{
	const struct snapshot_figures *figures = &now->figures;
	const char *sites = figures->sites == 1 ? "site" : "sites";
	const double slope = figures->slope_bytes_per_s * 60;
	if (heading->has_ended)
		line_styled(
			line, TEXT_WARNING, "The capture has ended: %s", heading_end(heading, now));
	else if (heading->has_baseline)
		line_styled(line, TEXT_BOLD, "Since the baseline, %s ago: changes and rates",
			text_time(figures->time_ns - heading->baseline_ns).text);
	else if (figures->growing)
		line_styled(line, TEXT_BOLD,
			"What grows (*): %" PRIu64 " of %" PRIu64 " %s, %s/min", figures->growing,
			figures->sites, sites,
			columns_change(slope < 9e18 ? (int64_t)slope : INT64_MAX).text);
	else if (figures->time_ns < SURE_NS)
		line_put(line, "Too early to tell what grows; %" PRIu64 " %s so far",
			figures->sites, sites);
	else
		line_put(line, "Nothing grows so far; %" PRIu64 " %s, most outstanding first",
			figures->sites, sites);
}
