/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/tap.h"

static struct ht_err *hook_code(
	struct tap *tap, const struct patch *patch, struct entry *entry, bool *ret_done)
{
	struct ht_err *err = patch_code(patch, &entry->code, tap->journal, ret_done);
	if (!err && !*ret_done)
		err = ht_err_new(
			HT_ERR_REFUSED, "the code of %s changed during the attach", entry->name);
	entry->tapped = !err;
	return err;
}

static struct ht_err *tap_row(
	struct tap *tap, const struct patch *patch, const struct taps_row *row)
{
	raddr_t thunk;
	bool done;
	HT_TRY(image_thunk(tap->image, &row->thunk, &thunk));
	if (row->entry)
		entries_write_pad(tap->entries, row->entry, tap->image, thunk);
	HT_TRY(image_enable(tap->image, tap->elf, thunk));
	struct ht_err *err =
		row->entry ? hook_code(tap, patch, row->entry, &done)
			   : patch_tap(patch, row->module, row->slot, thunk, tap->journal, &done);
	tap->tapped += !err && done && !abi_is_guard(row->thunk.hook);
	return err;
}

/* A slot without room does not end the turn. An entry that cannot be hooked does: entries come
 * before all slots. */
static struct ht_err *tap_turn(
	struct tap *tap, const struct patch *patch, const struct taps *taps, enum taps_turn turn)
{
	struct ht_err *refused = NULL;

	for (size_t i = 0; i < taps->count; i++) {
		const struct taps_row *row = &taps->row[i];
		if (row->turn != turn || row->why != TAPS_WANTED)
			continue;
		struct ht_err *err = tap_row(tap, patch, row);
		if (err && (row->entry || err->code != HT_ERR_REFUSED))
			return ht_err_first(err, refused);
		tap->left += err != NULL;
		refused = ht_err_first(refused, err);
	}
	return refused;
}

static bool is_serious(const struct ht_err *err)
{
	return err && err->code != HT_ERR_REFUSED;
}

static struct ht_err *tap_all(struct tap *tap, const struct patch *patch, const struct taps *taps)
{
	struct ht_err *err = NULL;

	for (enum taps_turn turn = 0; turn < TAPS_TURNS && !is_serious(err); turn++) {
		struct ht_err *more = tap_turn(tap, patch, taps, turn);
		if (turn == TAPS_GUARDS && !is_serious(more))
			more = ht_err_first(tap->guarded(tap->context), more);
		err = is_serious(more) ? ht_err_first(more, err) : ht_err_first(err, more);
	}
	return err;
}

struct ht_err *tap_slots(struct tap *tap)
{
	struct taps taps;
	struct patch patch;
	struct ht_err *err = taps_plan(tap->survey, tap->entries, tap->follow, &taps);

	HT_THEN(err, patch_begin(&tap->survey->proc, &patch));
	if (!err) {
		tap->left = 0;
		patch_forget_unloaded(&patch, tap->journal);
		err = tap_all(tap, &patch, &taps);
		patch_end(&patch);
	}
	taps_deinit(&taps);
	return err;
}
