/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences about a whole trace: how it ended, how the process was left, notes for exports.
 */
#include <stdio.h>

#include "analyzer/model/model.h"
#include "format/quantity.h"

const char *model_ended(const struct model *model)
{
	if (model->has_end)
		return rec_end_name(model->end.reason);
	return model->is_growing ? "running" : "truncated";
}

void model_left_text(const struct model *model, char text[MODEL_LEFT_BYTES])
{
	static const char *const says[] = {
		[REC_LEFT_UNCHANGED] =
			"unchanged: mappings, descriptors, allocator addresses, code, "
			"threads and signals are as before the capture",
		[REC_LEFT_PAGE] = "unchanged, but for one harmless page of 4 KiB",
		[REC_LEFT_CODE] =
			"heaptap's code was left in the process, where it only forwards calls",
		[REC_LEFT_DIFFERS] =
			"heaptap left nothing in the process, but something differs from "
			"before the capture",
		[REC_LEFT_ENDED] = "the process had ended",
	};
	if (!model->has_left)
		snprintf(text, MODEL_LEFT_BYTES, "%s",
			model->is_growing ? "the capture still runs"
			: model->has_end && model->end.reason == REC_END_SNAPSHOT
				? "the capture went on"
			: model->has_end
				? "the trace does not say how the process was left"
				: "the trace does not say how the process was left: it has no end");
	else
		snprintf(text, MODEL_LEFT_BYTES, "%s%s%s", says[model->left],
			model->left_why ? ": " : "", model->left_why ? model->left_why : "");
}

bool model_note(const struct model *model, size_t index, char text[MODEL_NOTE_BYTES])
{
	const struct model_settle *settle = &model->settle;
	char span[QUANTITY_TEXT_BYTES];
	if (index < model->pause_count)
		snprintf(text, MODEL_NOTE_BYTES,
			"paused from +%.3f s to +%.3f s: new allocations were not recorded",
			(double)model->pause[index].begin_ns / 1e9,
			(double)model->pause[index].end_ns / 1e9);
	else if (index == model->pause_count && settle->is_there)
		snprintf(text, MODEL_NOTE_BYTES,
			"settled for %.3f s after the window: its frees are not in this file",
			(double)model_settle_ns(settle) / 1e9);
	else if (index == model->pause_count + settle->is_there && model->capture.cull_ns)
		snprintf(text, MODEL_NOTE_BYTES,
			"of blocks that lived less than %s the trace has only sums (attach --cull)",
			quantity_duration_text(model->capture.cull_ns, span));
	else
		return false;
	return true;
}

struct model_ending model_ending(const struct model *model)
{
	return (struct model_ending){.how_ended = model->how_ended,
		.is_growing = model->is_growing,
		.has_end = model->has_end,
		.problem = model->problem};
}

bool model_ending_text(const struct model_ending *ending, char text[MODEL_ENDING_BYTES])
{
	const char *says = "";
	switch (ending->how_ended) {
	case TRACE_TRUNCATED:
		if (ending->is_growing)
			says = "the capture still runs: this is what it has written so far";
		else if (ending->has_end)
			says = "the trace is cut off behind its last event";
		else
			says = "the trace is cut off: what followed is missing from every figure";
		break;
	case TRACE_DAMAGED:
		says = "the trace is damaged: what follows the damage is missing from every figure";
		break;
	case TRACE_MORE:
	case TRACE_COMPLETE:
		return false;
	}
	snprintf(text, MODEL_ENDING_BYTES, "%s (%s)", says,
		ending->problem ? ending->problem : "no reason known");
	return true;
}
