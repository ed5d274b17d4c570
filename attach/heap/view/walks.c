/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/view/walks.h"

static void note_valid(
	struct walks *walks, const struct walks_how *how, void *context, unsigned slot)
{
	walks->in_row++;
	walks->moved_bytes =
		walks->in_row >= 2 ? how->moved_bytes(context, slot ^ 1, slot) : UINT64_MAX;
	walks->any = true;
	walks->last = slot;
}

static void note_invalid(struct walks *walks, unsigned slot)
{
	walks->in_row = 0;
	if (walks->last == slot)
		walks->any = false;
}

struct ht_err *walks_take(
	struct view *view, const struct walks_how *how, void *context, struct walks *ret)
{
	bool is_settled = false;
	unsigned slot = 0;
	*ret = (struct walks){.moved_bytes = UINT64_MAX};
	for (unsigned i = 0; i < how->max && !is_settled && !view->spent; i++) {
		bool valid;
		uint64_t kept = i || how->is_small ? 0 : view->left / 2;
		view->left -= kept;
		struct ht_err *err = how->walk(view, context, slot, &valid);
		view->left += kept;
		if (err)
			return err;
		if (!valid && !view->spent)
			view_pause(view);
		if (!valid && how->is_small)
			continue;
		if (valid)
			note_valid(ret, how, context, slot);
		else
			note_invalid(ret, slot);
		is_settled = valid && !ret->moved_bytes &&
			     !(how->is_partial && how->is_partial(context, slot));
		slot ^= 1;
	}
	return NULL;
}
