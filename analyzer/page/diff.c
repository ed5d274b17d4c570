/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/compare_json.h"
#include "analyzer/export/json.h"
#include "analyzer/export/names.h"
#include "analyzer/export/pool.h"
#include "format/array.h"

#define OLD  0u
#define NEW  1u
#define NONE UINT32_MAX

struct diff {
	struct compare *compare;
	uint32_t *site; /* by number_of an entry: its index in `listed`; NONE: not listed */
	struct compare_entry *listed; /* the sites of the page */
	uint32_t count;
	uint32_t *name_of[2]; /* by group of each view: index of a name + 1; 0: not added yet */
	struct pool names;    /* each name once, because most occur in both traces */
};

static struct ht_err *out_of_memory(void)
{
	return ht_err_new(HT_ERR_NOMEM, "out of memory for the comparison of the page");
}

/* A number of the entry that compare_sort does not change. An entry has a sum for each of the two
 * views, and `first` is the index of the first one. */
static uint32_t number_of(const struct compare_entry *entry)
{
	return entry->first / 2;
}

/* --- which sites are listed --------------------------------------------------------------------
 */

struct ranked {
	double figure;
	uint32_t at; /* index in compare->entry */
};

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->figure != y->figure)
		return x->figure > y->figure ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

static void list_first(struct diff *diff, struct ranked *ranked)
{
	const size_t count = diff->compare->count;
	qsort(ranked, count, sizeof(*ranked), compare_ranked);
	for (size_t i = 0; i < count && i < PAGE_DIFF_SITES && ranked[i].figure > 0; i++) {
		const struct compare_entry *entry = &diff->compare->entry[ranked[i].at];
		uint32_t *site = &diff->site[number_of(entry)];
		if (*site != NONE)
			continue;
		*site = diff->count;
		diff->listed[diff->count++] = *entry;
	}
}

static void list_by(struct diff *diff, enum metric metric, struct ranked *ranked)
{
	const struct compare *compare = diff->compare;
	for (unsigned changes = 0; changes < 2; changes++) {
		for (uint32_t i = 0; i < compare->count; i++) {
			const struct compare_entry *entry = &compare->entry[i];
			const double before = compare_rate(compare, entry, OLD, metric);
			const double after = compare_rate(compare, entry, NEW, metric);
			ranked[i] = (struct ranked){
				changes ? fabs(after - before) : fmax(fabs(before), fabs(after)),
				i};
		}
		list_first(diff, ranked);
	}
}

static struct ht_err *list_sites(struct diff *diff)
{
	const size_t count = diff->compare->count;
	HT_FREED struct ranked *ranked = calloc(count + 1, sizeof(*ranked));
	diff->site = malloc((count + 1) * sizeof(*diff->site));
	diff->listed = calloc(count + 1, sizeof(*diff->listed));
	if (!ranked || !diff->site || !diff->listed)
		return out_of_memory();
	for (size_t i = 0; i < count; i++)
		diff->site[i] = NONE;
	for (enum metric metric = 0; metric < METRIC_COUNT; metric++)
		list_by(diff, metric, ranked);
	return NULL;
}

/* --- names and chains --------------------------------------------------------------------------
 */

static struct ht_err *node_name(struct diff *diff, uint32_t index, uint32_t node, uint32_t *ret)
{
	const struct view *view = diff->compare->view[index];
	const uint32_t group = view->tree.node[node].group;
	char name[NAMES_BYTES];
	if (group != UINT32_MAX && diff->name_of[index][group]) {
		*ret = diff->name_of[index][group] - 1;
		return NULL;
	}
	names_node(view, node, name);
	HT_TRY(pool_number(&diff->names, name, ret));
	if (group != UINT32_MAX)
		diff->name_of[index][group] = *ret + 1;
	return NULL;
}

/* Names of the chain, the innermost first, then the file and the line where it begins. */
static struct ht_err *site_json(struct diff *diff, const struct compare_entry *entry, json_t **ret)
{
	const struct view *view = diff->compare->view[entry->view];
	const uint32_t leaf = view->row[entry->row].node;
	const struct frame *frame = names_frame_of(view, leaf);
	json_t *chain = json_array();
	struct ht_err *err = NULL;
	uint32_t at = leaf;
	do {
		uint32_t name = 0;
		err = node_name(diff, entry->view, at, &name);
		chain = json_plus(chain, json_number(name));
		at = view->tree.node[at].parent;
	} while (at && !err);
	*ret = json_pack("[ooo]", chain, json_text(frame ? frame->file : NULL),
		json_number(frame ? frame->line : 0));
	if (err || *ret)
		return err;
	return out_of_memory();
}

