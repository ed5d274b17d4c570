/* SPDX-License-Identifier: Apache-2.0
 *
 * Collapsed stacks. A line has one figure for one trace; for two traces the older figure, then the
 * newer one, as difffolded.pl of FlameGraph writes them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export.h"
#include "analyzer/export/names.h"
#include "analyzer/export/pool.h"
#include "format/array.h"

struct ht_err *export_collapsed(FILE *out, struct export_job *job)
{
	const struct view *view = job->view;
	struct names_chain chain = {0};
	HT_FREED uint32_t *order = NULL;
	struct ht_err *err = view_order(view, job->metric, &order);
	HT_THEN(err, names_chain_init(&chain, view));
	for (size_t i = 0; i < view->row_count && !err; i++) {
		const struct row *row = &view->row[order[i]];
		const int64_t value = metric_value(&row->sums, job->metric);
		if (value <= 0)
			break;
		names_chain_take(&chain, view, row->node);
		names_chain_put(out, view, &chain);
		fprintf(out, " %" PRIi64 "\n", value);
	}
	names_chain_deinit(&chain);
	return err;
}

/* --- two traces --------------------------------------------------------------------------------
 */

struct line {
	const char *chain;
	int64_t value[2]; /* older, newer */
};

struct lines {
	struct pool chains;
	struct line *line; /* by number of the chain's text, which both traces share */
	size_t capacity;
};

static struct ht_err *add_line(struct lines *lines, const char *text, size_t which, int64_t value)
{
	uint32_t at;
	HT_TRY(pool_number(&lines->chains, text, &at));
	HT_TRY(ARRAY_RESERVE(lines->line, lines->capacity, lines->chains.count, "stacks"));
	lines->line[at].chain = lines->chains.text[at];
	lines->line[at].value[which] += value;
	return NULL;
}

static struct ht_err *add_row(struct lines *lines, const struct view *view,
	const struct names_chain *chain, size_t which, int64_t value)
{
	HT_FREED char *text = NULL;
	HT_TRY(names_chain_text(view, chain, &text));
	return add_line(lines, text, which, value);
}

static struct ht_err *add_view(
	struct lines *lines, const struct view *view, enum metric metric, size_t which)
{
	struct names_chain chain;
	struct ht_err *err = names_chain_init(&chain, view);
	for (size_t i = 0; i < view->row_count && !err; i++) {
		const int64_t value = metric_value(&view->row[i].sums, metric);
		if (value <= 0)
			continue;
		names_chain_take(&chain, view, view->row[i].node);
		err = add_row(lines, view, &chain, which, value);
	}
	names_chain_deinit(&chain);
	return err;
}

static int64_t change_of(const struct line *line)
{
	return llabs(line->value[1] - line->value[0]);
}

/* The largest change first. */
static int compare(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	if (change_of(x) != change_of(y))
		return change_of(x) > change_of(y) ? -1 : 1;
	return strcmp(x->chain, y->chain);
}

struct ht_err *export_difffolded(FILE *out, struct export_job *job)
{
	struct lines lines = {0};
	struct ht_err *err = add_view(&lines, job->older, job->metric, 0);
	HT_THEN(err, add_view(&lines, job->view, job->metric, 1));
	if (lines.chains.count)
		qsort(lines.line, lines.chains.count, sizeof(*lines.line), compare);
	for (size_t i = 0; i < lines.chains.count && !err; i++)
		fprintf(out, "%s %" PRIi64 " %" PRIi64 "\n", lines.line[i].chain,
			lines.line[i].value[0], lines.line[i].value[1]);
	pool_deinit(&lines.chains);
	free(lines.line);
	return err;
}
