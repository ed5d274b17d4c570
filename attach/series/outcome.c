/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/series/outcome.h"

#include "attach/capture/jump_page_left.h"
#include "attach/proc/clock.h"

#define WAIT_NS		   (300 * CLOCK_NS_PER_MS)
#define DETACH_DEADLINE_NS (10 * CLOCK_NS_PER_S)

enum exit_status outcome_error_status(const struct ht_err *err)
{
	static const enum exit_status status[] = {
		[HT_ERR_SYS] = EXIT_INTERNAL,
		[HT_ERR_INTERNAL] = EXIT_INTERNAL,
		[HT_ERR_NOMEM] = EXIT_INTERNAL,
		[HT_ERR_USAGE] = EXIT_USAGE,
		[HT_ERR_REFUSED] = EXIT_REFUSED,
		[HT_ERR_PERMISSION] = EXIT_PERMISSION,
		[HT_ERR_TARGET_GONE] = EXIT_TARGET_ENDED,
		[HT_ERR_INCOMPLETE] = EXIT_INCOMPLETE_DETACH,
		[HT_ERR_FORMAT] = EXIT_NOT_A_TRACE,
	};
	return status[err->code];
}

/* If two statuses apply, the one that matters more to the target's safety counts. */
enum exit_status outcome_status(const struct options *options, const struct session_report *report)
{
	bool harmless = !options->strict && jump_page_left_is_all(report);
	if (report->detached && !harmless &&
		(report->level >= DETACH_TOMBSTONE || !report->verify.equal))
		return EXIT_INCOMPLETE_DETACH;
	if (report->children.left || (report->children.pages && !harmless) || report->guardian_left)
		return EXIT_INCOMPLETE_DETACH;
	if (report->dropped_events || report->damage || report->sink_state != STORE_OK)
		return EXIT_INCOMPLETE_TRACE;
	if (report->ended == REC_END_TARGET_EXIT || report->ended == REC_END_TARGET_EXEC ||
		report->ended == REC_END_FORBIDDEN)
		return EXIT_TARGET_ENDED;
	return EXIT_DONE;
}

/* A status that matters more to the target's safety has a higher rank (DESIGN section 10); one that
 * is not listed has the highest. */
static unsigned rank_of(int status)
{
	static const int order[] = {EXIT_DONE, EXIT_TARGET_ENDED, EXIT_REFUSED, EXIT_USAGE,
		EXIT_PERMISSION, EXIT_INTERNAL, EXIT_INCOMPLETE_TRACE, EXIT_INCOMPLETE_DETACH};
	for (unsigned i = 0; i < HT_ARRAY_SIZE(order); i++)
		if (order[i] == status)
			return i;
	return HT_ARRAY_SIZE(order);
}

int outcome_worse(int status, int other)
{
	return rank_of(other) > rank_of(status) ? other : status;
}

const char *outcome_end_text(const struct ht_err *err, const struct options *options,
	const struct session_report *report)
{
	if (err)
		return err->message;
	enum exit_status status = outcome_status(options, report);
	if (status == EXIT_INCOMPLETE_DETACH)
		return report->why;
	return status == EXIT_INCOMPLETE_TRACE ? report->sink_problem : "";
}

bool outcome_is_printed(const struct options *options, const struct session_report *report)
{
	enum exit_status status = outcome_status(options, report);
	return !options->quiet || (status != EXIT_DONE && status != EXIT_TARGET_ENDED);
}

struct session_options outcome_options(const struct options *options, pid_t pid)
{
	return (struct session_options){.pid = pid,
		.output = options->output,
		.replace = options->replace,
		.force = options->replace,
		.duration_ns = options->duration_ns,
		.settle_ns = options->settle_ns,
		.max_overhead_ppm = options->max_overhead_ppm,
		.hook = options->hook,
		.lossless = options->lossless,
		.sample_bytes = options->sample_bytes,
		.cull_ns = options->cull_ns,
		.limits = {.rss_bytes = options->series.until_rss_bytes,
			.growth = options->series.until_growth,
			.trace_bytes = options->series.max_bytes},
		.mappings = options->mappings,
		.full_unwind = options->full_unwind,
		.cache = !options->no_cache,
		.symbolize = !options->symbolize_later,
		.wait_ns = WAIT_NS,
		.detach_deadline_ns = DETACH_DEADLINE_NS,
		.linger_ns = options->linger_ns};
}
