/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/judge.h"

#include <libunwind-ptrace.h>

#define FRAMES_MAX 20000u

/* Where nothing is known of a function libunwind guesses, by rbp, and what it passes over then may
 * be ours: a static program need not have a table that it finds. */
static bool is_known(unw_cursor_t *cursor, unw_word_t ip)
{
	unw_proc_info_t info;
	return unw_get_proc_info(cursor, &info) == 0 &&
	       !(info.start_ip == ip && info.end_ip == ip + 1);
}

static enum judge_result walk(unw_cursor_t *cursor, const struct stackscan_ranges *ranges)
{
	bool called = false;
	for (unsigned i = 0; i < FRAMES_MAX; i++) {
		unw_word_t ip;
		if (unw_get_reg(cursor, UNW_REG_IP, &ip) < 0)
			return JUDGE_UNDECIDED;
		if (called ? stackscan_is_return(ranges, ip) : stackscan_ours(ranges, ip))
			return JUDGE_INSIDE;
		if (!is_known(cursor, ip))
			return JUDGE_UNDECIDED;
		called = unw_is_signal_frame(cursor) <= 0;
		int step = unw_step(cursor);
		if (step == 0)
			return JUDGE_OUTSIDE;
		if (step < 0)
			return JUDGE_UNDECIDED;
	}
	return JUDGE_UNDECIDED;
}

enum judge_result judge_frames(pid_t tid, const struct stackscan_ranges *ranges)
{
	enum judge_result result = JUDGE_UNDECIDED;
	unw_addr_space_t space = unw_create_addr_space(&_UPT_accessors, 0);
	void *info = space ? _UPT_create(tid) : NULL;
	unw_cursor_t cursor;

	if (info && unw_init_remote(&cursor, space, info) == 0)
		result = walk(&cursor, ranges);
	if (info)
		_UPT_destroy(info);
	if (space)
		unw_destroy_addr_space(space);
	return result;
}
