/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/control/rate.h"

#define NS_PER_S 1000000000ull

bool rate_is_due(const struct rate *rate, uint64_t mono_ns)
{
	return !rate->count ||
	       mono_ns >= rate->look[(rate->count - 1) % RATE_LOOKS].mono_ns + NS_PER_S;
}

void rate_note(struct rate *rate, const struct rate_look *look)
{
	rate->look[rate->count++ % RATE_LOOKS] = *look;
}

static const struct rate_look *oldest(const struct rate *rate)
{
	return &rate->look[rate->count < RATE_LOOKS ? 0 : rate->count % RATE_LOOKS];
}

static uint64_t per(uint64_t from, uint64_t to, uint64_t span_ns, uint64_t unit_ns)
{
	if (!span_ns || to <= from)
		return 0;
	unsigned __int128 growth = (unsigned __int128)(to - from) * unit_ns / span_ns;
	return growth > UINT64_MAX ? UINT64_MAX : (uint64_t)growth;
}

static uint64_t span_ns(const struct rate *rate, const struct rate_look *now)
{
	uint64_t since = oldest(rate)->mono_ns;
	return rate->count && now->mono_ns > since ? now->mono_ns - since : 0;
}

uint64_t rate_events_per_s(const struct rate *rate, const struct rate_look *now)
{
	return per(oldest(rate)->events, now->events, span_ns(rate, now), NS_PER_S);
}

uint64_t rate_bytes_per_min(const struct rate *rate, const struct rate_look *now)
{
	return per(oldest(rate)->bytes, now->bytes, span_ns(rate, now), 60 * NS_PER_S);
}
