/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/view.h"

#include <stdlib.h>

#include "analyzer/query/moment.h"
#include "analyzer/views/select.h"

void view_destroy(struct view *view)
{
	if (!view)
		return;
	tree_deinit(&view->tree);
	groups_deinit(&view->groups);
	frames_deinit(&view->frames);
	free(view->sums);
	free(view->row);
	free(view->row_site);
	free(view->row_of_site);
	free(view);
}

/* --- the window --------------------------------------------------------------------------------
 */

static struct ht_err *check_moments(
	const struct model *model, const struct query *query, uint64_t from_ns, uint64_t to_ns)
{
	if (query->from && model->duration_ns && from_ns >= model->duration_ns)
		return ht_err_new(HT_ERR_USAGE,
			"--from %s is not in the trace, which is %.1f s long", query->from,
			(double)model->duration_ns / 1e9);
	if (to_ns == 0)
		return ht_err_new(
			HT_ERR_USAGE, "--to %s is not after the start of the trace", query->to);
	if (from_ns >= to_ns)
		return ht_err_new(
			HT_ERR_USAGE, "--from %s is not before --to %s", query->from, query->to);
	return NULL;
}

static struct ht_err *find_window(struct view *view, bool utc)
{
	const struct cube *cube = &view->analysis->cube;
	const struct model *model = &view->analysis->model;
	const struct query *query = &view->query;
	uint64_t from_ns = 0, to_ns = UINT64_MAX;
	struct ht_err *err = NULL;
	view->window = window_whole(cube);
	if (query->from)
		err = moment_parse("--from", query->from, model, utc, &from_ns);
	if (!err && query->to)
		err = moment_parse("--to", query->to, model, utc, &to_ns);
	HT_THEN(err, check_moments(model, query, from_ns, to_ns));
	if (err)
		return err;
	if (query->from || query->to)
		view->window = window_snap(cube, from_ns, to_ns);
	view->is_whole = window_is_whole(cube, view->window);
	view->from_ns = window_start_ns(cube, view->window);
	view->to_ns = window_end_ns(cube, view->window);
	if (view->window.to == cube->timeline.count && model->duration_ns)
		view->to_ns = model->duration_ns;
	view->is_snapped =
		(query->from && from_ns != view->from_ns) || (query->to && to_ns < view->to_ns);
	return NULL;
}

static struct ht_err *find_sums(struct view *view, bool utc)
{
	const struct cube *cube = &view->analysis->cube;
	uint64_t alive_ns;
	view->peak = window_peak(cube, view->window);
	if (!view->query.alive_at)
		return window_sums(cube, view->window, &view->sums);
	HT_TRY(moment_parse(
		"--alive-at", view->query.alive_at, &view->analysis->model, utc, &alive_ns));
	const struct window at = window_snap(cube, alive_ns, alive_ns + 1);
	if (at.from < view->window.from || at.from >= view->window.to)
		return ht_err_new(
			HT_ERR_USAGE, "--alive-at %s is not in the window", view->query.alive_at);
	return window_sums_alive(cube, view->window, at.from, &view->sums);
}

/* --- rows --------------------------------------------------------------------------------------
 */

static struct ht_err *apply_filters(struct view *view)
{
	const struct cube *cube = &view->analysis->cube;
	bool *is_in = NULL;
	if (query_filters_stacks(&view->query))
		HT_TRY(select_sites(view->analysis, &view->frames, &view->query, &is_in));
	for (size_t i = 0; i < cube->site_count; i++) {
		if (is_in && !is_in[i])
			view->sums[i] = (struct sums){0};
		sums_add(&view->total, &view->sums[i]);
	}
	free(is_in);
	return NULL;
}

static uint32_t node_of_site(const struct view *view, const struct tree *tree, size_t site)
{
	return tree_leaf(tree, &view->analysis->model.nodes, view->analysis->cube.site[site].node);
}

/* Gives each tree node with figures a row, then lists each row's sites. */
static struct ht_err *make_rows(struct view *view)
{
	const size_t sites = view->analysis->cube.site_count;
	uint32_t *row_of = calloc(view->tree.count, sizeof(*row_of));
	view->row = calloc(view->tree.count + 1, sizeof(*view->row));
	view->row_site = calloc(sites + 1, sizeof(*view->row_site));
	view->row_of_site = calloc(sites + 1, sizeof(*view->row_of_site));
	if (!row_of || !view->row || !view->row_site || !view->row_of_site) {
		free(row_of);
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", sites);
	}
	for (size_t i = 0; i < sites; i++) {
		view->row_of_site[i] = UINT32_MAX;
		if (sums_are_zero(&view->sums[i]))
			continue;
		const uint32_t node = node_of_site(view, &view->tree, i);
		if (!row_of[node])
			row_of[node] = (uint32_t)++view->row_count;
		struct row *row = &view->row[row_of[node] - 1];
		row->node = node;
		row->count++;
		sums_add(&row->sums, &view->sums[i]);
		view->row_of_site[i] = row_of[node] - 1;
	}
	for (uint32_t i = 0, end = 0; i < view->row_count; i++) {
		end += view->row[i].count;
		view->row[i].first = end;
	}
	for (uint32_t i = (uint32_t)sites; i-- > 0;)
		if (view->row_of_site[i] != UINT32_MAX)
			view->row_site[--view->row[view->row_of_site[i]].first] = i;
	free(row_of);
	return NULL;
}

