/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/report_csv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/csv_text.h"
#include "analyzer/export/names.h"
#include "analyzer/views/parts.h"
#include "format/foreign.h"
#include "format/array.h"

/* Writes a comma and a quoted field, without characters that are not harmless (format/foreign.h).
 * NULL is an empty field. */
static void put_text(FILE *out, const char *text)
{
	HT_FREED char *clean = strdup(text ? text : "");
	fputs(",", out);
	if (!clean || !*clean)
		return;
	foreign_copy(clean, strlen(clean) + 1, clean);
	csv_put_quoted(out, "", clean);
}

/* --- columns -----------------------------------------------------------------------------------
 */

static void put_names(FILE *out, const struct view *view, const char *prefix)
{
	for (enum metric i = 0; i < METRIC_COUNT; i++) {
		fprintf(out, "%s%s", i ? "," : "", prefix);
		csv_put_metric(out, i);
	}
	fprintf(out, ",%soutstanding_blocks,%ssurvivors_blocks", prefix, prefix);
	for (int i = 0; i < METRIC_COUNT && view->analysis->cube.sample_bytes; i++)
		fprintf(out, ",%s%s_bound95", prefix, metric_info((enum metric)i)->name);
}

static void put_figures(FILE *out, const struct view *view, const struct sums *sums)
{
	const bool is_sample = view->analysis->cube.sample_bytes != 0;
	for (int i = 0; i < METRIC_COUNT; i++) {
		fputs(i ? "," : "", out);
		/* A sample lacks most allocations, so it does not show whether one was temporary.
		 */
		if (!is_sample || i != METRIC_TEMPORARY)
			fprintf(out, "%" PRIi64, metric_value(sums, (enum metric)i));
	}
	fprintf(out, ",%" PRIu64 ",%" PRIu64, sums_outstanding_blocks(sums),
		sums_surviving_blocks(sums));
	/* Mean lifetimes have no bound, and temporary allocations no figure. */
	for (int i = 0; i < METRIC_COUNT && is_sample; i++)
		if (i == METRIC_LIFETIME || i == METRIC_TEMPORARY)
			fputc(',', out);
		else
			fprintf(out, ",%" PRIi64, metric_bound(sums, (enum metric)i));
}

static void put_frame(FILE *out, const struct view *view, const struct frame *frame)
{
	const struct module *module = frame ? names_module_of(view, frame->module) : NULL;
	put_text(out, frame ? frame->function : NULL);
	put_text(out, frame ? frame->file : NULL);
	if (frame && frame->line)
		fprintf(out, ",%" PRIu32, frame->line);
	else
		fputc(',', out);
	put_text(out, module ? module->path : NULL);
	if (frame && !frame->interpreted)
		fprintf(out, ",0x%" PRIx64, frame->offset);
	else
		fputc(',', out);
}

/* --- sites -------------------------------------------------------------------------------------
 */

/* The finding about a row. */
struct finding {
	const struct suspect *suspect; /* NULL: not classified */
	uint64_t bytes;		       /* of all rows with this finding */
};

/* A row's share of the slope of its site. */
static double slope_of(
	const struct view *view, const struct finding *finding, const struct row *row)
{
	return finding->bytes
		       ? finding->suspect->slope_bytes_per_s *
				 (double)view_held_bytes(view, &row->sums) / (double)finding->bytes
		       : 0;
}

static void put_site(
	FILE *out, const struct view *view, const struct row *row, const struct finding *finding)
{
	const struct frame *caller = names_frame_of(view, view->tree.node[row->node].parent);
	put_figures(out, view, &row->sums);
	if (finding->suspect)
		fprintf(out, ",%s,%.3f,%.3f", suspect_class_name(finding->suspect->class),
			slope_of(view, finding, row), finding->suspect->confidence);
	else
		fputs(",,,", out);
	put_frame(out, view, names_frame_of(view, row->node));
	put_text(out, caller ? caller->function : NULL);
	fputs("\r\n", out);
}

/* The findings by row of the view, malloc'd; NULL: no memory. */
static struct finding *findings_by_row(const struct view *view, const struct suspects *suspects)
{
	struct finding *ret = calloc(view->row_count + 1, sizeof(*ret));
	for (size_t i = 0; ret && i < suspects->count; i++) {
		const struct suspects_entry *entry = &suspects->entry[i];
		const uint64_t others = entry->held_bytes - entry->judged_bytes;
		for (size_t k = 0; k < entry->chains; k++)
			ret[suspects->member[entry->first + k]] =
				(struct finding){suspects_row_suspect(entry, k),
					k < entry->judged ? entry->judged_bytes : others};
	}
	return ret;
}

