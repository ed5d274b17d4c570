/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons of traces as text: the changes from one trace to another (diff), and one line per
 * site over several traces (trend).
 */
#pragma once

#include "analyzer/ui/text.h"
#include "analyzer/views/compare.h"

struct compare_text {
	const struct text *text;
	struct compare *compare; /* sorted by `metric` */
	const char *const *path; /* of each view */
	enum metric metric;
	size_t limit; /* sites; 0: all */
	bool utc;
};

void compare_text_diff(const struct compare_text *page);
void compare_text_trend(const struct compare_text *page);
