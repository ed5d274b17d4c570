/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/compare_text.h"

#include <inttypes.h>
#include <math.h>

#include "analyzer/ui/chain.h"

#define FIGURE_COLUMNS 11u
#define CHANGE_COLUMNS 9u  /* before the figures of a change */
#define TREND_CELLS    16u /* cells of the sparkline */

/* "+1.5 MiB", "-12", "0 B": a figure per minute, or a time. */
static struct text_number figure(enum metric metric, double value, bool is_signed)
{
	struct text_number number, ret;
	const double size = fabs(value);
	const uint64_t whole = size < 9e18 ? (uint64_t)(size + 0.5) : (uint64_t)9e18;
	switch (metric_info(metric)->unit) {
	case METRIC_BYTES:
		number = text_bytes(whole);
		break;
	case METRIC_TIME_NS:
		number = text_time(whole);
		break;
	case METRIC_COUNT_OF_BLOCKS:
	default:
		number = text_count(whole);
		break;
	}
	snprintf(ret.text, sizeof(ret.text), "%s%.38s",
		value < 0 && whole		  ? "-"
		: is_signed && value > 0 && whole ? "+"
						  : "",
		number.text);
	return ret;
}

static struct text_number bound_text(const struct text *text, double value, double bound)
{
	const bool is_shown = fabs(value) < 9e18 && bound < 9e18;
	return text_bound(text, is_shown ? llround(value) : 0, is_shown ? llround(bound) : 0);
}

#define FIGURES_MAX 3u /* figures in a line */

/* Prints the bounds of a line's figures at 95 % below them, from column `first` on; nothing if all
 * are exact. */
static void put_bounds(const struct compare_text *page, size_t first, const double *value,
	const double *bound, size_t count)
{
	struct text_number text[FIGURES_MAX];
	bool has_any = false;
	struct line line;
	for (size_t i = 0; i < count; i++) {
		text[i] = bound_text(page->text, value[i], bound[i]);
		has_any = has_any || text[i].text[0];
	}
	if (!has_any)
		return;
	line_begin(&line, page->text);
	line_to(&line, first);
	for (size_t i = 0; i < count; i++)
		line_right(&line, text[i].text, FIGURE_COLUMNS);
	line_end(&line);
}

/* Explains the lines of put_bounds. */
static void put_sample_note(const struct compare_text *page)
{
	if (compare_is_sample(page->compare))
		fputs("  figures of a sample are estimates: below each stands its bound at 95 %\n",
			page->text->out);
}

static const char *unit(enum metric metric)
{
	return compare_is_per_minute(metric) ? "/min" : "";
}

/* "old  2026-11-27 06:24:24  12.0 s  redis-server (4187)  old.htap" */
static void put_view(const struct compare_text *page, uint32_t index, const char *label)
{
	const struct view *view = page->compare->view[index];
	const struct model *model = &view->analysis->model;
	char when[TEXT_CLOCK_BYTES];
	struct line line;
	text_clock(
		model->capture.start_unix_ns + view->from_ns, page->utc, "%Y-%m-%d %H:%M:%S", when);
	line_begin(&line, page->text);
	line_put(
		&line, "  %-4s %s  %s  ", label, when, text_time(view->to_ns - view->from_ns).text);
	line_foreign(&line, model->comm ? model->comm : "?", 20);
	line_put(&line, " (%" PRIu64 ")  ", model->target.pid);
	line_foreign(&line, page->path[index], line_left(&line));
	line_end(&line);
}

static void put_site(
	const struct compare_text *page, struct line *line, const struct compare_entry *entry)
{
	const struct view *view = page->compare->view[entry->view];
	chain_put(line, view, view->row[entry->row].node, true, CHAIN_CALLERS);
}

/* --- diff --------------------------------------------------------------------------------------
 */

/* "47.8 MiB -> 40.5 MiB" */
static void put_amounts(struct line *line, const struct compare_text *page)
{
	const struct view *first = page->compare->view[0];
	const struct view *last = page->compare->view[page->compare->view_count - 1];
	line_put(line, "%s -> ",
		figure(page->metric, (double)metric_value(&first->total, page->metric), false)
			.text);
	line_put(line, "%s",
		figure(page->metric, (double)metric_value(&last->total, page->metric), false).text);
}

/* Prints the change of an entry; NULL: of all sites together. If the windows differ in length,
 * rates of the total may differ although the amounts are the same: then prints "same" and the
 * amounts. */
static void put_change(const struct compare_text *page, const struct compare_entry *entry)
{
	const struct compare *compare = page->compare;
	const enum metric metric = page->metric;
	const uint32_t last = compare->view_count - 1;
	const double before = compare_rate(compare, entry, 0, metric);
	const double after = compare_rate(compare, entry, last, metric);
	const double before_bound = compare_bound(compare, entry, 0, metric);
	const double after_bound = compare_bound(compare, entry, last, metric);
	const enum compare_change change = compare_change_of(compare, entry, metric);
	const bool is_same = !entry && change == COMPARE_SAME && fabs(after - before) > before / 10;
	const bool has_before = !entry || change != COMPARE_NEW;
	const bool has_after = !entry || change != COMPARE_GONE;
	struct line line;
	line_begin(&line, page->text);
	line_put(&line, "  %-7s", entry ? compare_change_name(change) : "total");
	line_right(&line, is_same ? "same" : figure(metric, after - before, true).text,
		FIGURE_COLUMNS);
	line_right(&line, has_before ? figure(metric, before, false).text : "-", FIGURE_COLUMNS);
	line_right(&line, has_after ? figure(metric, after, false).text : "-", FIGURE_COLUMNS);
	if (entry || is_same)
		line_put(&line, "  ");
	if (entry) {
		put_site(page, &line, entry);
	} else if (is_same) {
		put_amounts(&line, page);
		line_put(&line, ", windows differ");
	} else if (before > 0) {
		line_put(&line, "  %+.1f %%", (after - before) / before * 100);
	}
	line_end(&line);
	put_bounds(page, CHANGE_COLUMNS, (const double[]){after - before, before, after},
		(const double[]){is_same ? 0 : compare_difference_bound(before_bound, after_bound),
			has_before ? before_bound : 0, has_after ? after_bound : 0},
		3);
}

