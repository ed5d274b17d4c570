/* SPDX-License-Identifier: Apache-2.0
 *
 * Collapsed stacks: of one trace with one figure a line, of two with the older figure before the
 * newer one, as difffolded.pl of FlameGraph writes them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export.h"
#include "analyzer/export/names.h"
#include "analyzer/model/array.h"
#include "analyzer/model/strings.h"

struct ht_err *export_collapsed(FILE *out, struct export_job *job)
{
	const struct view *view = job->view;
	struct names_chain chain = {0};
	uint32_t *order = NULL;
	struct ht_err *err = view_order(view, job->metric, &order);
	if (!err)
		err = names_chain_init(&chain, view);
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
	free(order);
	return err;
}

/* --- two traces --------------------------------------------------------------------------------
 */

struct line {
	const char *chain; /* interned: it says the same in both traces */
	int64_t value[2];  /* older, newer */
};

struct lines {
	struct strings strings;
	struct map by_chain; /* by address of the interned text */
	struct line *line;
	size_t count, capacity;
};

static struct ht_err *add_line(struct lines *lines, const char *text, size_t which, int64_t value)
{
	const char *chain;
	uint32_t at;
	struct ht_err *err = strings_intern(
		&lines->strings, (struct rec_string){.data = text, .length = strlen(text)}, &chain);
	if (err)
		return err;
	if (!map_get(&lines->by_chain, (uintptr_t)chain, &at)) {
		err = array_reserve(&lines->line, &lines->capacity, lines->count + 1,
			sizeof(*lines->line), "stacks");
		if (err)
			return err;
		at = (uint32_t)lines->count++;
		lines->line[at].chain = chain;
		err = map_put(&lines->by_chain, (uintptr_t)chain, at);
	}
	lines->line[at].value[which] += value;
	return err;
}

static struct ht_err *add_row(struct lines *lines, const struct view *view,
	const struct names_chain *chain, size_t which, int64_t value)
{
	char *text = NULL;
	size_t length;
	FILE *memory = open_memstream(&text, &length);
	if (memory)
		names_chain_put(memory, view, chain);
	const bool is_written = memory && fclose(memory) == 0;
	struct ht_err *err = is_written ? add_line(lines, text, which, value)
					: ht_err_new(HT_ERR_NOMEM, "out of memory for a stack");
	free(text);
	return err;
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
	if (!err)
		err = add_view(&lines, job->view, job->metric, 1);
	if (lines.count)
		qsort(lines.line, lines.count, sizeof(*lines.line), compare);
	for (size_t i = 0; i < lines.count && !err; i++)
		fprintf(out, "%s %" PRIi64 " %" PRIi64 "\n", lines.line[i].chain,
			lines.line[i].value[0], lines.line[i].value[1]);
	strings_deinit(&lines.strings);
	map_deinit(&lines.by_chain);
	free(lines.line);
	return err;
}
