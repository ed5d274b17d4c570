/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of events by time, the next start after jumps and damage, and the counts of both.
 */
#include "format/streams.h"

#include <stdlib.h>
#include <string.h>

#include "format/columns.h"
#include "tests/support/eventbuild.h"
#include "tests/support/ht_check.h"

#define SEEN_MAX 4096u

static struct streams *streams;
static uint64_t seen[SEEN_MAX];
static uint32_t seen_stream[SEEN_MAX];
static size_t seen_count;

static size_t announced;

static struct ht_err *see(void *context, uint32_t stream, const struct event *event, size_t count)
{
	(void)context;
	ck_assert_uint_gt(count, 0);
	for (size_t i = 0; i < count; i++) {
		ck_assert_uint_lt(seen_count, SEEN_MAX);
		ck_assert_uint_lt(seen_count, announced);
		seen_stream[seen_count] = stream;
		seen[seen_count++] = event[i].tsc / ABI_TIME_UNIT;
	}
	return NULL;
}

/* Each event is announced before it comes. */
static void announce(void *context, const struct event *event, size_t count)
{
	(void)context;
	(void)event;
	announced += count;
}

static void begin(void)
{
	seen_count = announced = 0;
	ck_no_err(streams_create(see, announce, NULL, &streams));
}

/* Makes a whole buffer of frees at these times; all times here are in units of the event encoding.
 */
static struct eventbuild buffer_of(const uint64_t *tsc, size_t count)
{
	struct eventbuild build = {0};
	eventbuild_thread(&build, 1, 0);
	for (size_t i = 0; i < count; i++)
		eventbuild_free(&build, ABI_EVENT_FREE, 0, tsc[i] * ABI_TIME_UNIT, 16, 0);
	return build;
}

/* Bytes of each free of buffer_of, except the first. */
#define LATER_FREE_BYTES 4u

/* Adds the buffer to a slot at `position`; returns the position after it. */
static uint64_t add(uint64_t slot, uint64_t position, uint64_t flags, struct eventbuild build)
{
	const struct rec piece = {
		.kind = REC_EVENTS,
		.events = {.slot = slot,
			.position = position,
			.flags = flags,
			.body = bytes_of(build.out.data, build.out.length)},
	};
	ck_no_err(streams_add(streams, &piece));
	position += build.out.length;
	eventbuild_deinit(&build);
	return position;
}

static void release(uint64_t tsc)
{
	ck_no_err(streams_release(streams, tsc * ABI_TIME_UNIT));
}

