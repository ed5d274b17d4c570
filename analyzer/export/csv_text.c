/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/csv_text.h"

#include <string.h>

void csv_put_text(FILE *out, const char *text)
{
	if (!text)
		return;
	/* Spreadsheets ignore spaces before a formula. */
	const char *first = text;
	while ((*first > 0 && *first <= 0x20) || *first == 0x7f)
		first++;
	csv_put_quoted(out, *first && strchr("=+-@", *first) ? "'" : "", text);
}

void csv_put_quoted(FILE *out, const char *before, const char *text)
{
	fprintf(out, "\"%s", before);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', out);
		putc((unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text, out);
	}
	putc('"', out);
}

void csv_put_metric(FILE *out, enum metric metric)
{
	static const char *const unit[] = {
		[METRIC_BYTES] = "_bytes", [METRIC_COUNT_OF_BLOCKS] = "", [METRIC_TIME_NS] = "_ns"};
	const struct metric_info *info = metric_info(metric);
	fprintf(out, "%s%s", info->name, unit[info->unit]);
}
