/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/receiver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "attach/daemon/receiver_state.h"
#include "format/arch.h"
#include "format/clock.h"

/* Bounds of the work of one pass, whatever the target does. */
#define MESSAGES_PER_PASS 512u
#define MESSAGES_AT_LAST  16384u /* more than fit into the agent's send buffer */
#define LOOKS_PER_PASS	  3u
#define SYNCS_AFTER	  2u /* passes without an event */
#define SYNC_PERIOD_NS	  1000000000u

/* A store of one processor is visible to the others after this time at the latest; even a
 * microsecond would be long. */
#define STORE_DELAY_MAX_NS 1000000u

#define EVENT_MIN_BYTES 2u
#define KEY_LEVEL_MASK	3ull
#define KEY_FLAGS_MASK	15ull

/* abi_slot_head.incarnation is odd while its owner changes. */
#define INCARNATION_UNSETTLED 1u

/* One look at a slot. The order of the fields is the order in which they must be read. */
struct look {
	bool recording;
	uint64_t last_tsc;
	uint64_t start;
	uint64_t committed;
};

/* Takes that of three tries with the least time between the clocks: an interrupt may come in
 * between. */
static struct clock_pair read_clocks(void)
{
	struct clock_pair best = {0};
	uint64_t best_width = UINT64_MAX;
	for (int i = 0; i < 3; i++) {
		const uint64_t before = arch_tsc(), now_ns = clock_mono_ns();
		uint64_t width = arch_tsc() - before;
		if (width >= best_width)
			continue;
		best_width = width;
		best = (struct clock_pair){.tsc = before, .mono_ns = now_ns};
	}
	return best;
}

/*
 * A slot that is idle now holds all its events that are stamped before the returned time. An event
 * may carry the time stamp of an earlier event, but none from before the present value of
 * abi_control.tick was set (agent/stamp.h), which was at `tick`. Subtracts the time that a store
 * may take to become visible. 0 while the rate of the TSC is not known.
 */
static uint64_t settled_tsc(const struct receiver *receiver, const struct clock_pair *tick)
{
	uint64_t elapsed_ns = tick->mono_ns - receiver->origin.mono_ns;
	uint64_t elapsed_tsc = tick->tsc - receiver->origin.tsc;
	if (elapsed_ns < STORE_DELAY_MAX_NS)
		return 0;
	return abi_time_floor(tick->tsc - (uint64_t)((double)elapsed_tsc / (double)elapsed_ns *
						     STORE_DELAY_MAX_NS));
}

struct ht_err *receiver_create(const struct receiver_options *options, struct receiver **ret)
{
	if (options->slot_max > ABI_SLOT_MAX ||
		options->image_bytes < abi_image_bytes(options->slot_max))
		return ht_err_new(HT_ERR_INTERNAL,
			"an agent of %llu bytes has no room for %u threads",
			(unsigned long long)options->image_bytes, options->slot_max);
	struct receiver *receiver = calloc(1, sizeof(*receiver));
	if (!receiver)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the receiver");
	uint8_t *image = options->image;
	receiver->control = (void *)(image + ABI_CONTROL_OFF);
	receiver->slots = (void *)(image + ABI_SLOTS_OFF);
	receiver->last = (void *)(image + ABI_LAST_OFF);
	receiver->slot_max = options->slot_max;
	receiver->socket_fd = options->socket_fd;
	receiver->sink = options->sink;
	receiver->hold_tsc = UINT64_MAX;
	receiver->origin = receiver->tick = read_clocks();
	receiver->streams = calloc(options->slot_max, sizeof(*receiver->streams));
	struct ht_err *err = receiver->streams
				     ? node_scan_init(&receiver->nodes, image, options->sink)
				     : ht_err_new(HT_ERR_NOMEM, "no memory for the receiver");
	if (err) {
		receiver_destroy(receiver);
		return err;
	}
	receiver->nodes.observer = options->node_seen;
	receiver->nodes.context = options->context;
	*ret = receiver;
	return NULL;
}

