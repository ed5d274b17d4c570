/* SPDX-License-Identifier: Apache-2.0
 *
 * Comma-separated values (RFC 4180): a line of column names, then one line per chain, sorted by the
 * metric, largest first.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/csv_text.h"
#include "analyzer/export/export.h"
#include "analyzer/export/names.h"
#include "format/array.h"

#define THREADS_SHOWN 8u

/* Mean lifetimes have no bound; a sample has no figure of temporary allocations. */
static bool has_bound(enum metric metric)
{
	return metric != METRIC_LIFETIME && metric != METRIC_TEMPORARY;
}

static void put_names(FILE *out, const struct view *view)
{
	for (enum metric i = 0; i < METRIC_COUNT; i++) {
		csv_put_metric(out, i);
		putc(',', out);
	}
	fputs("outstanding_blocks,module,threads,function,file,line,chain", out);
	for (enum metric i = 0; view->analysis->cube.sample_bytes && i < METRIC_COUNT; i++)
		if (has_bound(i))
			fprintf(out, ",%s_bound95", metric_info(i)->name);
	putc('\n', out);
}

/* An unknown figure is an empty field. */
static void put_metrics(FILE *out, const struct view *view, const struct sums *sums)
{
	const bool is_sample = view->analysis->cube.sample_bytes != 0;
	for (enum metric i = 0; i < METRIC_COUNT; i++) {
		const bool is_known = !(i == METRIC_TEMPORARY && is_sample) &&
				      !(i == METRIC_LIFETIME && !sums->frees);
		if (is_known)
			fprintf(out, "%" PRIi64, metric_value(sums, i));
		putc(',', out);
	}
	fprintf(out, "%" PRIu64 ",", sums_outstanding_blocks(sums));
}

static bool is_among(const char name[], char shown[][NAMES_BYTES], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(shown[i], name) == 0)
			return true;
	return false;
}

/* Writes the distinct thread names of a row, at most THREADS_SHOWN. */
static void put_threads(
	FILE *out, const struct view *view, const struct row *row, char shown[][NAMES_BYTES])
{
	const struct cube *cube = &view->analysis->cube;
	HT_FREED char *text = NULL;
	size_t length, count = 0;
	FILE *memory = open_memstream(&text, &length);
	for (uint32_t i = 0; memory && i < row->count; i++) {
		char name[NAMES_BYTES];
		const struct cube_site *site = &cube->site[view->row_site[row->first + i]];
		names_thread(
			view, site->node == CUBE_OTHER ? CUBE_OTHER : cube_site_thread(site), name);
		if (is_among(name, shown, count))
			continue;
		if (count == THREADS_SHOWN) {
			fputs(";...", memory);
			break;
		}
		memcpy(shown[count], name, sizeof(name));
		fprintf(memory, "%s%s", count++ ? ";" : "", name);
	}
	if (memory)
		fclose(memory);
	csv_put_text(out, text ? text : "");
}

static void put_leaf(FILE *out, const struct view *view, uint32_t node)
{
	const struct frame *frame = names_frame_of(view, node);
	char name[NAMES_BYTES];
	names_node(view, node, name);
	csv_put_text(out, name);
	names_copy(name, frame && frame->file ? frame->file : "");
	putc(',', out);
	csv_put_text(out, name);
	putc(',', out);
	if (frame && frame->line)
		fprintf(out, "%" PRIu32, frame->line);
	putc(',', out);
}

static struct ht_err *put_chain(FILE *out, const struct view *view, const struct names_chain *chain)
{
	HT_FREED char *text = NULL;
	HT_TRY(names_chain_text(view, chain, &text));
	csv_put_text(out, text);
	return NULL;
}

static struct ht_err *put_row(FILE *out, const struct view *view, const struct row *row,
	struct names_chain *chain, char shown[][NAMES_BYTES])
{
	const struct frame *frame = names_frame_of(view, row->node);
	char name[NAMES_BYTES];
	put_metrics(out, view, &row->sums);
	names_module(view, frame ? frame->module : MODULES_NONE, name);
	csv_put_text(out, name);
	putc(',', out);
	put_threads(out, view, row, shown);
	putc(',', out);
	put_leaf(out, view, row->node);
	names_chain_take(chain, view, row->node);
	struct ht_err *err = put_chain(out, view, chain);
	for (enum metric i = 0; view->analysis->cube.sample_bytes && i < METRIC_COUNT; i++)
		if (has_bound(i))
			fprintf(out, ",%" PRIi64, metric_bound(&row->sums, i));
	putc('\n', out);
	return err;
}

struct ht_err *export_csv(FILE *out, struct export_job *job)
{
	const struct view *view = job->view;
	HT_FREED char(*shown)[NAMES_BYTES] = calloc(THREADS_SHOWN, sizeof(*shown));
	struct names_chain chain = {0};
	HT_FREED uint32_t *order = NULL;
	struct ht_err *err =
		shown ? NULL : ht_err_new(HT_ERR_NOMEM, "out of memory for names of threads");
	HT_THEN(err, view_order(view, job->metric, &order));
	HT_THEN(err, names_chain_init(&chain, view));
	if (!err)
		put_names(out, view);
	for (size_t i = 0; i < view->row_count && !err; i++)
		err = put_row(out, view, &view->row[order[i]], &chain, shown);
	names_chain_deinit(&chain);
	return err;
}
