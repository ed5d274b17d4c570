/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/linger_plan.h"

void linger_page_note(struct linger_page *page, const struct escape_found *found)
{
	page->place_count = 0;
	for (size_t i = 0; i < found->count && i < LINGER_PLACES_MAX; i++)
		page->place[page->place_count++] = found->place[i];
}

void linger_plan_add(struct linger_plan *plan, pid_t pid, uint64_t start_ticks, raddr_t page,
	const struct escape_found *found)
{
	if (plan->count == LINGER_PAGES_MAX)
		return;
	struct linger_page *ret = &plan->page[plan->count++];
	*ret = (struct linger_page){.pid = pid, .start_ticks = start_ticks, .page = page};
	if (found)
		linger_page_note(ret, found);
}

_Static_assert(LINGER_PLACES_MAX <= ESCAPE_PLACES_MAX, "a search tells as many");
