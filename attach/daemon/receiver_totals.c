/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/receiver_totals.h"

#include "attach/daemon/receiver_state.h"

/* No agent lives long enough for a greater number: the target wrote it. */
#define COUNTER_MAX (UINT64_C(1) << 48)

static uint64_t read_counter(struct receiver_totals *totals, const uint64_t *counter)
{
	uint64_t value = load(counter);
	if (value < COUNTER_MAX)
		return value;
	totals->damage++;
	return 0;
}

static void add_slot(struct receiver_totals *totals, const struct abi_slot_head *head)
{
	totals->failed_calls += read_counter(totals, &head->failed_calls);
	totals->mappings += read_counter(totals, &head->mappings);
	for (unsigned int i = 0; i < ABI_LOSS_COUNT; i++)
		totals->lost[i] += read_counter(totals, &head->lost[i]);
	for (unsigned int i = 0; i < ABI_TRUNC_COUNT; i++)
		totals->trunc[i] += read_counter(totals, &head->trunc[i]);
}

/* The agent counts all events of a lost buffer, even if some were drained before. After the last
 * pass the receiver knows how many committed events never came; the agent's counters only say how
 * many of them the socket lost. */
static void settle_losses(struct receiver_totals *totals, uint64_t received)
{
	uint64_t missing = totals->committed > received ? totals->committed - received : 0;
	if (totals->lost[ABI_LOSS_SOCKET] > missing)
		totals->lost[ABI_LOSS_SOCKET] = missing;
	totals->lost[ABI_LOSS_TIMEOUT] = missing - totals->lost[ABI_LOSS_SOCKET];
}

uint64_t receiver_unknown_pcs(const struct receiver *receiver)
{
	return load(&receiver->control->unknown_pcs);
}

struct receiver_totals receiver_totals(const struct receiver *receiver)
{
	struct receiver_totals totals = {
		.events = receiver->events - sink_dropped_events(receiver->sink),
		.nested = receiver->nested,
		.threads = receiver->threads,
		.damage = receiver->damage + receiver->nodes.damage,
	};
	for (unsigned int i = 0; i < ABI_LOSS_COUNT; i++)
		totals.lost[i] = read_counter(&totals, &receiver->control->lost[i]);
	totals.samples_lost = read_counter(&totals, &receiver->control->samples_lost);
	for (uint32_t i = 0; i < receiver->slot_max; i++) {
		const struct abi_slot_head *head = &receiver->slots[i].head;
		const struct stream *stream = &receiver->streams[i];
		if (!slot_key(receiver, i)) {
			/* A slot that was used keeps a key: the target has cleared it. */
			totals.damage += stream->taken != 0;
			continue;
		}
		/* A thread that was killed between two stores leaves a counter that is one ahead of
		 * its stream. If the stream has no gap, the receiver has counted its events
		 * itself. */
		bool is_known = receiver->is_final && !stream->is_gapped;
		totals.committed +=
			is_known ? stream->events : read_counter(&totals, &head->events);
		add_slot(&totals, head);
	}
	if (receiver->is_final)
		settle_losses(&totals, receiver->events);
	return totals;
}

static struct ht_err *put_loss(struct receiver *receiver, enum rec_counter counter, uint64_t total)
{
	struct rec rec = {.kind = REC_LOSS, .loss = {.counter = counter, .total = total}};
	return sink_put(receiver->sink, &rec, 0);
}

struct ht_err *receiver_put_totals(struct receiver *receiver)
{
	struct receiver_totals totals = receiver_totals(receiver);
	for (unsigned int k = 0; k < ABI_LOSS_COUNT; k++)
		HT_TRY(put_loss(receiver, REC_COUNTER_LOST_TIMEOUT + k, totals.lost[k]));
	for (unsigned int k = 0; k < ABI_TRUNC_COUNT; k++)
		HT_TRY(put_loss(receiver, REC_COUNTER_TRUNC_DEPTH + k, totals.trunc[k]));
	HT_TRY(put_loss(receiver, REC_COUNTER_FAILED_CALLS, totals.failed_calls));
	HT_TRY(put_loss(receiver, REC_COUNTER_NESTED, totals.nested));
	HT_TRY(put_loss(receiver, REC_COUNTER_SAMPLES_LOST, totals.samples_lost));
	HT_TRY(put_loss(receiver, REC_COUNTER_MAPPINGS, totals.mappings));
	HT_TRY(put_loss(receiver, REC_COUNTER_DAEMON_DROPS, sink_dropped_events(receiver->sink)));
	HT_TRY(put_loss(receiver, REC_COUNTER_DAMAGE, totals.damage));
	return put_loss(receiver, REC_COUNTER_EVENTS, totals.committed);
}
