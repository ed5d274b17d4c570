/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/warnings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/missing.h"
#include "analyzer/views/rss.h"

/* Counters of the capture. Each sentence contains one PRIu64 and is added if the number is not 0.
 */
static const struct {
	enum rec_counter counter;
	const char *sentence;
} counted[] = {
	{REC_COUNTER_LOST_TIMEOUT, "%" PRIu64 " events dropped: heaptap could not keep up"},
	{REC_COUNTER_LOST_SOCKET,
		"%" PRIu64
		" events dropped: the connection between process and heaptap was closed"},
	{REC_COUNTER_LOST_SLOT_FULL,
		"%" PRIu64 " events dropped: more threads at once than heaptap can record"},
	{REC_COUNTER_LOST_NESTED, "%" PRIu64 " events dropped: signal handlers nested too deeply"},
	{REC_COUNTER_SAMPLES_LOST,
		"%" PRIu64 " samples dropped: more of their blocks live than heaptap has room for"},
	{REC_COUNTER_DAEMON_DROPS, "%" PRIu64 " events received but not written to the trace"},
	{REC_COUNTER_TRUNC_DEPTH,
		"%" PRIu64 " stacks cut: deeper than 16,384 frames, the outer ones are missing"},
	{REC_COUNTER_TRUNC_NO_RULE, "%" PRIu64 " stacks cut: no unwind information for a frame"},
	{REC_COUNTER_TRUNC_STACK, "%" PRIu64 " stacks cut: the stack left its bounds"},
	{REC_COUNTER_TRUNC_NODES, "%" PRIu64 " stacks cut: too many distinct stacks"},
	{REC_COUNTER_DAMAGE, "%" PRIu64 " times the process damaged the memory it shares with "
			     "heaptap: do not trust counts and stacks"},
	{REC_COUNTER_UNSEEN,
		"%" PRIu64 " places in the program's code call a linked-in allocator directly and "
		"are not recorded: totals are too low, and blocks freed there look as "
		"if they stayed; try --hook auto"},
};

void warnings_deinit(struct warnings *warnings)
{
	for (size_t i = 0; i < warnings->count; i++)
		free(warnings->text[i]);
	warnings->count = 0;
}

static HT_PRINTF(2, 3) struct ht_err *add(struct warnings *warnings, const char *fmt, ...)
{
	if (warnings->count == WARNINGS_MAX)
		return NULL;
	va_list args;
	va_start(args, fmt);
	char *text = NULL;
	int length = vasprintf(&text, fmt, args);
	va_end(args);
	if (length < 0)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for a warning");
	warnings->text[warnings->count++] = text;
	return NULL;
}

static struct ht_err *add_ending(const struct model *model, struct warnings *warnings)
{
	char text[MODEL_ENDING_BYTES];
	const struct model_ending ending = model_ending(model);
	warnings->has_ending = model_ending_text(&ending, text);
	return warnings->has_ending ? add(warnings, "%s", text) : NULL;
}

/* For a trace without kinds of pages: file pages, or memory reserved before the window, may be the
 * cause of the growth. */
static struct ht_err *add_growth_alone(
	const struct rss_growth *rss, bool mapped, struct warnings *warnings)
{
	return add(warnings,
		"RSS grew by %" PRIi64
		" MiB; the window's blocks%s and heaptap itself can account for "
		"%" PRIu64 " MiB at most. The rest is %smapped files, memory that was reserved "
		"earlier, or an allocator that is not recorded: heaptap doctor names those",
		rss->growth_bytes >> 20, mapped ? ", its mappings" : "",
		rss->explicable_bytes >> 20, mapped ? "" : "mmap (attach --mmap records it), ");
}

static bool runs_node(const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		const char *name = strings_base_name(modules->module[i].path);
		if (strcmp(name, "node") == 0 || strncmp(name, "libnode.so", 10) == 0)
			return true;
	}
	return false;
}

static struct ht_err *add_node_growth(
	const struct rss_growth *rss, uint64_t pid, struct warnings *warnings)
{
	return add(warnings,
		"RSS grew by %" PRIi64 " MiB; %" PRIu64 " MiB of that are anonymous memory that no "
		"recorded block explains. In Node.js it is "
		"mostly V8's own heap of JavaScript objects. Next: `kill -USR1 %" PRIu64
		"` opens the "
		"inspector of Node.js, whose heap snapshots show them",
		rss->growth_bytes >> 20, rss->unexplained_bytes >> 20, pid);
}

static struct ht_err *add_growth(const struct analysis *analysis, struct warnings *warnings)
{
	struct rss_growth rss = rss_growth_of(analysis);
	if (!rss.known || !rss.is_unexplained)
		return NULL;
	bool mapped = analysis_has_mappings(analysis);
	if (!rss.parts.known)
		return add_growth_alone(&rss, mapped, warnings);
	if (runs_node(&analysis->model.modules))
		return add_node_growth(&rss, analysis->model.target.pid, warnings);
	return add(warnings,
		"RSS grew by %" PRIi64 " MiB; %" PRIu64
		" MiB of that are anonymous memory that no recorded block%s explains. It is thread "
		"stacks, mmap, JIT code, or an allocator that is not recorded. Next: %s"
		"heaptap doctor -p PID names allocators that are not recorded",
		rss.growth_bytes >> 20, rss.unexplained_bytes >> 20, mapped ? " or mapping" : "",
		mapped ? "" : "record again with --mmap, which shows the calls that map memory; ");
}

