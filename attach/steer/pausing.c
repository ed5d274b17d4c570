/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/steer/pausing.h"

#include "attach/daemon/sink.h"
#include "attach/proc/clock.h"

/* The record of a pause's begin is put before the first function bypasses the agent, and that of
 * its end after the last one leads to the agent again: no event is missing outside of what the
 * trace calls a pause. */
static struct ht_err *begin(struct pausing *pausing)
{
	const struct rec rec = {.kind = REC_PAUSE, .pause = {clock_mono_ns(), 1}};
	HT_TRY(sink_put(pausing->sink, &rec, 0));
	pausing->since_ns = rec.pause.mono_ns;
	pausing->count++;
	return image_pause(pausing->image, pausing->elf, ABI_PAUSED_ALL);
}

static struct ht_err *end(struct pausing *pausing)
{
	HT_TRY(image_pause(pausing->image, pausing->elf, ABI_PAUSED_NO));
	const struct rec rec = {.kind = REC_PAUSE, .pause = {clock_mono_ns(), 0}};
	HT_TRY(sink_put(pausing->sink, &rec, 0));
	pausing->ended_ns += rec.pause.mono_ns - pausing->since_ns;
	pausing->since_ns = 0;
	return NULL;
}

struct ht_err *pausing_set(struct pausing *pausing, enum pausing_who who, bool is_wanted)
{
	bool any = false;
	pausing->wants[who] = is_wanted;
	for (size_t i = 0; i < PAUSING_WHO; i++)
		any |= pausing->wants[i];
	if (any == pausing_is_on(pausing))
		return NULL;
	return any ? begin(pausing) : end(pausing);
}

uint64_t pausing_ns(const struct pausing *pausing, uint64_t now_mono_ns)
{
	const bool runs = pausing_is_on(pausing) && now_mono_ns > pausing->since_ns;
	return pausing->ended_ns + (runs ? now_mono_ns - pausing->since_ns : 0);
}