static struct ht_err *write_rows(FILE *out, const struct view *view,
	const struct report_options *options, const struct suspects *suspects)
{
	HT_FREED struct finding *finding = findings_by_row(view, suspects);
	HT_FREED uint32_t *row = NULL;
	size_t shown = 0;
	struct ht_err *err = finding ? view_order(view, options->order, &row)
				     : ht_err_new(HT_ERR_NOMEM, "out of memory for suspects");
	put_names(out, view, "");
	fputs(",class,slope_bytes_per_s,confidence,function,file,line,module,offset,caller\r\n",
		out);
	for (size_t i = 0; i < view->row_count && !err; i++) {
		const struct finding *of = &finding[row[i]];
		if (options->has_class && (!of->suspect || of->suspect->class != options->of_class))
			continue;
		if (options->limit && shown++ == options->limit)
			break;
		put_site(out, view, &view->row[row[i]], of);
	}
	return err;
}

static struct ht_err *write_sites(
	FILE *out, const struct view *view, const struct report_options *options)
{
	struct suspects suspects;
	struct ht_err *err = suspects_find(view, &suspects);
	HT_THEN(err, write_rows(out, view, options, &suspects));
	suspects_deinit(&suspects);
	return err;
}

/* --- a table -----------------------------------------------------------------------------------
 */

static void put_range(FILE *out, uint64_t from, uint64_t to)
{
	fprintf(out, ",%" PRIu64 ",%" PRIu64, from, to);
}

static void put_key(
	FILE *out, const struct view *view, enum breakdown_by by, const struct breakdown_row *row)
{
	const struct threads *threads = &view->analysis->model.threads;
	bool is_assumed;
	switch (by) {
	case BREAKDOWN_SIZE:
		if (row->key == BREAKDOWN_OTHER)
			fputs(",,", out);
		else
			put_range(out, parts_size_from(row->key), parts_size_to(row->key));
		return;
	case BREAKDOWN_LIFETIME:
		if (row->key == BREAKDOWN_LIFETIME_NEVER)
			fputs(",,", out);
		else
			put_range(out, breakdown_life_from(row->key), breakdown_life_to(row->key));
		return;
	case BREAKDOWN_THREAD:
		if (row->key >= threads->count) {
			fputs(row->key == BREAKDOWN_OTHER ? ",,(folded)" : ",,", out);
			return;
		}
		fprintf(out, ",%" PRIu32, threads->thread[row->key].tid);
		put_text(out, threads_shown_name(
				      threads, row->key, view->analysis->model.comm, &is_assumed));
		return;
	case BREAKDOWN_MODULE:
	case BREAKDOWN_NAMESPACE:
		put_text(out, row->name);
		return;
	case BREAKDOWN_FUNCTION:
	case BREAKDOWN_LINE:
	case BREAKDOWN_ADDRESS:
		break;
	}
	put_frame(out, view, row->key < view->frames.count ? &view->frames.frame[row->key] : NULL);
}

static struct ht_err *write_table(
	FILE *out, const struct view *view, const struct report_options *options)
{
	static const char *const key[] = {
		[BREAKDOWN_FUNCTION] = ",function,file,line,module,offset",
		[BREAKDOWN_LINE] = ",function,file,line,module,offset",
		[BREAKDOWN_ADDRESS] = ",function,file,line,module,offset",
		[BREAKDOWN_MODULE] = ",module",
		[BREAKDOWN_NAMESPACE] = ",namespace",
		[BREAKDOWN_THREAD] = ",tid,thread",
		[BREAKDOWN_SIZE] = ",least_bytes,most_bytes",
		[BREAKDOWN_LIFETIME] = ",least_ns,most_ns",
	};
	struct breakdown breakdown;
	HT_TRY(breakdown_find(view, options->by, options->order, false, &breakdown));
	put_names(out, view, "");
	if (breakdown.has_inclusive) {
		fputc(',', out);
		put_names(out, view, "inclusive_");
	}
	fprintf(out, "%s\r\n", key[options->by]);
	for (size_t i = 0; i < breakdown.count && (!options->limit || i < options->limit); i++) {
		put_figures(out, view, &breakdown.row[i].own);
		if (breakdown.has_inclusive) {
			fputc(',', out);
			put_figures(out, view, &breakdown.row[i].inclusive);
		}
		put_key(out, view, options->by, &breakdown.row[i]);
		fputs("\r\n", out);
	}
	breakdown_deinit(&breakdown);
	return NULL;
}

struct ht_err *report_csv_write(
	FILE *out, const struct view *view, const struct report_options *options)
{
	return options->has_by ? write_table(out, view, options) : write_sites(out, view, options);
}
