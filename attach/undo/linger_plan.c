/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/linger_plan.h"

void linger_plan_add(struct linger_plan *plan, pid_t pid, uint64_t start_ticks, raddr_t page,
	const struct escape_found *found)
{
	if (plan->count == LINGER_PAGES_MAX)
		return;
	struct linger_page *ret = &plan->page[plan->count++];
	*ret = (struct linger_page){.pid = pid, .start_ticks = start_ticks, .page = page};
	for (size_t i = 0; found && i < found->count && i < LINGER_PLACES_MAX; i++)
		ret->place[ret->place_count++] = found->place[i];
}

_Static_assert(LINGER_PLACES_MAX <= ESCAPE_PLACES_MAX, "a search tells as many");
