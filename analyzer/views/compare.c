/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/array.h"

#define NS_PER_MINUTE 60e9

void compare_deinit(struct compare *compare)
{
	free(compare->entry);
	free(compare->sums);
	map_deinit(&compare->by_chain);
	*compare = (struct compare){0};
}

/* --- chains by name ----------------------------------------------------------------------------
 */

/* FNV-1a, 64 bit (Fowler, Noll, Vo). */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * 0x100000001b3ull;
	return hash;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return text ? hash_bytes(hash, text, strlen(text) + 1) : hash_bytes(hash, "\1", 2);
}

/* The path of a file differs from build to build; its last part stays. */
static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash && slash[1] ? slash + 1 : path;
}

static uint64_t hash_frame(uint64_t hash, const struct view *view, const struct frame *frame)
{
	const char *module =
		frame->module == MODULES_NONE
			? NULL
			: base_name(view->analysis->model.modules.module[frame->module].path);
	hash = hash_text(hash, frame->function);
	hash = hash_text(hash, frame->file ? base_name(frame->file) : module);
	return frame->function ? hash : hash_bytes(hash, &frame->offset, sizeof(frame->offset));
}

static uint64_t hash_chain(const struct view *view, uint32_t node)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	for (uint32_t at = node; at; at = view->tree.node[at].parent) {
		const uint32_t group = view->tree.node[at].group;
		if (group == UINT32_MAX)
			hash = hash_text(hash, "other");
		else
			hash = hash_frame(
				hash, view, &view->frames.frame[view->groups.group[group].frame]);
	}
	return hash;
}

/* --- entries -----------------------------------------------------------------------------------
 */

static struct ht_err *find_entry(struct compare *compare, uint64_t chain, uint32_t *ret)
{
	if (map_get(&compare->by_chain, chain, ret))
		return NULL;
	const size_t first = compare->count * compare->view_count;
	struct ht_err *err = array_reserve(&compare->entry, &compare->capacity, compare->count + 1,
		sizeof(*compare->entry), "sites");
	if (!err)
		err = array_reserve(&compare->sums, &compare->sums_capacity,
			first + compare->view_count, sizeof(*compare->sums), "sites");
	if (err)
		return err;
	*ret = (uint32_t)compare->count++;
	compare->entry[*ret] = (struct compare_entry){.first = (uint32_t)first};
	return map_put(&compare->by_chain, chain, *ret);
}

static struct ht_err *add_view(struct compare *compare, uint32_t index)
{
	const struct view *view = compare->view[index];
	for (uint32_t i = 0; i < view->row_count; i++) {
		uint32_t at;
		struct ht_err *err = find_entry(compare, hash_chain(view, view->row[i].node), &at);
		if (err)
			return err;
		struct compare_entry *entry = &compare->entry[at];
		entry->view = index;
		entry->row = i;
		sums_add(&compare->sums[entry->first + index], &view->row[i].sums);
	}
	return NULL;
}

struct ht_err *compare_init(
	struct compare *compare, const struct view *const *view, uint32_t view_count)
{
	struct ht_err *err = NULL;
	*compare = (struct compare){.view = view, .view_count = view_count};
	for (uint32_t i = 0; i < view_count && !err; i++)
		err = add_view(compare, i);
	if (err)
		compare_deinit(compare);
	return err;
}

/* --- changes -----------------------------------------------------------------------------------
 */

static double per_minute(const struct view *view, const struct sums *sums, enum metric metric)
{
	const double value = (double)metric_value(sums, metric);
	const uint64_t length_ns = view->to_ns - view->from_ns;
	if (metric_info(metric)->unit == METRIC_TIME_NS || !length_ns)
		return value;
	return value / ((double)length_ns / NS_PER_MINUTE);
}

double compare_rate(const struct compare *compare, const struct compare_entry *entry, uint32_t view,
	enum metric metric)
{
	return per_minute(compare->view[view], compare_sums(compare, entry, view), metric);
}

double compare_total_rate(const struct compare *compare, uint32_t view, enum metric metric)
{
	return per_minute(compare->view[view], &compare->view[view]->total, metric);
}

static double change_of(
	const struct compare *compare, const struct compare_entry *entry, enum metric metric)
{
	return compare_rate(compare, entry, compare->view_count - 1, metric) -
	       compare_rate(compare, entry, 0, metric);
}

enum compare_change compare_change_of(
	const struct compare *compare, const struct compare_entry *entry, enum metric metric)
{
	const uint32_t last = compare->view_count - 1;
	const double before = compare_rate(compare, entry, 0, metric);
	const double after = compare_rate(compare, entry, last, metric);
	const double all =
		compare_total_rate(compare, 0, metric) + compare_total_rate(compare, last, metric);
	if (fabs(after - before) <= all / 1000)
		return COMPARE_SAME;
	if (before <= 0)
		return COMPARE_NEW;
	if (after <= 0)
		return COMPARE_GONE;
	if (after > before * 1.1)
		return COMPARE_GROWN;
	return before > after * 1.1 ? COMPARE_SHRUNK : COMPARE_SAME;
}

const char *compare_change_name(enum compare_change change)
{
	static const char *const name[] = {
		[COMPARE_NEW] = "new",
		[COMPARE_GROWN] = "grown",
		[COMPARE_SHRUNK] = "shrunk",
		[COMPARE_GONE] = "gone",
		[COMPARE_SAME] = "same",
	};
	return name[change];
}

struct order {
	const struct compare *compare;
	enum metric metric;
};

static int compare_entries(const void *a, const void *b, void *context)
{
	const struct order *order = context;
	const struct compare_entry *x = a, *y = b;
	const double cx = change_of(order->compare, x, order->metric);
	const double cy = change_of(order->compare, y, order->metric);
	if (cx != cy)
		return cx > cy ? -1 : 1;
	const double rx = compare_rate(order->compare, x, 0, order->metric);
	const double ry = compare_rate(order->compare, y, 0, order->metric);
	if (rx != ry)
		return rx > ry ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

void compare_sort(struct compare *compare, enum metric metric)
{
	struct order order = {compare, metric};
	qsort_r(compare->entry, compare->count, sizeof(*compare->entry), compare_entries, &order);
}
