/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/steer/settle.h"

#include "attach/daemon/sink.h"
#include "attach/proc/clock.h"
#include "format/arch.h"

bool settle_follows(const struct settle *settle, enum rec_end_reason reason)
{
	return settle->wanted_ns && !settle_has_begun(settle) &&
	       (reason == REC_END_DURATION || reason == REC_END_RSS || reason == REC_END_GROWTH ||
		       reason == REC_END_COMMAND);
}

struct ht_err *settle_begin(
	struct settle *settle, struct image *image, const struct agent_elf *elf, struct sink *sink)
{
	struct rec rec = {.kind = REC_SETTLE};
	rec.settle = (struct rec_settle){arch_tsc(), clock_mono_ns(), settle->wanted_ns};
	HT_TRY(sink_put(sink, &rec, 0));
	settle->begin_ns = rec.settle.mono_ns;
	settle->end_ns = rec.settle.mono_ns + settle->wanted_ns;
	return image_pause(image, elf, ABI_PAUSED_SETTLE);
}