static struct ht_err *add_heap(const struct heap *heap, struct warnings *warnings)
{
	if (!heap->is_unexplained)
		return NULL;
	return add(warnings,
		"the allocator's own data show that the heap grew by %" PRIi64
		" KiB, the trace explains %" PRIi64
		" KiB: some blocks are allocated or freed unrecorded",
		heap->growth_bytes / 1024, heap->explained_bytes / 1024);
}

static struct ht_err *add_counted(const struct model *model, struct warnings *warnings)
{
	struct ht_err *err = NULL;
	for (size_t i = 0; i < HT_ARRAY_SIZE(counted) && !err; i++) {
		uint64_t number = model->counter[counted[i].counter];
		if (number)
			err = add(warnings, counted[i].sentence, number);
	}
	return err;
}

static struct ht_err *add_left(struct warnings *warnings, const struct model *model)
{
	char text[MODEL_LEFT_BYTES];
	if (!model->has_left || (model->left != REC_LEFT_CODE && model->left != REC_LEFT_DIFFERS))
		return NULL;
	model_left_text(model, text);
	return add(warnings, "%s", text);
}

#define NAMED_MAX   3u
#define NAMES_BYTES 200u

/* " (a.so, b.so, ...)": the first modules whose names are known. A library that came and went again
 * has no name. */
static void name_untapped(const struct model *model, char names[NAMES_BYTES])
{
	size_t used = 0, count = 0;
	names[0] = '\0';
	for (size_t i = 0; i < model->modules.count && count <= NAMED_MAX; i++) {
		const struct module *module = &model->modules.module[i];
		if (!(module->flags & REC_MODULE_UNTAPPED))
			continue;
		const char *name = count == NAMED_MAX ? "..." : strings_base_name(module->path);
		used += (size_t)snprintf(
			names + used, NAMES_BYTES - used, "%s%.40s", count ? ", " : " (", name);
		count++;
	}
	if (count)
		snprintf(names + used, NAMES_BYTES - used, ")");
}

static struct ht_err *add_untapped(const struct model *model, struct warnings *warnings)
{
	char names[NAMES_BYTES];
	uint64_t count = model->counter[REC_COUNTER_UNTAPPED];
	if (!count)
		return NULL;
	name_untapped(model, names);
	return add(warnings,
		"%" PRIu64
		" libraries were loaded during the capture and recorded too late%s: their first "
		"calls are missing",
		count, names);
}

/* Adds problems found while the trace was read; each only if its number is not 0. */
static struct ht_err *add_found(const struct model *model, struct warnings *warnings)
{
	const struct streams_damage *damage = &model->damage;
	const struct {
		uint64_t number;
		const char *sentence;
	} fact[] = {
		{model_missing_events(model),
			"%" PRIu64 " events were recorded and are not in the trace"},
		{model_missing_mappings(model),
			"%" PRIu64 " mappings were recorded and are not in the trace"},
		{damage->gaps, "%" PRIu64 " gaps in the event streams: events are missing"},
		{damage->malformed, "%" PRIu64 " pieces of event data are malformed"},
		{damage->early,
			"%" PRIu64 " times events were put in order before all had arrived"},
		{model->counts.inferred_frees - model->counts.absorbed_frees,
			"%" PRIu64 " frees were not seen and are inferred: their address was "
			"allocated again"},
		{model->counts.unknown_stacks,
			"%" PRIu64 " events refer to a stack that the trace does not hold"},
		{model->counts.odd_events, "%" PRIu64 " events are damaged and ignored"},
		{model->nodes.rejected, "%" PRIu64 " stack frames are damaged and ignored"},
		{model->modules.ignored, "%" PRIu64 " module records are ignored"},
	};
	struct ht_err *err = NULL;
	for (size_t i = 0; i < HT_ARRAY_SIZE(fact) && !err; i++)
		if (fact[i].number)
			err = add(warnings, fact[i].sentence, fact[i].number);
	return err;
}

/* The names of folded stacks are lost, their figures are not. */
static struct ht_err *add_folded(const struct cube *cube, struct warnings *warnings)
{
	const uint64_t all = cube->total.allocated_bytes;
	if (!cube->folded_stacks)
		return NULL;
	return add(warnings,
		"%" PRIu64
		" stacks that allocated little are shown as one, (folded): %.2f %% of the "
		"allocated bytes",
		cube->folded_stacks, all ? (double)cube->folded_bytes / (double)all * 100 : 0);
}

static struct ht_err *add_missing(const struct analysis *analysis, struct warnings *warnings)
{
	struct missing missing;
	struct ht_err *err = missing_find(analysis, &missing);
	for (size_t i = 0; i < missing.shown_count && !err; i++) {
		char *text = missing_sentence(analysis, &missing.shown[i]);
		err = text ? add(warnings, "%s", text)
			   : ht_err_new(HT_ERR_NOMEM, "out of memory for a warning");
		free(text);
	}
	if (!err && missing.others)
		err = add(warnings,
			"%zu other modules lack names or lines, too, with fewer allocations",
			missing.others);
	return err;
}

struct ht_err *warnings_collect(const struct analysis *analysis, struct warnings *ret)
{
	*ret = (struct warnings){0};
	struct ht_err *err = add_ending(&analysis->model, ret);
	HT_THEN(err, add_counted(&analysis->model, ret));
	HT_THEN(err, add_left(ret, &analysis->model));
	HT_THEN(err, add_untapped(&analysis->model, ret));
	HT_THEN(err, add_found(&analysis->model, ret));
	HT_THEN(err, add_growth(analysis, ret));
	HT_THEN(err, add_heap(&analysis->heap, ret));
	HT_THEN(err, add_folded(&analysis->cube, ret));
	HT_THEN(err, add_missing(analysis, ret));
	if (err)
		warnings_deinit(ret);
	return err;
}