void receiver_destroy(struct receiver *receiver)
{
	if (!receiver)
		return;
	node_scan_deinit(&receiver->nodes);
	free(receiver->streams);
	free(receiver);
}

/* A stretch of one slot's stream that ends with a whole event. */
struct piece {
	uint32_t slot;
	bool at_buffer_start;
	uint64_t position;
	const uint8_t *data;
	size_t length;
	uint64_t events;
};

/* The rest of a buffer cannot be decoded if a part before it is missing. */
static struct ht_err *put_events(struct receiver *receiver, const struct piece *piece)
{
	struct stream *stream = &receiver->streams[piece->slot];
	struct rec rec = {
		.kind = REC_EVENTS,
		.events = {.slot = piece->slot,
			.position = piece->position,
			.flags = piece->at_buffer_start ? REC_EVENTS_RESTART : 0,
			.body = bytes_of(piece->data, piece->length)},
	};
	struct ht_err *err = node_scan_put(&receiver->nodes);
	stream->is_cut = (stream->is_cut && !piece->at_buffer_start) || err;
	if (stream->is_cut) {
		sink_drop(receiver->sink, piece->events);
		return err;
	}
	err = sink_put(receiver->sink, &rec, piece->events);
	stream->is_cut = err != NULL;
	return err;
}

static struct ht_err *put_piece(struct receiver *receiver, const struct piece *piece)
{
	struct stream *stream = &receiver->streams[piece->slot];
	if (piece->position != stream->taken)
		stream->is_gapped = true;
	stream->taken = piece->position + piece->length;
	stream->events += piece->events;
	receiver->events += piece->events;
	if (stream->decoder.level)
		receiver->nested += piece->events;
	struct ht_err *err = put_events(receiver, piece);
	store(&receiver->slots[piece->slot].head.drained, stream->taken);
	return err;
}

/* Moves the decoder over a piece and returns how many events it holds. */
static uint64_t count_events(struct receiver *receiver, struct event_decoder *decoder,
	const uint8_t *data, size_t length)
{
	struct bytes in = bytes_of(data, length);
	struct event event;
	enum event_result result;
	uint64_t count = 0;
	while ((result = event_next(decoder, &in, &event)) == EVENT_OK)
		count += event.kind != ABI_EVENT_MAPPING;
	receiver->damage += result == EVENT_MALFORMED;
	return count;
}

/* --- messages --- */

static bool is_message(const struct receiver *receiver, const struct abi_message *head, size_t got)
{
	return got > sizeof(*head) && head->magic == ABI_MESSAGE_MAGIC &&
	       head->slot < receiver->slot_max && head->length == got - sizeof(*head) &&
	       head->length <= ABI_BUFFER_BYTES && head->events <= head->length / EVENT_MIN_BYTES;
}

/* Returns how many events of the message were not drained from memory before. head->events counts
 * all. The first event of a message gives the nesting level of all. */
static uint64_t message_events(
	struct stream *stream, const struct abi_message *head, const uint8_t *body)
{
	if (stream->taken > head->position)
		return head->events > stream->buffer_events ? head->events - stream->buffer_events
							    : 0;
	struct bytes in = bytes_of(body, head->length);
	struct event first;
	event_decoder_restart(&stream->decoder);
	return event_next(&stream->decoder, &in, &first) == EVENT_OK ? head->events : 0;
}

/* Puts the part of the message in `buffer` that was not drained from memory before. */
static struct ht_err *take_message(struct receiver *receiver)
{
	const struct abi_message *head = &receiver->buffer.head;
	const uint8_t *body = receiver->buffer.body;
	struct stream *stream = &receiver->streams[head->slot];
	uint64_t end = head->position + head->length;
	uint64_t from = stream->taken > head->position ? stream->taken : head->position;
	if (from >= end)
		return NULL;
	return put_piece(receiver, &(struct piece){
					   .slot = head->slot,
					   .at_buffer_start = from == head->position,
					   .position = from,
					   .data = body + (from - head->position),
					   .length = end - from,
					   .events = message_events(stream, head, body),
				   });
}