static struct ht_err *sites_json(struct diff *diff, json_t **ret)
{
	struct ht_err *err = NULL;
	*ret = json_array();
	for (uint32_t i = 0; i < 2; i++) {
		const size_t groups = diff->compare->view[i]->groups.count + 1;
		diff->name_of[i] = calloc(groups, sizeof(*diff->name_of[i]));
		if (!diff->name_of[i])
			err = out_of_memory();
	}
	for (uint32_t i = 0; i < diff->count && !err; i++) {
		json_t *site = NULL;
		err = site_json(diff, &diff->listed[i], &site);
		*ret = json_plus(*ret, site);
	}
	return err || *ret ? err : out_of_memory();
}

/* --- figures -----------------------------------------------------------------------------------
 */

static json_t *figure_json(double figure)
{
	return json_integer((json_int_t)llround(figure));
}

/* The sum of the sites that are not listed; null for a metric that is a mean. */
static json_t *others_json(const struct diff *diff, enum metric metric, uint32_t view)
{
	double sum = 0;
	for (size_t i = 0; i < diff->compare->count; i++) {
		const struct compare_entry *entry = &diff->compare->entry[i];
		if (diff->site[number_of(entry)] == NONE)
			sum += compare_rate(diff->compare, entry, view, metric);
	}
	return metric_info(metric)->unit == METRIC_TIME_NS ? json_null() : figure_json(sum);
}

/* Adds the variances of the figures, by site, and of the totals; the page adds up variances of
 * sites. */
static json_t *with_variances(json_t *object, const struct diff *diff, enum metric metric)
{
	static const char *const name[] = {"old_variance", "new_variance"};
	const struct compare *compare = diff->compare;
	json_t *total = json_array();
	for (uint32_t k = 0; k < HT_ARRAY_SIZE(name); k++) {
		json_t *variances = json_array();
		for (uint32_t i = 0; i < diff->count; i++)
			variances = json_plus(variances,
				json_real(compare_variance(compare, &diff->listed[i], k, metric)));
		object = json_with(object, name[k], variances);
		total = json_plus(total, json_real(compare_variance(compare, NULL, k, metric)));
	}
	return json_with(object, "total_variance", total);
}

static json_t *metric_json(const struct diff *diff, enum metric metric)
{
	const struct compare *compare = diff->compare;
	json_t *change = json_array(), *figures[2] = {json_array(), json_array()};
	for (uint32_t i = 0; i < diff->count; i++) {
		const struct compare_entry *entry = &diff->listed[i];
		change = json_plus(change, json_integer(compare_change_of(compare, entry, metric)));
		for (uint32_t k = 0; k < 2; k++)
			figures[k] = json_plus(
				figures[k], figure_json(compare_rate(compare, entry, k, metric)));
	}
	json_t *object =
		json_pack("{sb s[oo] s[oo] so so so}", "per_minute", compare_is_per_minute(metric),
			"total", figure_json(compare_rate(compare, NULL, OLD, metric)),
			figure_json(compare_rate(compare, NULL, NEW, metric)), "others",
			others_json(diff, metric, OLD), others_json(diff, metric, NEW), "change",
			change, "old", figures[OLD], "new", figures[NEW]);
	return compare_is_sample(compare) ? with_variances(object, diff, metric) : object;
}

static json_t *metrics_json(const struct diff *diff)
{
	json_t *object = json_object();
	for (enum metric i = 0; i < METRIC_COUNT; i++)
		object = json_with(object, metric_info(i)->name, metric_json(diff, i));
	return object;
}

static json_t *changes_json(void)
{
	json_t *array = json_array();
	for (enum compare_change i = COMPARE_NEW; i <= COMPARE_SAME; i++)
		array = json_plus(array, json_string(compare_change_name(i)));
	return array;
}

static json_t *names_json(const struct diff *diff)
{
	json_t *array = json_array();
	for (size_t i = 0; i < diff->names.count; i++)
		array = json_plus(array, json_text(diff->names.text[i]));
	return array;
}

static void deinit(struct diff *diff)
{
	free(diff->site);
	free(diff->listed);
	free(diff->name_of[OLD]);
	free(diff->name_of[NEW]);
	pool_deinit(&diff->names);
}

struct ht_err *page_diff_json(struct compare *compare, const char *const path[2], json_t **ret)
{
	struct diff diff = {.compare = compare};
	json_t *sites = NULL;
	*ret = NULL;
	compare_sort(compare, METRIC_OUTSTANDING);
	struct ht_err *err = list_sites(&diff);
	HT_THEN(err, sites_json(&diff, &sites));
	if (!err) {
		*ret = json_pack("{so so so so sO so}", "traces",
			compare_json_traces(compare, path), "sites_total",
			json_number(compare->count), "changes", changes_json(), "names",
			names_json(&diff), "sites", sites, "metrics", metrics_json(&diff));
		err = *ret ? NULL : out_of_memory();
	}
	json_decref(sites);
	deinit(&diff);
	return err;
}