#define BUFFER(...)                                                                                \
	buffer_of((const uint64_t[]){__VA_ARGS__},                                                 \
		sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void check_seen(const uint64_t *want, size_t count)
{
	ck_assert_uint_eq(seen_count, count);
	for (size_t i = 0; i < count; i++)
		ck_assert_uint_eq(seen[i], want[i]);
}

#define CHECK_SEEN(...)                                                                            \
	check_seen((const uint64_t[]){__VA_ARGS__},                                                \
		sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

HT_TEST(events_come_in_the_order_of_their_stamps)
{
	begin();
	add(0, 0, REC_EVENTS_RESTART, BUFFER(10, 40, 50));
	add(7, 0, REC_EVENTS_RESTART, BUFFER(20, 30, 60));
	add(9, 0, REC_EVENTS_RESTART, BUFFER(5, 45));
	ck_no_err(streams_finish(streams));
	CHECK_SEEN(5, 10, 20, 30, 40, 45, 50, 60);
	ck_assert_uint_eq(seen_stream[0], 2);
	ck_assert_uint_eq(seen_stream[1], 0);
	streams_destroy(streams);
}

HT_TEST(nothing_is_released_before_it_is_complete)
{
	begin();
	uint64_t end = add(0, 0, REC_EVENTS_RESTART, BUFFER(10, 20, 30));
	release(20);
	CHECK_SEEN(10);
	add(1, 0, REC_EVENTS_RESTART, BUFFER(20, 25));
	add(0, end, REC_EVENTS_RESTART, BUFFER(40));
	release(100);
	CHECK_SEEN(10, 20, 20, 25, 30, 40);
	streams_destroy(streams);
}

HT_TEST(a_piece_without_restart_continues_the_one_before)
{
	begin();
	struct eventbuild whole = BUFFER(10, 20, 30), tail = {0};
	size_t cut = whole.out.length - LATER_FREE_BYTES;
	ck_no_err(bytes_out_put(&tail.out, whole.out.data + cut, LATER_FREE_BYTES));
	whole.out.length = cut;
	uint64_t end = add(0, 0, REC_EVENTS_RESTART, whole);
	release(100); /* the first piece is gone by then */
	add(0, end, 0, tail);
	ck_no_err(streams_finish(streams));
	CHECK_SEEN(10, 20, 30);
	ck_assert_uint_eq(streams_damage(streams)->gaps, 0);
	streams_destroy(streams);
}

HT_TEST(after_a_jump_the_next_restart_is_waited_for)
{
	begin();
	uint64_t end = add(0, 0, REC_EVENTS_RESTART, BUFFER(10));
	end = add(0, end + 100, 0, BUFFER(20)); /* its beginning was lost */
	end = add(0, end, 0, BUFFER(30));
	add(0, end, REC_EVENTS_RESTART, BUFFER(40));
	ck_no_err(streams_finish(streams));
	CHECK_SEEN(10, 40);
	ck_assert_uint_eq(streams_damage(streams)->gaps, 1);
	ck_assert_uint_eq(streams_damage(streams)->missing_bytes, 100);
	ck_assert_uint_gt(streams_damage(streams)->skipped_bytes, 0);
	streams_destroy(streams);
}

HT_TEST(a_whole_lost_buffer_is_a_gap)
{
	begin();
	uint64_t end = add(0, 0, REC_EVENTS_RESTART, BUFFER(10));
	add(0, end + 65536, REC_EVENTS_RESTART, BUFFER(20));
	ck_no_err(streams_finish(streams));
	CHECK_SEEN(10, 20);
	ck_assert_uint_eq(streams_damage(streams)->gaps, 1);
	ck_assert_uint_eq(streams_damage(streams)->missing_bytes, 65536);
	streams_destroy(streams);
}

HT_TEST(malformed_data_is_left_at_the_next_restart)
{
	begin();
	struct eventbuild bad = BUFFER(10, 20);
	bad.out.data[bad.out.length - LATER_FREE_BYTES] = 0; /* no such kind */
	uint64_t end = add(0, 0, REC_EVENTS_RESTART, bad);
	end = add(0, end, 0, BUFFER(30));
	add(0, end, REC_EVENTS_RESTART, BUFFER(40));
	ck_no_err(streams_finish(streams));
	CHECK_SEEN(10, 40);
	ck_assert_uint_eq(streams_damage(streams)->malformed, 1);
	ck_assert_uint_gt(streams_damage(streams)->skipped_bytes, 5);
	streams_destroy(streams);
}

/* Like add(), for a piece that the writer sorted by field; `damage` is added to the tag of its
 * THREAD. */
static uint64_t add_columns(
	uint64_t slot, uint64_t position, struct eventbuild build, uint8_t damage)
{
	struct columns_encoder *encoder;
	struct bytes_out columns = {0};
	bool is_done;
	ck_no_err(columns_encoder_create(&encoder));
	ck_no_err(columns_encode(
		encoder, bytes_of(build.out.data, build.out.length), &columns, &is_done));
	ck_assert(is_done);
	columns.data[columns.length - 9] += damage;
	const struct rec piece = {
		.kind = REC_COLUMNS,
		.events = {.slot = slot,
			.position = position,
			.flags = REC_EVENTS_RESTART,
			.body = bytes_of(columns.data, columns.length),
			.piece_bytes = build.out.length},
	};
	ck_no_err(streams_add(streams, &piece));
	position += build.out.length;
	columns_encoder_destroy(encoder);
	bytes_out_deinit(&columns);
	eventbuild_deinit(&build);
	return position;
}

HT_TEST(columns_are_read_like_the_piece_they_were)
{
	begin();
	uint64_t end = add_columns(0, 0, BUFFER(10, 40, 50), 0);
	end = add(0, end, REC_EVENTS_RESTART, BUFFER(70));
	add_columns(7, 0, BUFFER(20, 30, 60), 0);
	add_columns(0, end, BUFFER(80, 90), 0);
	ck_no_err(streams_finish(streams));
	CHECK_SEEN(10, 20, 30, 40, 50, 60, 70, 80, 90);
	ck_assert_uint_eq(streams_damage(streams)->gaps, 0);
	streams_destroy(streams);
}

HT_TEST(damaged_columns_are_left_at_the_next_restart)
{
	begin();
	struct eventbuild bad = BUFFER(10, 20);
	const size_t length = bad.out.length;
	uint64_t end = add_columns(0, 0, bad, 6); /* a REALLOC_FAIL, which is shorter */
	end = add(0, end, 0, BUFFER(30));
	add_columns(0, end, BUFFER(40), 0);
	ck_no_err(streams_finish(streams));
	CHECK_SEEN(40);
	ck_assert_uint_eq(streams_damage(streams)->malformed, 1);
	ck_assert_uint_ge(streams_damage(streams)->skipped_bytes, length);
	streams_destroy(streams);
}

HT_TEST(a_stream_may_start_late)
{
	begin();
	add(0, 4096, REC_EVENTS_RESTART, BUFFER(10));
	add(1, 0, 0, BUFFER(20)); /* no start to decode from */
	ck_no_err(streams_finish(streams));
	CHECK_SEEN(10);
	ck_assert_uint_eq(streams_damage(streams)->gaps, 1);
	streams_destroy(streams);
}

HT_TEST(any_bytes_are_survived)
{
	srandom(1);
	for (unsigned round = 0; round < 300; round++) {
		begin();
		uint8_t noise[300];
		for (size_t i = 0; i < sizeof(noise); i++)
			noise[i] = (uint8_t)random();
		for (unsigned i = 0; i < 20; i++) {
			const struct rec piece = {
				.kind = REC_EVENTS,
				.events = {.slot = (uint64_t)random() % 3,
					.position = (uint64_t)random() % 1000,
					.flags = (uint64_t)random() % 2,
					.body = bytes_of(noise + i, (size_t)random() % 200)},
			};
			ck_no_err(streams_add(streams, &piece));
		}
		ck_no_err(streams_finish(streams));
		streams_destroy(streams);
	}
}

HT_TEST(too_many_streams_are_damage)
{
	begin();
	struct rec piece = {.kind = REC_EVENTS, .events.flags = REC_EVENTS_RESTART};
	for (uint64_t slot = 0; slot < STREAMS_MAX; slot++) {
		piece.events.slot = slot << 20;
		ck_no_err(streams_add(streams, &piece));
	}
	piece.events.slot = 1;
	ck_err(streams_add(streams, &piece), HT_ERR_FORMAT);
	streams_destroy(streams);
}

HT_SUITE("analyzer/streams")