/* The last pass takes everything: nothing reads the shared memory after it. */
static bool has_room(const struct receiver *receiver)
{
	return receiver->is_final || sink_has_room(receiver->sink);
}

/* Reads until the queue of messages is empty or the pass has read its share. */
static struct ht_err *read_queue(struct receiver *receiver, bool *ret_empty)
{
	*ret_empty = true;
	while (receiver->socket_fd >= 0) {
		*ret_empty = receiver->messages_left && has_room(receiver);
		if (!*ret_empty)
			break;
		receiver->messages_left--;
		/* MSG_TRUNC: the true length, so that a longer message is not taken for a whole
		 * one. */
		ssize_t got = recv(receiver->socket_fd, &receiver->buffer, sizeof(receiver->buffer),
			MSG_DONTWAIT | MSG_TRUNC);
		if (got == 0)
			receiver->socket_fd = -1;
		if (got == 0 || (got < 0 && errno == EAGAIN))
			break;
		if (got < 0 && (errno == EINTR || errno == ECONNRESET))
			continue;
		if (got < 0)
			return ht_err_sys(errno, "cannot read the agent's socket");
		if (!is_message(receiver, &receiver->buffer.head, (size_t)got)) {
			receiver->damage++;
			continue;
		}
		HT_TRY(take_message(receiver));
	}
	return NULL;
}

int receiver_socket(const struct receiver *receiver)
{
	return receiver->socket_fd;
}

struct ht_err *receiver_read_socket(struct receiver *receiver)
{
	bool is_empty;
	receiver->messages_left = MESSAGES_PER_PASS;
	return read_queue(receiver, &is_empty);
}

/* --- shared memory --- */

static struct look look_at(const struct abi_slot_head *head)
{
	struct look look;
	uint32_t state = load(&head->state);
	look.recording = state == ABI_SLOT_RECORDING || state == ABI_SLOT_IN_UNMAPPING;
	look.last_tsc = load(&head->last_tsc);
	look.start = load(&head->buffer_start);
	look.committed = load(&head->committed);
	return look;
}

static bool is_sound(const struct look *look)
{
	return look->committed >= look->start && look->committed - look->start <= ABI_BUFFER_BYTES;
}

/* Copies [from, committed) out of the buffer. False: the agent has begun the buffer anew meanwhile,
 * and the copy may hold newer bytes. */
static bool copy_piece(struct receiver *receiver, const struct abi_slot *slot,
	const struct look *look, uint64_t from)
{
	memcpy(receiver->buffer.body, slot->buffer + (from - look->start), look->committed - from);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return load(&slot->head.buffer_start) == look->start;
}

/* Puts the copy of [from, committed) in `buffer`. */
static struct ht_err *take_copy(
	struct receiver *receiver, uint32_t index, const struct look *look, uint64_t from)
{
	struct stream *stream = &receiver->streams[index];
	struct piece piece = {
		.slot = index,
		.at_buffer_start = from == look->start,
		.position = from,
		.data = receiver->buffer.body,
		.length = look->committed - from,
	};
	if (piece.at_buffer_start) {
		stream->buffer_events = 0;
		event_decoder_restart(&stream->decoder);
	}
	piece.events = count_events(receiver, &stream->decoder, piece.data, piece.length);
	stream->buffer_events += piece.events;
	return put_piece(receiver, &piece);
}

/* Bytes before the buffer are missing. The agent sends their message before it moves buffer_start:
 * the message is in the queue now, or it was never sent. Once the queue is empty, gives the bytes
 * up. */
static struct ht_err *close_gap(struct receiver *receiver, struct stream *stream, uint64_t start)
{
	bool is_empty;
	HT_TRY(read_queue(receiver, &is_empty));
	if ((is_empty || receiver->is_final) && stream->taken < start) {
		stream->taken = start;
		stream->is_gapped = true;
	}
	return NULL;
}

/* Takes the committed bytes of a slot. `*ret` is true if all bytes of `look` were put or given up;
 * otherwise a later pass takes the rest. */
