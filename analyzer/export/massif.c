/* SPDX-License-Identifier: Apache-2.0
 *
 * massif.out of valgrind, as ms_print and massif-visualizer read it: memory over time in at most
 * SNAPSHOTS_MAX steps, and a tree of callers for the memory at the peak and at the end.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/export/export.h"
#include "analyzer/export/names.h"
#include "format/array.h"

#define SNAPSHOTS_MAX 100u
/* massif's default; ms_print is recursive, so deep trees are a risk */
#define DEPTH_MAX      30u
#define THRESHOLD      1u /* percent; massif's default */
#define THRESHOLD_TEXT "01.00%%"
#define NS_PER_MS      1000000u

/* --- the tree ----------------------------------------------------------------------------------
 */

/* A row of the view, while the tree is walked from leaf to root. */
struct item {
	uint32_t node; /* of the view's tree; 0: its chain has ended */
	uint32_t group;
	uint64_t bytes;
};

/* Items of one group. */
struct branch {
	size_t first, count;
	uint64_t bytes;
};

struct massif {
	FILE *out;
	const struct view *view;
	struct item *item;
	uint64_t least_bytes; /* least bytes of a branch that is shown by itself */
};

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

static int compare_branches(const void *a, const void *b)
{
	const struct branch *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

/* Splits items [first, first + count) into branches, most bytes first. Chains that have ended
 * belong to no branch, except at the top, where they have no stack. The caller frees `*ret`. */
static struct ht_err *split(struct massif *massif, size_t first, size_t count, bool is_top,
	struct branch **ret, size_t *ret_count)
{
	struct item *item = massif->item;
	*ret_count = 0;
	*ret = calloc(count + 1, sizeof(**ret));
	if (!*ret)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", count);
	for (size_t i = first; i < first + count; i++)
		item[i].group = massif->view->tree.node[item[i].node].group;
	qsort(item + first, count, sizeof(*item), compare_items);
	for (size_t i = first; i < first + count; i++) {
		if (!item[i].node && !is_top)
			continue;
		const bool is_new = !*ret_count || !i || item[i].group != item[i - 1].group ||
				    !item[i].node != !item[i - 1].node;
		if (is_new)
			(*ret)[(*ret_count)++].first = i;
		struct branch *branch = &(*ret)[*ret_count - 1];
		branch->count++;
		branch->bytes += item[i].bytes;
	}
	qsort(*ret, *ret_count, sizeof(**ret), compare_branches);
	return NULL;
}

static void put_indent(FILE *out, unsigned depth)
{
	for (unsigned i = 0; i < depth; i++)
		putc(' ', out);
}

/* "0xADDR: function (file:line)", "0xADDR: ??? (in module)". */
static void put_place(FILE *out, const struct view *view, uint32_t node)
{
	const struct frame *frame = names_frame_of(view, node);
	char name[NAMES_BYTES];
	if (!frame) {
		names_node(view, node, name);
		fputs(name, out);
		return;
	}
	fprintf(out, "0x%" PRIX64 ": ", names_address(view, frame));
	names_copy(name, frame->function ? frame->function : "???");
	fputs(name, out);
	if (frame->file) {
		names_copy(name, names_base(frame->file));
		fprintf(out, " (%s:%" PRIu32 ")", name, frame->line);
		return;
	}
	names_module(view, frame->module, name);
	if (*name)
		fprintf(out, " (in %s)", name);
}

static struct ht_err *put_branches(
	struct massif *massif, const struct branch *branch, size_t count, unsigned depth);

static struct ht_err *put_branch(struct massif *massif, const struct branch *branch, unsigned depth)
{
	HT_FREED struct branch *child = NULL;
	size_t count = 0, shown = 0;
	const uint32_t node = massif->item[branch->first].node;
	for (size_t i = branch->first; i < branch->first + branch->count; i++)
		massif->item[i].node = massif->view->tree.node[massif->item[i].node].parent;
	if (depth < DEPTH_MAX)
		HT_TRY(split(massif, branch->first, branch->count, false, &child, &count));
	while (shown < count && child[shown].bytes >= massif->least_bytes)
		shown++;
	put_indent(massif->out, depth);
	fprintf(massif->out, "n%zu: %" PRIu64 " ", shown + (shown < count), branch->bytes);
	put_place(massif->out, massif->view, node);
	putc('\n', massif->out);
	return put_branches(massif, child, count, depth + 1);
}

static struct ht_err *put_branches(
	struct massif *massif, const struct branch *branch, size_t count, unsigned depth)
{
	size_t shown = 0;
	uint64_t rest = 0;
	struct ht_err *err = NULL;
	for (; shown < count && branch[shown].bytes >= massif->least_bytes && !err; shown++)
		err = put_branch(massif, &branch[shown], depth);
	for (size_t i = shown; i < count; i++)
		rest += branch[i].bytes;
	if (err || shown == count)
		return err;
	put_indent(massif->out, depth);
	fprintf(massif->out,
		"n0: %" PRIu64 " in %zu place%s below massif's threshold (" THRESHOLD_TEXT ")\n",
		rest, count - shown, count - shown == 1 ? "," : "s, all");
	return NULL;
}

/* Takes only rows with a positive figure: it is negative if blocks from before the window were
 * freed. */
static size_t take_items(struct massif *massif, enum metric metric, uint64_t *ret_bytes)
{
	const struct view *view = massif->view;
	size_t count = 0;
	*ret_bytes = 0;
	for (size_t i = 0; i < view->row_count; i++) {
		const int64_t bytes = metric_value(&view->row[i].sums, metric);
		if (bytes <= 0)
			continue;
		massif->item[count++] = (struct item){view->row[i].node, 0, (uint64_t)bytes};
		*ret_bytes += (uint64_t)bytes;
	}
	return count;
}

static struct ht_err *put_tree(struct massif *massif, enum metric metric)
{
	HT_FREED struct branch *branch = NULL;
	size_t count, shown = 0;
	uint64_t bytes;
	const size_t items = take_items(massif, metric, &bytes);
	massif->least_bytes = bytes / 100 * THRESHOLD + 1;
	HT_TRY(split(massif, 0, items, true, &branch, &count));
	while (shown < count && branch[shown].bytes >= massif->least_bytes)
		shown++;
	fprintf(massif->out,
		"n%zu: %" PRIu64
		" (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n",
		shown + (shown < count), bytes);
	return put_branches(massif, branch, count, 1);
}

/* --- snapshots ---------------------------------------------------------------------------------
 */

struct snapshots {
	struct massif massif;
	struct window_series series; /* from the start of the trace */
	uint64_t last_ns; /* time of the last snapshot; a later one would make ms_print draw outside
			     its graph */
	unsigned count;
};

static struct ht_err *put_snapshot(struct snapshots *snapshots, uint64_t time_ns, uint64_t bytes,
	const char *tree, enum metric metric)
{
	fprintf(snapshots->massif.out,
		"#-----------\nsnapshot=%u\n#-----------\ntime=%" PRIu64 "\nmem_heap_B=%" PRIu64
		"\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=%s\n",
		snapshots->count++,
		(time_ns < snapshots->last_ns ? time_ns : snapshots->last_ns) / NS_PER_MS, bytes,
		tree);
	return metric == METRIC_COUNT ? NULL : put_tree(&snapshots->massif, metric);
}

static struct ht_err *put_detailed(
	struct snapshots *snapshots, uint64_t time_ns, const char *tree, enum metric metric)
{
	uint64_t bytes;
	take_items(&snapshots->massif, metric, &bytes);
	return put_snapshot(snapshots, time_ns, bytes, tree, metric);
}

static uint64_t bytes_at(const struct snapshots *snapshots, uint32_t bucket)
{
	const int64_t bytes = snapshots->series.live_bytes[bucket];
	return bytes > 0 ? (uint64_t)bytes : 0;
}

/* Writes a snapshot at the ends of buckets, one at the time of the peak, and one at the end. */
static struct ht_err *put_snapshots(struct snapshots *snapshots)
{
	const struct view *view = snapshots->massif.view;
	const struct cube *cube = &view->analysis->cube;
	const uint32_t stride = (view->window.to - view->window.from) / SNAPSHOTS_MAX + 1;
	bool has_peak = false;
	snapshots->last_ns = view->to_ns > view->peak.time_ns ? view->to_ns : view->peak.time_ns;
	const uint64_t first = view->window.from ? bytes_at(snapshots, view->window.from - 1) : 0;
	struct ht_err *err = put_snapshot(snapshots, view->from_ns, first, "empty", METRIC_COUNT);
	for (uint32_t i = view->window.from; i < view->window.to && !err; i += stride) {
		const uint64_t end_ns = (i + 1) * cube->step_ns;
		if (!has_peak && view->peak.time_ns <= end_ns) {
			has_peak = true;
			err = put_detailed(snapshots, view->peak.time_ns, "peak", METRIC_PEAK);
		}
		if (!err && i + 1 < view->window.to)
			err = put_snapshot(
				snapshots, end_ns, bytes_at(snapshots, i), "empty", METRIC_COUNT);
	}
	if (!err && !has_peak)
		err = put_detailed(snapshots, view->peak.time_ns, "peak", METRIC_PEAK);
	return err ? err : put_detailed(snapshots, snapshots->last_ns, "detailed", METRIC_LIVE);
}

static void put_head(FILE *out, const struct view *view)
{
	const struct model *model = &view->analysis->model;
	char name[NAMES_BYTES];
	names_copy(name, model->exe && *model->exe ? model->exe : "unknown");
	fprintf(out, "desc: heaptap %s\ncmd: %s\ntime_unit: ms\n", HEAPTAP_VERSION, name);
}

struct ht_err *export_massif(FILE *out, struct export_job *job)
{
	const struct window until = {0, job->view->window.to};
	const size_t rows = job->view->row_count;
	HT_FREED struct snapshots *snapshots = calloc(1, sizeof(*snapshots));
	HT_FREED struct item *item = calloc(rows + 1, sizeof(*item));
	if (!snapshots || !item)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", rows);
	snapshots->massif = (struct massif){.out = out, .view = job->view, .item = item};
	view_total_series(job->view, until, &snapshots->series);
	put_head(out, job->view);
	return put_snapshots(snapshots);
}