struct ht_err *view_create(
	struct analysis *analysis, const struct query *query, bool utc, struct view **ret)
{
	struct view *view = calloc(1, sizeof(*view));
	if (!view)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for a view");
	view->analysis = analysis;
	view->query = *query;
	struct ht_err *err = find_window(view, utc);
	HT_THEN(err, find_sums(view, utc));
	HT_THEN(err, frames_init(&view->frames, analysis));
	HT_THEN(err, groups_init(&view->groups, GROUPING_LINE, &view->frames, analysis));
	HT_THEN(err, tree_init(&view->tree, analysis, &view->frames, &view->groups,
			     query->shows_wrappers));
	HT_THEN(err, apply_filters(view));
	HT_THEN(err, make_rows(view));
	if (err) {
		view_destroy(view);
		return err;
	}
	*ret = view;
	return NULL;
}

struct order {
	const struct view *view;
	enum metric metric;
};

static int compare(const void *a, const void *b, void *context)
{
	const struct order *order = context;
	const struct row *x = &order->view->row[*(const uint32_t *)a];
	const struct row *y = &order->view->row[*(const uint32_t *)b];
	const int order_of_sums = metric_compare(order->metric, &x->sums, &y->sums);
	return order_of_sums ? order_of_sums : (x->node > y->node) - (x->node < y->node);
}

struct ht_err *view_order(const struct view *view, enum metric metric, uint32_t **ret)
{
	struct order order = {view, metric};
	*ret = malloc((view->row_count + 1) * sizeof(**ret));
	if (!*ret)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", view->row_count);
	for (size_t i = 0; i < view->row_count; i++)
		(*ret)[i] = (uint32_t)i;
	qsort_r(*ret, view->row_count, sizeof(**ret), compare, &order);
	return NULL;
}

bool view_is_filtered(const struct view *view)
{
	return view->query.alive_at || query_filters_blocks(&view->query) ||
	       query_filters_stacks(&view->query);
}

bool view_is_settled(const struct view *view)
{
	const struct analysis *analysis = view->analysis;
	return analysis->model.settle.is_there && !view->query.alive_at &&
	       view->window.to == analysis->cube.timeline.count;
}

uint64_t view_held_blocks(const struct view *view, const struct sums *sums)
{
	return view_is_settled(view) ? sums_surviving_blocks(sums) : sums_outstanding_blocks(sums);
}

uint64_t view_held_bytes(const struct view *view, const struct sums *sums)
{
	return view_is_settled(view) ? sums_surviving_bytes(sums) : sums_outstanding_bytes(sums);
}

bool view_has_skipped(const struct view *view)
{
	if (view->query.shows_wrappers)
		return false;
	for (size_t i = 0; i < view->groups.count; i++)
		if (view->groups.group[i].is_wrapper || view->groups.group[i].is_plumbing)
			return true;
	return false;
}

void view_series(const struct view *view, const struct row *row, struct window_series *ret)
{
	window_series(
		&view->analysis->cube, view->window, view->row_site + row->first, row->count, ret);
}

struct ht_err *view_rows_series(
	const struct view *view, const uint32_t *row, size_t count, struct window_series *ret)
{
	size_t sites = 0;
	for (size_t i = 0; i < count; i++)
		sites += view->row[row[i]].count;
	uint32_t *site = malloc((sites + 1) * sizeof(*site));
	if (!site)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", sites);
	sites = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < view->row[row[i]].count; k++)
			site[sites++] = view->row_site[view->row[row[i]].first + k];
	window_series(&view->analysis->cube, view->window, site, sites, ret);
	free(site);
	return NULL;
}

/* row_site holds the sites of all rows, one row after the other, so it is the list of all sites. */
void view_total_series(const struct view *view, struct window window, struct window_series *ret)
{
	const struct row *last = view->row_count ? &view->row[view->row_count - 1] : NULL;
	window_series(&view->analysis->cube, window, view->row_site,
		last ? last->first + last->count : 0, ret);
}

struct ht_err *view_own_sums(const struct view *view, const struct tree *tree, struct sums **ret)
{
	*ret = calloc(tree->count, sizeof(**ret));
	if (!*ret)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", tree->count);
	for (size_t i = 0; i < view->analysis->cube.site_count; i++)
		sums_add(&(*ret)[node_of_site(view, tree, i)], &view->sums[i]);
	return NULL;
}
