/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze export: a trace in the format of another program.
 */
#include "analyzer/cmd_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cmd.h"
#include "analyzer/export/export.h"
#include "analyzer/ui/watch.h"
#include "format/quantity.h"

struct options {
	/* older_path: NULL unless two traces are compared */
	const char *path, *older_path, *out_path;
	const struct option_values *values;
	const struct export_format *format;
	enum metric metric;
};

/* Refuses options that the format does not use, and a wrong number of traces. */
static struct ht_err *check_format(
	const struct option_values *values, const struct export_format *format)
{
	const struct {
		enum option_id id;
		unsigned trait;
		const char *why;
	} rule[] = {
		{OPTION_METRIC, EXPORT_METRIC,
			"--metric is for formats with one figure, collapsed and difffolded"},
		{OPTION_SHOW_WRAPPERS, EXPORT_ROWS,
			"--show-wrappers is not needed: this format has every frame"},
		{OPTION_STATS, EXPORT_STATS, "--stats is for heaptrack"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(rule); i++)
		if (option_is_given(values, rule[i].id) && !(format->traits & rule[i].trait))
			return ht_err_new(
				HT_ERR_USAGE, "export --format %s: %s", format->name, rule[i].why);
	const bool is_comparison = format->traits & EXPORT_COMPARISON;
	if (is_comparison && values->operand_count < 2)
		return ht_err_new(HT_ERR_USAGE,
			"export --format %s compares two traces: heaptap export OLD NEW --format "
			"%s",
			format->name, format->name);
	if (!is_comparison && values->operand_count > 1)
		return ht_err_new(HT_ERR_USAGE,
			"export --format %s takes one trace; difffolded compares two",
			format->name);
	return NULL;
}

static struct ht_err *read_options(
	const struct option_values *values, struct options *ret, struct query *ret_query)
{
	*ret = (struct options){
		.path = values->operand[values->operand_count - 1],
		.older_path = values->operand_count > 1 ? values->operand[0] : NULL,
		.out_path = option_text(values, OPTION_OUTPUT, "-"),
		.values = values,
		.metric = option_number(values, OPTION_METRIC, METRIC_OUTSTANDING),
	};
	if (!option_is_given(values, OPTION_FORMAT))
		return ht_err_new(HT_ERR_USAGE,
			"export: --format is missing; heaptap export --help lists the formats");
	ret->format = &export_format[option_number(values, OPTION_FORMAT, 0)];
	HT_TRY(check_format(values, ret->format));
	HT_TRY(cmd_query(values, ret_query));
	return export_check(ret->format, ret_query, ret->metric);
}

/* A trace, and the answer to the query; {.fd = -1} is valid. */
struct answer {
	int fd; /* -1: not open */
	struct cmd_view of;
};

static struct ht_err *answer(struct answer *answer, const char *path, const struct options *options)
{
	HT_TRY(cmd_view_answer(options->values, answer->fd, path, false, &answer->of));
	if (options->format->traits & EXPORT_METRIC && options->metric == METRIC_TEMPORARY &&
		answer->of.analysis->cube.sample_bytes)
		return ht_err_new(HT_ERR_USAGE,
			"%s is a sample, which cannot show temporary allocations", path);
	return NULL;
}

static void answer_deinit(struct answer *answer)
{
	cmd_view_close(&answer->of);
	if (answer->fd >= 0)
		close(answer->fd);
}

/* Prints how many events a format of single events lacks, because the trace has only their sums
 * (--cull). */
static void print_left_out(const struct model *model)
{
	char text[QUANTITY_TEXT_BYTES];
	if (model->culled_events)
		fprintf(stderr,
			"heaptap: %" PRIu64
			" events are left out: of blocks that lived less than %s the trace has "
			"only sums\n",
			model->culled_events, quantity_duration_text(model->capture.cull_ns, text));
}

static void print_notes(const struct export_job *job, bool wants_stats)
{
	const struct export_heaptrack_stats *stats = &job->stats;
	if (*job->note)
		fprintf(stderr, "heaptap: %s\n", job->note);
	if (wants_stats)
		fprintf(stderr,
			"calls %" PRIu64 "\ntemporary %" PRIu64 "\npeak_bytes %" PRIu64
			"\nleaked_bytes %" PRIu64 "\n",
			stats->calls, stats->temporary, stats->peak_bytes, stats->leaked_bytes);
}

/* Writes `newer` and, for a comparison, `older`. */
static struct ht_err *write_export(
	FILE *out, struct answer *newer, struct answer *older, const struct options *options)
{
	struct export_job job = {.metric = options->metric,
		.fd = newer->fd,
		.start = lseek(newer->fd, 0, SEEK_CUR),
		.name = options->path};
	if (options->format->traits & EXPORT_EVENTS && job.start < 0)
		return ht_err_new(HT_ERR_USAGE,
			"%s is read twice for this format: give a file, not a pipe", options->path);
	HT_TRY(answer(newer, options->path, options));
	if (options->older_path) {
		HT_TRY(cmd_query(options->values, &older->of.query));
		HT_TRY(answer(older, options->older_path, options));
	}
	job.view = newer->of.view;
	job.older = older->of.view;
	struct watch watch = {0};
	/* The trace is read again while the export is written: show the progress, unless both would
	 * go to the terminal. */
	if (options->format->traits & EXPORT_EVENTS && !isatty(fileno(out)))
		watch_begin(&watch, stderr, newer->fd, options->path);
	struct ht_err *err = options->format->write(out, &job);
	watch_end(&watch);
	if (!err && options->format->traits & EXPORT_EVENTS)
		print_left_out(&newer->of.analysis->model);
	if (!err)
		print_notes(&job, option_is_given(options->values, OPTION_STATS));
	return err;
}

static struct ht_err *export_to(
	const struct options *options, struct answer *newer, struct answer *older)
{
	const char *const traces[] = {options->path, options->older_path, NULL};
	struct cmd_file file;
	HT_TRY(cmd_file_open(
		options->out_path, traces, option_is_given(options->values, OPTION_FORCE), &file));
	return cmd_file_close(&file, write_export(file.file, newer, older, options));
}

struct ht_err *cmd_export(const struct option_values *values)
{
	struct options options;
	struct answer newer = {.fd = -1}, older = {.fd = -1};
	struct ht_err *err = read_options(values, &options, &newer.of.query);
	HT_THEN(err, cmd_open_trace(options.path, &newer.fd));
	if (!err && options.older_path)
		err = cmd_open_trace(options.older_path, &older.fd);
	HT_THEN(err, export_to(&options, &newer, &older));
	answer_deinit(&older);
	answer_deinit(&newer);
	return err;
}
