/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/inlined.h"

#include <stdlib.h>

#define CALLERS_MAX 8u	  /* longest chain of functions inlined into each other */
#define PAIRS_MAX   4096u /* limit of pairs whose times are compared */
/* least allocations of each site: a function must run often before it is optimised */
#define BLOCKS_LEAST 16.0
/* most allocations of both sites in the same buckets, as a share of the smaller site's */
#define OVERLAP 0.05

/* The rows in which one function of a script allocates through one native function. */
struct site {
	uint32_t group, script;	 /* groups */
	uint32_t first, count;	 /* search->row[first...] */
	const struct site *into; /* the caller's site, which this site joins; NULL: none */
};

struct search {
	const struct view *view;
	const uint32_t *script;
	struct callers_key *key;
	uint32_t *row;
	struct site *site;
	size_t row_count, site_count, pairs;
	struct window_series series[2];
};

static int compare_words(uint32_t a, uint32_t b)
{
	return (a > b) - (a < b);
}

static int compare_sites(const void *a, const void *b)
{
	const struct site *x = a, *y = b;
	const int order = compare_words(x->group, y->group);
	return order ? order : compare_words(x->script, y->script);
}

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct search *search = context;
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct callers_key *p = &search->key[search->view->row[x].node];
	const struct callers_key *q = &search->key[search->view->row[y].node];
	const struct site one = {.group = p->group, .script = p->script};
	const struct site other = {.group = q->group, .script = q->script};
	const int order = compare_sites(&one, &other);
	return order ? order : compare_words(x, y);
}

static void find_sites(struct search *search)
{
	for (uint32_t i = 0; i < search->view->row_count; i++)
		if (search->key[search->view->row[i].node].script != UINT32_MAX)
			search->row[search->row_count++] = i;
	if (search->row_count)
		qsort_r(search->row, search->row_count, sizeof(*search->row), compare_rows, search);
	for (uint32_t i = 0; i < search->row_count; i++) {
		const struct callers_key *key =
			&search->key[search->view->row[search->row[i]].node];
		struct site *last = &search->site[search->site_count];
		if (!i || last[-1].group != key->group || last[-1].script != key->script)
			search->site[search->site_count++] =
				(struct site){key->group, key->script, i, 0, NULL};
		search->site[search->site_count - 1].count++;
	}
}

/* Whether two sites hardly ever allocate in the same bucket, so that one may have replaced the
 * other. */
static struct ht_err *take_turns(
	struct search *search, const struct site *a, const struct site *b, bool *ret)
{
	struct window_series *x = &search->series[0], *y = &search->series[1];
	double both = 0, of_x = 0, of_y = 0;
	HT_TRY(view_rows_series(search->view, search->row + a->first, a->count, x));
	HT_TRY(view_rows_series(search->view, search->row + b->first, b->count, y));
	for (uint32_t i = 0; i < x->count; i++) {
		const double p = (double)x->allocated_blocks[i], q = (double)y->allocated_blocks[i];
		both += p < q ? p : q;
		of_x += p;
		of_y += q;
	}
	const double least = of_x < of_y ? of_x : of_y;
	*ret = least >= BLOCKS_LEAST && both <= OVERLAP * least;
	return NULL;
}

/* Finds the site of the nearest calling script function for which take_turns holds. */
static struct ht_err *find_caller(struct search *search, struct site *site)
{
	const struct tree_node *node = search->view->tree.node;
	const uint32_t inner = search->script[search->view->row[search->row[site->first]].node];
	uint32_t at = inner;
	for (unsigned i = 0; i < CALLERS_MAX; i++) {
		at = search->script[node[at].parent];
		if (!at)
			return NULL;
		const struct site wanted = {.group = site->group, .script = node[at].group};
		const struct site *caller = bsearch(&wanted, search->site, search->site_count,
			sizeof(*search->site), compare_sites);
		bool is_one = false;
		if (!caller || caller == site)
			continue;
		if (search->pairs++ >= PAIRS_MAX)
			return NULL;
		HT_TRY(take_turns(search, site, caller, &is_one));
		if (!is_one)
			continue;
		site->into = caller;
		return NULL;
	}
	return NULL;
}

/* Bounded, because functions that call each other may form a cycle. */
static void join(struct search *search, const struct site *site)
{
	const struct site *into = site->into;
	for (unsigned i = 0; into && into->into && i < CALLERS_MAX; i++)
		into = into->into;
	for (uint32_t i = 0; into && i < site->count; i++)
		search->key[search->view->row[search->row[site->first + i]].node].script =
			into->script;
}

struct ht_err *inlined_join(
	const struct view *view, const uint32_t *script, struct callers_key *key)
{
	struct search *search = calloc(1, sizeof(*search));
	struct ht_err *err = NULL;
	if (!search)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for sites");
	search->view = view;
	search->script = script;
	search->key = key;
	search->row = calloc(view->row_count + 1, sizeof(*search->row));
	search->site = calloc(view->row_count + 1, sizeof(*search->site));
	if (!search->row || !search->site)
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", view->row_count);
	else
		find_sites(search);
	for (size_t i = 0; i < search->site_count && !err; i++)
		err = find_caller(search, &search->site[i]);
	for (size_t i = 0; i < search->site_count && !err; i++)
		join(search, &search->site[i]);
	free(search->row);
	free(search->site);
	free(search);
	return err;
}
