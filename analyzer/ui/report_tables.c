/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/report_tables.h"

#include <inttypes.h>
#include <stdlib.h>

#define THREADS_SHOWN 10u
#define BAR_WIDTH     30u

struct tables {
	const struct text *text;
	struct analysis *analysis;
};

static void write_sizes(const struct tables *report)
{
	const struct profile *profile = &report->analysis->profile;
	FILE *out = report->text->out;
	uint64_t most = 1;
	for (unsigned i = 0; i < PROFILE_SIZE_CLASSES; i++)
		if (profile->size_class[i].allocations > most)
			most = profile->size_class[i].allocations;
	text_heading(report->text, "Sizes (requested bytes: allocations, outstanding)");
	for (unsigned i = 0; i < PROFILE_SIZE_CLASSES; i++) {
		const struct metrics *metrics = &profile->size_class[i];
		if (!metrics->allocations)
			continue;
		uint64_t from = i ? 1ull << (i - 1) : 0;
		int bar = (int)((double)metrics->allocations / (double)most * BAR_WIDTH + 0.5);
		fprintf(out, "    %10s%s  %14s  %10s%s%.*s\n", text_bytes(from).text,
			from > 1 ? ".." : "  ", text_count(metrics->allocations).text,
			text_bytes(metrics_outstanding_bytes(metrics)).text, bar ? "  " : "", bar,
			"##############################");
	}
}

static int compare_threads(const void *a, const void *b, void *context)
{
	const struct profile *profile = context;
	const struct metrics *x = &profile->thread[*(const uint32_t *)a].metrics;
	const struct metrics *y = &profile->thread[*(const uint32_t *)b].metrics;
	return (x->allocated_bytes < y->allocated_bytes) -
	       (x->allocated_bytes > y->allocated_bytes);
}

static void write_thread(const struct tables *report, uint32_t index)
{
	const struct model *model = &report->analysis->model;
	const struct thread *who = &model->threads.thread[index];
	const struct profile_thread *thread = &report->analysis->profile.thread[index];
	fprintf(report->text->out, "    %8" PRIu32 "  %14s of %10s  %10s outstanding  ", who->tid,
		text_count(thread->metrics.allocations).text,
		text_bytes(thread->metrics.allocated_bytes).text,
		text_bytes(metrics_outstanding_bytes(&thread->metrics)).text);
	bool is_assumed;
	const char *name = threads_shown_name(&model->threads, index, model->comm, &is_assumed);
	text_foreign(report->text, name ? name : "?", 32);
	if (is_assumed)
		fputs("  (assumed)", report->text->out);
	fputc('\n', report->text->out);
}

static struct ht_err *write_threads(const struct tables *report)
{
	struct profile *profile = &report->analysis->profile;
	uint32_t *order = malloc((profile->thread_count + 1) * sizeof(*order));
	if (!order)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for a list of threads");
	size_t count = 0;
	for (uint32_t i = 0; i < profile->thread_count; i++)
		if (profile->thread[i].metrics.allocations)
			order[count++] = i;
	qsort_r(order, count, sizeof(*order), compare_threads, profile);
	text_heading(report->text, "Threads (allocations)");
	for (size_t i = 0; i < count && i < THREADS_SHOWN; i++)
		write_thread(report, order[i]);
	if (count > THREADS_SHOWN)
		fprintf(report->text->out, "    %zu other threads\n", count - THREADS_SHOWN);
	free(order);
	return NULL;
}

static void write_functions(const struct tables *report)
{
	text_heading(report->text, "Functions (allocations, frees)");
	for (unsigned i = 0; i < REPLAY_HOOKS; i++) {
		const struct profile_function *function = &report->analysis->profile.function[i];
		uint64_t frees = function->frees + function->before_frees;
		if (function->allocations || frees)
			fprintf(report->text->out, "    %-16s %14s  %14s\n",
				profile_function_name(i), text_count(function->allocations).text,
				text_count(frees).text);
	}
}

struct ht_err *report_tables_write(const struct text *text, struct analysis *analysis)
{
	const struct tables report = {.text = text, .analysis = analysis};
	write_sizes(&report);
	write_functions(&report);
	return write_threads(&report);
}
