/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks repeat until two in a row agree; the result is that of the last walk.
 */
#include "attach/heap/view/walks.h"

#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define WALKS_MAX 4u
#define BUDGET	  1000u
#define UNKNOWN	  UINT64_MAX

/* The results of walks, one after the other: a digit is a valid result, '-' an invalid one. */
struct script {
	const char *next;
	char slot[2];
	uint64_t left[WALKS_MAX]; /* the budget left at each walk */
	unsigned count;
	bool is_partial;
};

static struct ht_err *walk(struct view *view, void *context, unsigned slot, bool *ret_valid)
{
	struct script *script = context;
	script->left[script->count++] = view->left;
	script->slot[slot] = *script->next++;
	*ret_valid = script->slot[slot] != '-';
	if (script->slot[slot] == 'x')
		return ht_err_new(HT_ERR_NOMEM, "no memory for a walk");
	return NULL;
}

static uint64_t moved_bytes(void *context, unsigned before, unsigned now)
{
	const struct script *script = context;
	int moved = script->slot[now] - script->slot[before];
	return (uint64_t)(moved < 0 ? -moved : moved);
}

static bool is_partial(void *context, unsigned slot)
{
	const struct script *script = context;
	(void)slot;
	return script->is_partial;
}

static const struct {
	const char *finds;
	bool is_small, is_partial;
	unsigned count; /* of walks */
	char last;	/* the last valid result; 0: there is none, or its slot was used again */
	unsigned in_row;
	uint64_t moved_bytes;
} scripts[] = {
	{"55", false, false, 2, '5', 2, 0},
	{"577", false, false, 3, '7', 3, 0},
	{"5678", false, false, 4, '8', 4, 1},
	/* A missing block may be in transit, so two equal walks are not enough. */
	{"5555", false, true, 4, '5', 4, 0},
	/* Only walks that follow each other are compared. */
	{"5-55", false, false, 4, '5', 2, 0},
	{"57-9", false, false, 4, '9', 1, UNKNOWN},
	{"5-7-", false, false, 4, '7', 0, UNKNOWN},
	/* The slot of the last valid walk was used again. */
	{"57--", false, false, 4, 0, 0, 2},
	{"----", false, false, 4, 0, 0, UNKNOWN},
	/* Small results are also compared across invalid walks. */
	{"5--5", true, false, 4, '5', 2, 0},
	{"5-7-", true, false, 4, '7', 2, 2},
	{"---5", true, false, 4, '5', 1, UNKNOWN},
};

static void take(struct script *script, bool is_small, struct walks *ret, struct ht_err **ret_err)
{
	const struct walks_how how = {
		.max = WALKS_MAX,
		.is_small = is_small,
		.walk = walk,
		.moved_bytes = moved_bytes,
		.is_partial = is_partial,
	};
	struct proc proc;
	struct view view;
	ck_no_err(proc_open(getpid(), &proc));
	ck_no_err(view_init(&view, &proc));
	view.left = BUDGET;
	*ret_err = walks_take(&view, &how, script, ret);
	ck_assert_uint_eq(view.left, BUDGET);
	ck_no_err(view_deinit(&view));
	proc_close(&proc);
}

HT_TEST(until_two_in_a_row_agree)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(scripts); i++) {
		struct script script = {
			.next = scripts[i].finds, .is_partial = scripts[i].is_partial};
		struct walks walks;
		struct ht_err *err;
		take(&script, scripts[i].is_small, &walks, &err);
		ck_no_err(err);
		char last = walks.any ? script.slot[walks.last] : 0;
		ck_assert_msg(script.count == scripts[i].count && last == scripts[i].last &&
				      walks.in_row == scripts[i].in_row &&
				      walks.moved_bytes == scripts[i].moved_bytes,
			"%s: %u walks, last '%c', %u in a row, moved %llu", scripts[i].finds,
			script.count, last, walks.in_row, (unsigned long long)walks.moved_bytes);
	}
}

HT_TEST(the_first_leaves_half_of_the_budget)
{
	struct script script = {.next = "577"};
	struct walks walks;
	struct ht_err *err;
	take(&script, false, &walks, &err);
	ck_no_err(err);
	ck_assert_uint_eq(script.left[0], BUDGET / 2);
	ck_assert_uint_eq(script.left[1], BUDGET);
	script = (struct script){.next = "55"};
	take(&script, true, &walks, &err);
	ck_no_err(err);
	ck_assert_uint_eq(script.left[0], BUDGET);
}

HT_TEST(an_error_ends_it)
{
	struct script script = {.next = "5x5"};
	struct walks walks;
	struct ht_err *err;
	take(&script, false, &walks, &err);
	ck_err(err, HT_ERR_NOMEM);
	ck_assert_uint_eq(script.count, 2);
}

HT_SUITE("attach/heap/view/walks")
