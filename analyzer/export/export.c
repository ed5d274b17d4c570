/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/export.h"

const struct export_format export_format[] = {
#define X(name, write, purpose, sums, traits) {name, write, purpose, sums, traits},
	EXPORTS(X)
#undef X
};
const size_t export_format_count = HT_ARRAY_SIZE(export_format);

const char *const export_names[] = {
#define X(name, write, purpose, sums, traits) name,
	EXPORTS(X)
#undef X
		NULL,
};

struct ht_err *export_check(
	const struct export_format *format, const struct query *query, enum metric metric)
{
	const bool is_by_age = query->min_age_ns || query->max_age_ns != UINT64_MAX;
	if (is_by_age && format->traits & EXPORT_EVENTS)
		return ht_err_new(HT_ERR_USAGE,
			"export: --min-age and --max-age cannot choose the events of %s; use pprof",
			format->name);
	if (query->alive_at && format->traits & (EXPORT_EVENTS | EXPORT_SERIES))
		return ht_err_new(HT_ERR_USAGE,
			"export: --alive-at is for one moment, and %s shows memory over time; use "
			"pprof",
			format->name);
	if (format->traits & EXPORT_METRIC && metric == METRIC_LIFETIME)
		return ht_err_new(HT_ERR_USAGE,
			"export: --metric lifetime is a mean, and %s adds figures up; use csv",
			format->name);
	return NULL;
}
