/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "analyzer/ui/chain.h"
#include "analyzer/ui/page.h"

#define SITES_SHOWN  5u
#define CLASS_COLUMN 60u

static int64_t per_minute(const struct suspect *suspect)
{
	const double bytes = suspect->slope_bytes_per_s * 60;
	return bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}

/* "10 blocks", with a mark for an estimate. */
static void put_blocks(struct line *line, const struct page *page, const struct sums *sums)
{
	const uint64_t blocks = view_held_blocks(page->view, sums);
	line_put(line, "%s%s %s", page_mark(page, METRIC_OUTSTANDING), text_count(blocks).text,
		blocks == 1 ? "block" : "blocks");
}

/* Whether sites are classified. A filter by age or moment makes the series of live bytes
 * meaningless. */
static bool is_judged(const struct page *page)
{
	const struct query *query = &page->view->query;
	return !query->alive_at && !query->min_age_ns && query->max_age_ns == UINT64_MAX;
}

static void put_class(struct line *line, const struct suspect *suspect)
{
	line_put(line, "  ");
	line_to(line, CLASS_COLUMN);
	if (suspect->class == SUSPECT_GROWING)
		line_styled(line, TEXT_BOLD, "%s", suspect_class_name(suspect->class));
	else
		line_put(line, "%s", suspect_class_name(suspect->class));
	if (suspect->class != SUSPECT_UNCLEAR && suspect->class != SUSPECT_SURVIVOR)
		line_styled(line, TEXT_DIM, ", %.0f %% sure", suspect->confidence * 100);
}

/* For a site with one chain: as many callers as fit; with several: the caller that they share. */
static void write_chain(const struct page *page, const struct suspects_entry *site)
{
	const uint32_t node = page->view->row[site->row].node;
	char chains[32] = "";
	struct text narrow = *page->text;
	struct line line;
	if (site->chains > 1)
		snprintf(chains, sizeof(chains), ", %zu chains", site->chains);
	if (narrow.columns > 2 * sizeof(chains))
		narrow.columns -= (unsigned)strlen(chains);
	line_begin(&line, page->text);
	line_put(&line, "    ");
	line.text = &narrow;
	chain_put(&line, page->view, node, true, site->chains > 1 ? 1 : CHAIN_CALLERS);
	line.text = page->text;
	line_styled(&line, TEXT_DIM, "%s", chains);
	line_end(&line);
}

static void write_site(const struct page *page, const struct suspects_entry *site)
{
	const struct suspect *suspect = &site->suspect;
	const uint64_t bytes = site->held_bytes;
	const bool grows = is_judged(page) && suspect->class == SUSPECT_GROWING;
	struct line line;
	line_begin(&line, page->text);
	line_right(&line, page_marked(page, METRIC_OUTSTANDING, page_bytes(page, bytes)).text,
		page->options->is_exact ? 16 : 10);
	page_put_bound(page, &line, &site->sums,
		view_is_settled(page->view) ? METRIC_SURVIVORS : METRIC_OUTSTANDING);
	line_put(&line, "  ");
	if (grows)
		line_styled(
			&line, TEXT_BOLD, "%s/min", page_change(page, per_minute(suspect)).text);
	else
		line_put(&line, "%s of all",
			text_percent(bytes, view_held_bytes(page->view, &page->view->total)).text);
	line_put(&line, "  ");
	line_to(&line, 28);
	put_blocks(&line, page, &site->sums);
	const struct text_number oldest = text_time(suspect->oldest_ns);
	if (view_held_blocks(page->view, &site->sums) &&
		line.columns + strlen(oldest.text) + 11 <= CLASS_COLUMN)
		line_put(&line, ", oldest %s", oldest.text);
	if (is_judged(page))
		put_class(&line, suspect);
	line_end(&line);
	write_chain(page, site);
}

/* --- the heading -------------------------------------------------------------------------------
 */

/* The sites that the options choose. */
struct found {
	size_t count, growing, survivors;
	uint64_t bytes, unclear_bytes;
	double slope;
	const struct suspect *unclear; /* the unclear finding with most held bytes */
};

static void add(struct found *found, const struct suspects_entry *site)
{
	const struct suspect *suspect = &site->suspect;
	found->count++;
	found->bytes += site->held_bytes;
	found->growing += suspect->class == SUSPECT_GROWING;
	found->survivors += suspect->class == SUSPECT_SURVIVOR;
	found->slope += suspect->slope_bytes_per_s;
	if (suspect->class != SUSPECT_UNCLEAR)
		return;
	found->unclear_bytes += site->held_bytes;
	if (!found->unclear)
		found->unclear = suspect;
}

/* The reason without its first word. */
static const char *reason_of(const struct suspect *suspect)
{
	const char *colon = strstr(suspect->text, ": ");
	return colon ? colon + 2 : suspect->text;
}

static void put_moment(struct line *line, const char *moment)
{
	line_styled(line, TEXT_BOLD, "Most of what was live at ");
	line_foreign_styled(line, TEXT_BOLD, moment, 30);
	line_styled(line, TEXT_BOLD, " and still is:");
}

static void write_heading(const struct page *page, const struct found *found)
{
	const struct suspect all = {.slope_bytes_per_s = found->slope};
	struct line line;
	line_begin(&line, page->text);
	if (!found->count && page->options->has_class)
		line_styled(&line, TEXT_BOLD, "No site is %s",
			suspect_class_name(page->options->of_class));
	else if (!found->count)
		line_styled(&line, TEXT_BOLD, "Nothing that was allocated in the window is left%s",
			view_is_settled(page->view) ? " after it settled" : "");
	else if (page->view->query.alive_at)
		put_moment(&line, page->view->query.alive_at);
	else if (!is_judged(page))
		line_styled(&line, TEXT_BOLD, "Most of what is outstanding of the chosen blocks:");
	else if (page->options->has_class && page->options->of_class != SUSPECT_GROWING)
		line_styled(&line, TEXT_BOLD, "%zu %s: %s", found->count,
			found->count == 1 ? "site" : "sites",
			suspect_class_name(page->options->of_class));
	else if (found->growing)
		line_styled(&line, TEXT_BOLD, "What grows: %zu of %zu sites, %s/min%s",
			found->growing, found->count, page_change(page, per_minute(&all)).text,
			found->growing < SITES_SHOWN - view_is_settled(page->view) &&
					found->growing < found->count
				? "; then the largest others"
				: "");
	else if (found->unclear && found->unclear_bytes > found->bytes / 2)
		line_styled(&line, TEXT_BOLD, "Growth unclear: %s", reason_of(found->unclear));
	else
		line_styled(&line, TEXT_BOLD, "%s; most of what is %s:",
			found->survivors ? "Growth is not proven" : "Nothing grows",
			view_is_settled(page->view) ? "held after the window" : "outstanding");
	line_end(&line);
}

void growth_write(const struct page *page)
{
	const struct page_options *options = page->options;
	const struct suspects *suspects = &page->suspects;
	const struct suspects_entry *shown[SITES_SHOWN];
	/* With a settle time the screen has one more line of figures, so there is room for one site
	 * less. */
	const size_t most = SITES_SHOWN - view_is_settled(page->view);
	struct found found = {0};
	for (size_t i = 0; i < suspects->count; i++) {
		const struct suspects_entry *site = &suspects->entry[i];
		if (options->has_class && site->suspect.class != options->of_class)
			continue;
		if (found.count < most)
			shown[found.count] = site;
		add(&found, site);
	}
	write_heading(page, &found);
	for (size_t i = 0; i < found.count && i < most; i++)
		write_site(page, shown[i]);
}