static struct ht_err *take_slot(
	struct receiver *receiver, uint32_t index, struct look *look, bool *ret)
{
	const struct abi_slot *slot = &receiver->slots[index];
	struct stream *stream = &receiver->streams[index];
	*ret = false;
	for (unsigned int i = 0; i < LOOKS_PER_PASS && has_room(receiver); i++) {
		*look = look_at(&slot->head);
		/* While the agent writes, a look may fall between two stores. */
		receiver->damage +=
			receiver->is_final && !(is_sound(look) && stream->taken <= look->committed);
		if (!is_sound(look))
			return NULL;
		if (stream->taken < look->start) {
			struct ht_err *err = close_gap(receiver, stream, look->start);
			if (err || stream->taken < look->start)
				return err;
		}
		uint64_t from = stream->taken;
		*ret = from >= look->committed;
		if (*ret)
			return NULL;
		*ret = copy_piece(receiver, slot, look, from);
		if (*ret)
			return take_copy(receiver, index, look, from);
	}
	return NULL;
}

static bool is_owned(uint64_t key)
{
	return key && !(key & ABI_SLOT_DEAD);
}

static void note_thread(struct receiver *receiver, uint32_t index, uint64_t key)
{
	struct stream *stream = &receiver->streams[index];
	uint32_t incarnation = load(&receiver->slots[index].head.incarnation);
	if (incarnation == stream->incarnation || incarnation & INCARNATION_UNSETTLED)
		return;
	/* The number grows by two with each owner; the slot may have had several since the last
	 * look. */
	if (!(key & KEY_LEVEL_MASK))
		receiver->threads += (incarnation - stream->incarnation) / 2;
	stream->incarnation = incarnation;
}

static struct ht_err *drain_slot(
	struct receiver *receiver, uint32_t index, bool last, uint64_t settled)
{
	struct stream *stream = &receiver->streams[index];
	uint64_t key = slot_key(receiver, index);
	uint64_t complete = settled;
	/* The slot was claimed since the pass before. */
	if (!stream->is_claimed)
		stream->complete_tsc = receiver->settled_tsc;
	stream->is_claimed = true;
	if (key) {
		struct look look;
		bool taken;
		note_thread(receiver, index, key);
		struct ht_err *err = take_slot(receiver, index, &look, &taken);
		if (err || !taken)
			return err;
		if (!last && look.recording && is_owned(key) && look.last_tsc < complete)
			complete = look.last_tsc;
	}
	if (complete > stream->complete_tsc)
		stream->complete_tsc = complete;
	return NULL;
}

/* Most slots were never claimed; a look at one would allocate its page. */
static struct ht_err *drain_slots(struct receiver *receiver, bool last, uint64_t settled)
{
	uint64_t complete = settled > receiver->settled_tsc ? settled : receiver->settled_tsc;
	struct ht_err *err = NULL;
	for (uint32_t word = 0; word * 64 < receiver->slot_max; word++) {
		uint64_t claimed = load(&receiver->control->claimed[word]);
		for (; claimed && !err; claimed &= claimed - 1) {
			uint32_t index = word * 64 + (uint32_t)__builtin_ctzll(claimed);
			if (index >= receiver->slot_max)
				break;
			err = drain_slot(receiver, index, last, settled);
			if (receiver->streams[index].complete_tsc < complete)
				complete = receiver->streams[index].complete_tsc;
		}
	}
	if (settled > receiver->settled_tsc)
		receiver->settled_tsc = settled;
	receiver->complete_tsc = complete;
	return err;
}

/* After the last event two more REC_SYNCs tell readers that no older event follows. Later ones add
 * nothing, so they come once a second. */
static bool is_sync_due(struct receiver *receiver, const struct clock_pair *now)
{
	bool is_quiet = receiver->events == receiver->synced_events;
	receiver->quiet = is_quiet ? receiver->quiet + 1 : 0;
	return receiver->is_final || receiver->quiet <= SYNCS_AFTER ||
	       now->mono_ns - receiver->synced.mono_ns >= SYNC_PERIOD_NS;
}

