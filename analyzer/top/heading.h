/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines above a table: process, state of its capture, totals, and what grows.
 */
#pragma once

#include "analyzer/top/listing.h"
#include "analyzer/ui/line.h"
#include "format/control.h"

struct heading {
	pid_t pid;
	bool has_ended; /* the capture has ended or no longer answers */
	bool is_frozen; /* the user has stopped updates of the display */
	bool has_baseline;
	uint64_t baseline_ns;	   /* time of the baseline */
	struct control_reply last; /* the capture's last answer */
};

/* "recording", "paused", "detaching" or "ended". */
const char *heading_state(const struct heading *heading);
void heading_put_title(
	struct line *line, const struct heading *heading, const struct snapshot *now);
void heading_put_totals(
	struct line *line, const struct snapshot *now, const struct listing_figures *total);
/* One sentence: what grows, or that nothing does, or since when the figures count. */
void heading_put_verdict(
	struct line *line, const struct heading *heading, const struct snapshot *now);
/* Why the capture ended; "" while it runs. */
const char *heading_end(const struct heading *heading, const struct snapshot *now);