static void put_heading(const struct compare_text *page)
{
	char title[3][FIGURE_COLUMNS + 1];
	struct line line;
	snprintf(title[0], sizeof(title[0]), "change%s", unit(page->metric));
	snprintf(title[1], sizeof(title[1]), "old%s", unit(page->metric));
	snprintf(title[2], sizeof(title[2]), "new%s", unit(page->metric));
	line_begin(&line, page->text);
	line_put(&line, "  %-7s", "");
	for (size_t i = 0; i < HT_ARRAY_SIZE(title); i++)
		line_right(&line, title[i], FIGURE_COLUMNS);
	line_end(&line);
}

static const char *sites(size_t count)
{
	return count == 1 ? "site" : "sites";
}

static void put_rest(const struct compare_text *page, size_t shown, size_t changed, size_t same)
{
	FILE *out = page->text->out;
	if (changed > shown)
		fprintf(out, "  %s more %s changed; --limit 0 shows them\n",
			text_count(changed - shown).text, sites(changed - shown));
	if (same)
		fprintf(out, "  %s %s did not change by more than a tenth\n", text_count(same).text,
			sites(same));
	if (!changed && !same)
		fputs("  neither trace has a site with such figures\n", out);
}

void compare_text_diff(const struct compare_text *page)
{
	const struct compare *compare = page->compare;
	size_t shown = 0, changed = 0, same = 0;
	fprintf(page->text->out, "%s: %s\n", metric_info(page->metric)->name,
		metric_info(page->metric)->title);
	put_view(page, 0, "old");
	put_view(page, compare->view_count - 1, "new");
	put_sample_note(page);
	fputc('\n', page->text->out);
	put_heading(page);
	put_change(page, NULL);
	for (size_t i = 0; i < compare->count; i++) {
		if (compare_change_of(compare, &compare->entry[i], page->metric) == COMPARE_SAME) {
			same++;
			continue;
		}
		changed++;
		if (page->limit && shown == page->limit)
			continue;
		shown++;
		put_change(page, &compare->entry[i]);
	}
	put_rest(page, shown, changed, same);
}

/* --- trend -------------------------------------------------------------------------------------
 */

static size_t trend_columns(uint32_t count)
{
	return 2 + (count < TREND_CELLS ? count : TREND_CELLS);
}

static void put_trend(const struct compare_text *page, const struct compare_entry *entry)
{
	const struct compare *compare = page->compare;
	const uint32_t count = compare->view_count;
	uint64_t value[COMPARE_VIEWS_MAX];
	double rate[COMPARE_VIEWS_MAX];
	struct line line;
	for (uint32_t i = 0; i < count; i++) {
		rate[i] = compare_rate(compare, entry, i, page->metric);
		value[i] = rate[i] > 0 ? (uint64_t)rate[i] : 0;
	}
	line_begin(&line, page->text);
	line_put(&line, "  ");
	line_sparkline(&line, value, count, 0, TREND_CELLS);
	line_to(&line, trend_columns(count));
	line_right(&line, figure(page->metric, (double)value[0], false).text, FIGURE_COLUMNS);
	line_right(
		&line, figure(page->metric, (double)value[count - 1], false).text, FIGURE_COLUMNS);
	line_put(&line, "  ");
	if (entry)
		put_site(page, &line, entry);
	else
		line_put(&line, "total");
	line_end(&line);
	put_bounds(page, trend_columns(count), (const double[]){rate[0], rate[count - 1]},
		(const double[]){compare_bound(compare, entry, 0, page->metric),
			compare_bound(compare, entry, count - 1, page->metric)},
		2);
}

static bool is_all_zero(const struct compare_text *page, const struct compare_entry *entry)
{
	for (uint32_t i = 0; i < page->compare->view_count; i++)
		if (metric_value(compare_sums(page->compare, entry, i), page->metric))
			return false;
	return true;
}

void compare_text_trend(const struct compare_text *page)
{
	const struct compare *compare = page->compare;
	const uint32_t count = compare->view_count;
	const size_t limit = page->limit ? page->limit : compare->count;
	char label[16];
	struct line line;
	fprintf(page->text->out, "%s: %s\n", metric_info(page->metric)->name,
		metric_info(page->metric)->title);
	for (uint32_t i = 0; i < count; i++) {
		snprintf(label, sizeof(label), "%u", i + 1);
		put_view(page, i, label);
	}
	put_sample_note(page);
	fputc('\n', page->text->out);
	line_begin(&line, page->text);
	line_to(&line, trend_columns(count));
	snprintf(label, sizeof(label), "first%s", unit(page->metric));
	line_right(&line, label, FIGURE_COLUMNS);
	snprintf(label, sizeof(label), "last%s", unit(page->metric));
	line_right(&line, label, FIGURE_COLUMNS);
	line_end(&line);
	put_trend(page, NULL);
	size_t shown = 0, others = 0;
	for (size_t i = 0; i < compare->count; i++) {
		if (is_all_zero(page, &compare->entry[i]))
			continue;
		if (shown == limit) {
			others++;
			continue;
		}
		shown++;
		put_trend(page, &compare->entry[i]);
	}
	if (others)
		fprintf(page->text->out, "  %s more %s; --limit 0 shows them\n",
			text_count(others).text, sites(others));
}