static struct ht_err *put_sync(struct receiver *receiver, const struct clock_pair *now)
{
	if (!is_sync_due(receiver, now))
		return NULL;
	bool is_held = receiver->complete_tsc > receiver->hold_tsc;
	uint64_t complete = is_held ? receiver->hold_tsc : receiver->complete_tsc;
	struct rec rec = {
		.kind = REC_SYNC,
		.sync = {.tsc = now->tsc, .mono_ns = now->mono_ns, .complete_tsc = complete},
	};
	struct ht_err *err = sink_put(receiver->sink, &rec, 0);
	receiver->synced = *now;
	receiver->synced_events = receiver->events;
	return err;
}

static struct ht_err *drain(struct receiver *receiver, bool last)
{
	struct clock_pair now = read_clocks();
	uint64_t settled = last ? now.tsc : settled_tsc(receiver, &receiver->tick);
	bool is_empty;
	receiver->messages_left = last ? MESSAGES_AT_LAST : MESSAGES_PER_PASS;
	receiver->is_final = last;
	store(&receiver->control->tick, receiver->control->tick + 1);
	receiver->tick = now;
	struct ht_err *err = read_queue(receiver, &is_empty);
	HT_THEN(err, drain_slots(receiver, last, settled));
	single_thread_look(&receiver->sole, receiver->control, receiver->slots, receiver->slot_max,
		receiver->last, now.mono_ns);
	HT_THEN(err, node_scan_put(&receiver->nodes));
	return err ? err : put_sync(receiver, &now);
}

struct ht_err *receiver_drain(struct receiver *receiver)
{
	return drain(receiver, false);
}

struct ht_err *receiver_drain_last(struct receiver *receiver)
{
	return drain(receiver, true);
}

void receiver_hold(struct receiver *receiver, uint64_t tsc)
{
	receiver->hold_tsc = tsc;
	receiver->quiet = 0;
}

uint64_t receiver_settled(const struct receiver *receiver)
{
	return settled_tsc(receiver, &receiver->tick);
}

bool receiver_is_quiet(const struct receiver *receiver)
{
	return receiver->quiet > SYNCS_AFTER;
}

/* --- threads --- */

void receiver_each_thread(const struct receiver *receiver,
	void (*fn)(void *context, const struct receiver_thread *thread), void *context)
{
	for (uint32_t i = 0; i < receiver->slot_max; i++) {
		const struct abi_slot_head *head = &receiver->slots[i].head;
		uint64_t key = slot_key(receiver, i);
		if (!is_owned(key))
			continue;
		uint32_t incarnation = load(&head->incarnation);
		if (!incarnation || incarnation & INCARNATION_UNSETTLED)
			continue;
		struct receiver_thread thread = {
			.slot = i,
			.tid = load(&head->tid),
			.thread_pointer = key & ~KEY_FLAGS_MASK,
			.incarnation = incarnation,
			.position = load(&head->committed),
			.bounded = load(&head->bounds_incarnation) == incarnation &&
				   load(&head->stack_hi),
		};
		if (load(&head->incarnation) == incarnation)
			fn(context, &thread);
	}
}

/* Does the slot still belong to that thread? */
static bool is_current(const struct abi_slot_head *head, const struct receiver_thread *thread)
{
	uint64_t key = load(&head->key);
	return is_owned(key) && (key & ~KEY_FLAGS_MASK) == thread->thread_pointer &&
	       load(&head->incarnation) == thread->incarnation;
}

void receiver_set_bounds(
	struct receiver *receiver, const struct receiver_thread *thread, raddr_t lo, raddr_t hi)
{
	struct abi_slot_head *head = &receiver->slots[thread->slot].head;
	if (!is_current(head, thread))
		return;
	store(&head->stack_lo, lo);
	store(&head->stack_hi, hi);
	store(&head->bounds_incarnation, thread->incarnation);
}

void receiver_release(struct receiver *receiver, const struct receiver_thread *thread)
{
	struct abi_slot_head *head = &receiver->slots[thread->slot].head;
	uint64_t key = load(&head->key);
	if (is_current(head, thread))
		(void)__atomic_compare_exchange_n(&head->key, &key, key | ABI_SLOT_DEAD, false,
			__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
