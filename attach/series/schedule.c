/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/series/schedule.h"

uint64_t schedule_next(struct schedule *schedule, uint64_t now_ns, uint64_t *ret_missed)
{
	*ret_missed = 0;
	if (schedule->begun >= schedule->count)
		return SCHEDULE_OVER;
	uint64_t next_ns = schedule->first_ns;
	if (schedule->begun && schedule->every_ns) {
		next_ns = schedule->last_ns + schedule->every_ns;
		if (next_ns < now_ns) {
			*ret_missed =
				(now_ns - next_ns + schedule->every_ns - 1) / schedule->every_ns;
			next_ns += *ret_missed * schedule->every_ns;
		}
	} else if (schedule->begun) {
		next_ns = now_ns;
	}
	schedule->begun++;
	schedule->last_ns = next_ns;
	return next_ns;
}
