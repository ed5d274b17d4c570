/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "analyzer/ui/chain.h"
#include "analyzer/ui/page.h"

#define SITES_SHOWN 5u

static int64_t per_minute(const struct suspect *suspect)
{
	const double bytes = suspect->slope_bytes_per_s * 60;
	return bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}

/* "10 blocks", with a mark for an estimate. */
static void put_blocks(struct line *line, const struct page *page, const struct sums *sums)
{
	const uint64_t blocks = sums_outstanding_blocks(sums);
	line_put(line, "%s%s %s", page_mark(page, METRIC_OUTSTANDING), text_count(blocks).text,
		blocks == 1 ? "block" : "blocks");
}

/* Blocks of some ages, or of one moment, are no series of what a site holds. */
static bool is_judged(const struct page *page)
{
	const struct query *query = &page->view->query;
	return !query->alive_at && !query->min_age_ns && query->max_age_ns == UINT64_MAX;
}

static void put_class(struct line *line, const struct suspect *suspect)
{
	line_put(line, "  ");
	line_to(line, 60);
	if (suspect->class == SUSPECT_GROWING)
		line_styled(line, TEXT_BOLD, "%s", suspect_class_name(suspect->class));
	else
		line_put(line, "%s", suspect_class_name(suspect->class));
	if (suspect->class != SUSPECT_UNCLEAR)
		line_styled(line, TEXT_DIM, ", %.0f %% sure", suspect->confidence * 100);
}

static void write_site(const struct page *page, const struct suspects_entry *entry)
{
	const struct row *row = &page->view->row[entry->row];
	const struct suspect *suspect = &entry->suspect;
	const bool grows = is_judged(page) && suspect->class == SUSPECT_GROWING;
	struct text_number bytes = page_bytes(page, sums_outstanding_bytes(&row->sums));
	struct line line;
	line_begin(&line, page->text);
	char figure[64];
	snprintf(figure, sizeof(figure), "%s%s", page_mark(page, METRIC_OUTSTANDING), bytes.text);
	line_right(&line, figure, page->options->is_exact ? 16 : 10);
	line_put(&line, "  ");
	if (grows)
		line_styled(
			&line, TEXT_BOLD, "%s/min", page_change(page, per_minute(suspect)).text);
	else
		line_put(&line, "%s of all",
			text_percent(sums_outstanding_bytes(&row->sums),
				sums_outstanding_bytes(&page->view->total))
				.text);
	line_put(&line, "  ");
	line_to(&line, 28);
	put_blocks(&line, page, &row->sums);
	if (sums_outstanding_blocks(&row->sums))
		line_put(&line, ", oldest %s", text_time(suspect->oldest_ns).text);
	if (is_judged(page))
		put_class(&line, suspect);
	line_end(&line);
	line_begin(&line, page->text);
	line_put(&line, "    ");
	chain_put(&line, page->view, row->node, true);
	line_end(&line);
}

/* The suspects that --class leaves in. */
struct chosen {
	size_t count, growing, unclear;
	double slope;
	const struct suspect *first_unclear;
};

static struct chosen choose(const struct page *page)
{
	struct chosen ret = {0};
	for (size_t i = 0; i < page->suspects.count; i++) {
		const struct suspects_entry *entry = &page->suspects.entry[i];
		if (!page_has_row(page, entry->row))
			continue;
		ret.count++;
		if (entry->suspect.class == SUSPECT_GROWING) {
			ret.growing++;
			ret.slope += entry->suspect.slope_bytes_per_s;
		}
		if (entry->suspect.class == SUSPECT_UNCLEAR && !ret.unclear++)
			ret.first_unclear = &entry->suspect;
	}
	return ret;
}

/* The sentence without the word that it begins with. */
static const char *reason_of(const struct suspect *suspect)
{
	const char *colon = strstr(suspect->text, ": ");
	return colon ? colon + 2 : suspect->text;
}

static void write_heading(const struct page *page, const struct chosen *chosen)
{
	const struct suspect all = {.slope_bytes_per_s = chosen->slope};
	struct line line;
	line_begin(&line, page->text);
	if (!chosen->count && page->options->has_class)
		line_styled(&line, TEXT_BOLD, "No site is %s",
			suspect_class_name(page->options->of_class));
	else if (!chosen->count)
		line_styled(&line, TEXT_BOLD, "Nothing that was allocated in the window is left");
	else if (!is_judged(page))
		line_styled(&line, TEXT_BOLD, "Most of what is outstanding of the chosen blocks:");
	else if (chosen->growing)
		line_styled(&line, TEXT_BOLD, "What grows: %zu of %zu sites, %s/min%s",
			chosen->growing, page->suspects.count,
			page_change(page, per_minute(&all)).text,
			chosen->growing < SITES_SHOWN && chosen->growing < chosen->count
				? "; then the largest others"
				: "");
	else if (chosen->unclear == chosen->count)
		line_styled(
			&line, TEXT_BOLD, "Growth unclear: %s", reason_of(chosen->first_unclear));
	else
		line_styled(&line, TEXT_BOLD, "Nothing grows; most of what is outstanding:");
	line_end(&line);
}

void growth_write(const struct page *page)
{
	const struct chosen chosen = choose(page);
	size_t shown = 0;
	write_heading(page, &chosen);
	for (size_t i = 0; i < page->suspects.count && shown < SITES_SHOWN; i++) {
		if (!page_has_row(page, page->suspects.entry[i].row))
			continue;
		write_site(page, &page->suspects.entry[i]);
		shown++;
	}
}
