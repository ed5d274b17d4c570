/* SPDX-License-Identifier: Apache-2.0 */
#include "format/columns.h"

#include <stdlib.h>
#include <string.h>

#include "format/record.h"
#include "tests/support/eventbuild.h"
#include "tests/support/ht_check.h"

/* Deterministic: a failure is a failure every time. */
static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 32 | *state << 32;
}

/* A value of 0 .. `bits` significant bits. */
static uint64_t any_below(uint64_t *state, unsigned int bits)
{
	bits = (unsigned int)(next_random(state) % (bits + 1));
	return bits ? next_random(state) >> (64 - bits) : 0;
}

struct bench {
	struct columns_encoder *encoder;
	struct bytes_out columns, scratch, piece;
};

static void bench_init(struct bench *bench)
{
	*bench = (struct bench){0};
	ck_no_err(columns_encoder_create(&bench->encoder));
}

static void bench_deinit(struct bench *bench)
{
	columns_encoder_destroy(bench->encoder);
	bytes_out_deinit(&bench->columns);
	bytes_out_deinit(&bench->scratch);
	bytes_out_deinit(&bench->piece);
}

/* Encodes from an allocation of its own size, so that a sanitizer sees a read behind it. */
static bool encode(struct bench *bench, const uint8_t *data, size_t length)
{
	uint8_t *copy = malloc(length ? length : 1);
	bool is_done;
	ck_assert_ptr_nonnull(copy);
	if (length)
		memcpy(copy, data, length);
	bench->columns.length = 0;
	ck_no_err(
		columns_encode(bench->encoder, bytes_of(copy, length), &bench->columns, &is_done));
	free(copy);
	ck_assert(is_done || !bench->columns.length);
	return is_done;
}

static void check_same_event(const struct event *got, const struct event *want)
{
	ck_assert_uint_eq(got->kind, want->kind);
	ck_assert_uint_eq(got->hook, want->hook);
	ck_assert_uint_eq(got->protect, want->protect);
	ck_assert_uint_eq(got->tid, want->tid);
	ck_assert_uint_eq(got->tsc, want->tsc);
	ck_assert_uint_eq(got->addr, want->addr);
	ck_assert_uint_eq(got->size, want->size);
	ck_assert_uint_eq(got->stack, want->stack);
	ck_assert_uint_eq(got->flags, want->flags);
}

/* Checks that the `count` events in `got` equal those of the piece. */
static void check_same_events(
	struct event_decoder *decoder, struct bytes *piece, const struct event *got, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct event want;
		ck_assert_int_eq(event_next(decoder, piece, &want), EVENT_OK);
		check_same_event(&got[i], &want);
	}
}

/* Checks that the events of columns, read `step` at a time, are those of their piece; refused
 * columns, whose piece is NULL, must end with damage. The columns are in an allocation of their own
 * size. */
static void check_events(
	const uint8_t *columns, size_t length, const struct bytes_out *piece, size_t step)
{
	struct event_decoder decoder, expected;
	struct columns_events *events = NULL;
	struct event got[COLUMNS_EVENTS_MAX + 1], want;
	HT_FREED uint8_t *copy = calloc(1, length + COLUMNS_ROOM);
	struct bytes left = piece ? bytes_of(piece->data, piece->length) : (struct bytes){0};
	enum event_result result = EVENT_MALFORMED;
	size_t count = 0;
	ck_assert_ptr_nonnull(copy);
	if (length)
		memcpy(copy, columns, length);
	event_decoder_restart(&decoder);
	event_decoder_restart(&expected);
	struct ht_err *err = columns_events_create(bytes_of(copy, length), &events);
	if (!err) {
		do {
			result = columns_events_next(events, &decoder, got, step, &count);
			ck_assert_uint_le(count, step);
			if (piece)
				check_same_events(&expected, &left, got, count);
		} while (result == EVENT_OK);
	} else {
		ck_assert_int_eq(err->code, HT_ERR_FORMAT);
		ck_assert_ptr_null(piece);
		ht_err_free(err);
		decoder.in_step = false;
	}
	if (result == EVENT_NONE_LEFT) {
		ck_assert_ptr_nonnull(piece);
		ck_assert_int_eq(event_next(&expected, &left, &want), EVENT_NONE_LEFT);
		ck_assert_uint_eq(expected.tsc, decoder.tsc);
	}
	while (result == EVENT_MALFORMED && piece &&
		event_next(&expected, &left, &want) == EVENT_OK)
		ck_assert_uint_lt(count++, COLUMNS_EVENTS_MAX);
	ck_assert_int_eq(decoder.in_step, result == EVENT_NONE_LEFT);
	if (piece)
		ck_assert_int_eq(expected.in_step, decoder.in_step);
	columns_events_destroy(events);
}

/* Returns false if the columns are refused, after a check that nothing was appended. The columns
 * are in an allocation of their own size, and the buffers are new, so that none has room left over
 * from an earlier call. */
static bool decode(struct bench *bench, const uint8_t *columns, size_t length)
{
	uint8_t *copy = malloc(length ? length : 1);
	ck_assert_ptr_nonnull(copy);
	if (length)
		memcpy(copy, columns, length);
	bytes_out_deinit(&bench->piece);
	bytes_out_deinit(&bench->scratch);
	struct ht_err *err = columns_decode(bytes_of(copy, length), &bench->scratch, &bench->piece);
	free(copy);
	for (size_t step = 1; step <= COLUMNS_EVENTS_MAX; step += 21)
		check_events(columns, length, err ? NULL : &bench->piece, step);
	if (!err)
		return true;
	ck_assert_int_eq(err->code, HT_ERR_FORMAT);
	ck_assert_uint_eq(bench->piece.length, 0);
	ht_err_free(err);
	return false;
}

static void check_comes_back(struct bench *bench, const uint8_t *data, size_t length)
{
	ck_assert(encode(bench, data, length));
	ck_assert(decode(bench, bench->columns.data, bench->columns.length));
	ck_assert_uint_eq(bench->piece.length, length);
	if (length)
		ck_assert_mem_eq(bench->piece.data, data, length);
}

/* Puts an event as programs make them: of few sizes, stacks and addresses. */
static void put_likely_event(struct eventbuild *build, uint64_t *state)
{
	uint64_t tsc = build->tsc + (next_random(state) % 4 ? 0 : next_random(state) % 8192);
	uint64_t addr = 0x7f0012340000 + next_random(state) % 512 * 32;
	if (next_random(state) % 2)
		eventbuild_alloc(build, ABI_EVENT_ALLOC, 0, tsc, addr,
			24 + next_random(state) % 3 * 200,
			1 + (uint32_t)(next_random(state) % 400));
	else
		eventbuild_free(
			build, ABI_EVENT_FREE, 3, tsc, addr, next_random(state) % 3 ? 0 : 24);
}

static void put_any_event(struct eventbuild *build, uint64_t *state)
{
	uint64_t tsc = build->tsc + any_below(state, 40);
	uint64_t addr = any_below(state, 64), size = any_below(state, 64);
	uint8_t hook = (uint8_t)(next_random(state) % 16);
	enum abi_event_kind kind = 1 + (unsigned int)(next_random(state) % 8);
	const struct eventbuild_mapping mapping = {
		.call = ABI_CALL_MAP, .addr = addr, .length = size, .protect = 3, .stack = 4};
	switch (kind) {
	case ABI_EVENT_THREAD:
		eventbuild_thread(build, (uint32_t)addr, hook);
		break;
	case ABI_EVENT_ALLOC:
	case ABI_EVENT_REALLOC_END:
		eventbuild_alloc(
			build, kind, hook, tsc, addr, size, (uint32_t)any_below(state, 32));
		break;
	case ABI_EVENT_FREE:
	case ABI_EVENT_REALLOC_BEGIN:
		eventbuild_free(build, kind, hook, tsc, addr, size);
		break;
	case ABI_EVENT_REALLOC_FREED:
	case ABI_EVENT_REALLOC_FAIL:
		eventbuild_realloc_done(build, kind, tsc);
		break;
	case ABI_EVENT_MAPPING:
		eventbuild_mapping(build, tsc, &mapping, hook, 0);
		break;
	}
}

HT_TEST(random_streams_come_back)
{
	struct bench bench;
	uint64_t state = 1;
	bench_init(&bench);
	for (unsigned int round = 0; round < 600; round++) {
		struct eventbuild build = {0};
		size_t bytes = any_below(&state, 17);
		while (build.out.length < bytes) {
			if (round % 3 == 0 || (round % 3 == 1 && next_random(&state) % 64 == 0))
				put_any_event(&build, &state);
			else
				put_likely_event(&build, &state);
		}
		check_comes_back(&bench, build.out.data, build.out.length);
		eventbuild_deinit(&build);
	}
	bench_deinit(&bench);
}

/* Bytes as FORMAT.md describes them, by hand. */
static const uint8_t golden_piece[] = {
	1, 0x39, 0x30, 0, 0, 2, 0, 0, 0,	       /* THREAD */
	2 | 1 << 3 | 2 << 5, 0 | 1 << 2 | 5 << 4,      /* ALLOC, time of two bytes */
	0x00, 0x12, 0x11, 0x22, 0x33, 0x44, 100, 2, 1, /* time, addr, size, stack */
	3 | 0 << 3 | 0 << 5, 1 << 2 | 3 << 4, 0, 0xb9, /* FREE, time 0, without size */
	7 | 0 << 3, 9,				       /* REALLOC_FAIL */
	3 | 0 << 3 | 0 << 5, 1 << 2 | 3 << 4, 5, 0xba, /* FREE, time 5, without size */
	3 | 0 << 3 | 0 << 5, 1 << 2 | 3 << 4, 0, 0xbb, /* as the first one */
};
static const uint8_t golden_columns[] = {
	34, 3,					  /* bytes, shapes */
	6, 3, 7, 1, 2, 11,			  /* bytes of the columns */
	0x4a, 0x54,				  /* shape 1 */
	0x80 | 3, 0x34,				  /* shape 2: the time is 0 */
	3, 0x34,				  /* shape 3 */
	0, 1, 2, 0, 3, 2,			  /* shapes */
	0x00, 0x12, 5,				  /* times */
	0x11, 0x22, 0x33, 0x44, 0xb9, 0xba, 0xbb, /* addresses */
	100,					  /* sizes */
	2, 1,					  /* stacks */
	1, 0x39, 0x30, 0, 0, 2, 0, 0, 0, 7, 9,	  /* others */
};

HT_TEST(the_columns_are_as_specified)
{
	struct bench bench;
	bench_init(&bench);
	check_comes_back(&bench, golden_piece, sizeof(golden_piece));
	ck_assert_uint_eq(bench.columns.length, sizeof(golden_columns));
	ck_assert_mem_eq(bench.columns.data, golden_columns, sizeof(golden_columns));
	/* The encoder keeps no shape's number from the piece before. */
	check_comes_back(&bench, golden_piece + 20, sizeof(golden_piece) - 20);
	ck_assert_uint_eq(bench.columns.data[1], 2);
	bench_deinit(&bench);
}

static bool ends_event(const size_t *end, size_t count, size_t at)
{
	for (size_t i = 0; i < count; i++) {
		if (end[i] == at)
			return true;
	}
	return at == 0;
}

HT_TEST(a_piece_that_is_cut_is_left_as_it_is)
{
	enum { EVENTS = 40 };
	size_t end[EVENTS];
	struct eventbuild build = {0};
	struct bench bench;
	uint64_t state = 2;
	bench_init(&bench);
	for (unsigned int i = 0; i < EVENTS; i++) {
		put_any_event(&build, &state);
		end[i] = build.out.length;
	}
	/* A mapping consists of several events in the encoding. */
	for (size_t cut = 0; cut <= build.out.length; cut++) {
		bool is_done = encode(&bench, build.out.data, cut);
		ck_assert(is_done || !ends_event(end, EVENTS, cut));
		if (is_done)
			check_comes_back(&bench, build.out.data, cut);
	}
	eventbuild_deinit(&build);
	bench_deinit(&bench);
}

/* The encoder sorts a piece of this length in two parts at once. The piece is cut, lengthened, or
 * damaged at any byte. */
HT_TEST(finds_malformed_events_anywhere)
{
	struct eventbuild build = {0};
	struct bench bench;
	uint64_t state = 3;
	bench_init(&bench);
	while (build.out.length < 20000)
		put_likely_event(&build, &state);
	check_comes_back(&bench, build.out.data, build.out.length);
	const size_t whole = build.out.length;
	eventbuild_realloc_done(&build, ABI_EVENT_REALLOC_FAIL, build.tsc + 1600);
	ck_assert(!encode(&bench, build.out.data, build.out.length - 1));
	build.out.length = whole;
	ck_no_err(bytes_out_u8(&build.out, 0));
	ck_assert(!encode(&bench, build.out.data, build.out.length));
	for (unsigned int i = 0; i < 300; i++) {
		size_t at = next_random(&state) % whole;
		uint8_t was = build.out.data[at];
		build.out.data[at] = (uint8_t)next_random(&state);
		if (encode(&bench, build.out.data, whole))
			check_comes_back(&bench, build.out.data, whole);
		build.out.data[at] = was;
	}
	eventbuild_deinit(&build);
	bench_deinit(&bench);
}

/* A decoder that starts in the middle of such an event never finds the beginning of one: the end of
 * each event and the beginning of the next look like an event. */
HT_TEST(a_wrong_guess_changes_nothing)
{
	static const uint8_t event[] = {ABI_EVENT_FREE, ABI_EVENT_NO_SIZE, 3, 4}, other[] = {7, 1};
	struct bench bench;
	bench_init(&bench);
	for (size_t others = 0; others < 8; others++) {
		struct bytes_out piece = {0};
		for (size_t i = 0; i < others; i++)
			ck_no_err(bytes_out_put(&piece, other, sizeof(other)));
		for (size_t i = 0; i < 4096; i++)
			ck_no_err(bytes_out_put(&piece, event, sizeof(event)));
		check_comes_back(&bench, piece.data, piece.length);
		bytes_out_deinit(&piece);
	}
	bench_deinit(&bench);
}

HT_TEST(noise_comes_back_or_is_left)
{
	struct bench bench;
	uint64_t state = 4;
	unsigned int done = 0;
	bench_init(&bench);
	for (unsigned int round = 0; round < 20000; round++) {
		uint8_t noise[64];
		size_t length = next_random(&state) % sizeof(noise);
		for (size_t i = 0; i < length; i++)
			noise[i] = (uint8_t)next_random(&state);
		if (!encode(&bench, noise, length))
			continue;
		check_comes_back(&bench, noise, length);
		done++;
	}
	ck_assert_uint_gt(done, 100);
	bench_deinit(&bench);
}

HT_TEST(there_may_be_more_shapes_than_numbers)
{
	struct bytes_out piece = {0};
	struct bench bench;
	bench_init(&bench);
	for (unsigned int tag1 = 0; tag1 < 256; tag1++) {
		for (uint8_t time = 0; time < 2; time++) {
			const uint8_t event[2 + 1 + 1 + 8 + 4] = {
				ABI_EVENT_ALLOC, (uint8_t)tag1, time, 1};
			size_t length = 2 + 1 + 1 + (1u << (tag1 & 3)) + (tag1 >> 2 & 3) + 1;
			ck_no_err(bytes_out_put(&piece, event, length));
		}
	}
	for (unsigned int round = 0; round < 2; round++) {
		check_comes_back(&bench, piece.data, piece.length);
		/* The length of the column has two bytes. */
		ck_assert_uint_eq(bench.columns.data[2] | bench.columns.data[3] << 7, 255 | 1 << 7);
	}
	bytes_out_deinit(&piece);
	bench_deinit(&bench);
}

HT_TEST(a_piece_is_as_long_as_a_record_at_most)
{
	uint8_t *piece = malloc(TRACE_RECORD_MAX + 2);
	struct bench bench;
	bench_init(&bench);
	for (size_t i = 0; i < TRACE_RECORD_MAX + 2; i += 2) {
		piece[i] = ABI_EVENT_REALLOC_FAIL;
		piece[i + 1] = (uint8_t)i;
	}
	check_comes_back(&bench, piece, TRACE_RECORD_MAX);
	ck_assert(!encode(&bench, piece, TRACE_RECORD_MAX + 2));
	free(piece);
	bench_deinit(&bench);
}

HT_TEST(a_piece_that_claims_more_than_a_record_is_refused)
{
	/* THREAD events only, one more than fits in a record. */
	struct bytes_out columns = {0};
	struct bench bench;
	const size_t events = TRACE_RECORD_MAX / 9 + 1;
	bench_init(&bench);
	ck_no_err(bytes_out_uleb(&columns, events * 9));
	ck_no_err(bytes_out_uleb(&columns, 0));
	ck_no_err(bytes_out_uleb(&columns, events));
	for (unsigned int i = 0; i < 4; i++)
		ck_no_err(bytes_out_uleb(&columns, 0));
	ck_no_err(bytes_out_uleb(&columns, events * 9));
	for (size_t i = 0; i < events; i++)
		ck_no_err(bytes_out_u8(&columns, 0));
	for (size_t i = 0; i < events; i++)
		ck_no_err(bytes_out_put(&columns, "\1tid.lvl.", 9));
	ck_assert(!decode(&bench, columns.data, columns.length));
	bytes_out_deinit(&columns);
	bench_deinit(&bench);
}

static void sample_columns(struct bench *bench, struct bytes_out *ret)
{
	struct eventbuild build = {0};
	uint64_t state = 5;
	for (unsigned int i = 0; i < 12; i++)
		put_any_event(&build, &state);
	for (unsigned int i = 0; i < 40; i++)
		put_likely_event(&build, &state);
	ck_assert(encode(bench, build.out.data, build.out.length));
	ck_no_err(bytes_out_put(ret, bench->columns.data, bench->columns.length));
	eventbuild_deinit(&build);
}

HT_TEST(cut_columns_are_malformed)
{
	struct bytes_out columns = {0};
	struct bench bench;
	bench_init(&bench);
	sample_columns(&bench, &columns);
	for (size_t cut = 0; cut < columns.length; cut++)
		ck_assert(!decode(&bench, columns.data, cut));
	ck_assert(decode(&bench, columns.data, columns.length));
	ck_no_err(bytes_out_u8(&columns, 0));
	ck_assert(!decode(&bench, columns.data, columns.length));
	bytes_out_deinit(&columns);
	bench_deinit(&bench);
}

/* Changed columns are refused, or decode to the length that they state, which is no more than a
 * record's. */
HT_TEST(changed_columns_are_refused_or_bounded)
{
	struct bytes_out columns = {0};
	struct bench bench;
	bench_init(&bench);
	sample_columns(&bench, &columns);
	for (size_t at = 0; at < columns.length; at++) {
		uint8_t was = columns.data[at];
		for (unsigned int value = 0; value < 256; value++) {
			columns.data[at] = (uint8_t)value;
			if (!decode(&bench, columns.data, columns.length))
				continue;
			struct bytes in = bytes_of(columns.data, columns.length);
			uint64_t length;
			ck_assert(bytes_uleb(&in, &length));
			ck_assert_uint_eq(bench.piece.length, length);
			ck_assert_uint_le(length, TRACE_RECORD_MAX);
		}
		columns.data[at] = was;
	}
	bytes_out_deinit(&columns);
	bench_deinit(&bench);
}

/* Columns with too few or too many bytes, which the encoder never makes; `says` names the fault. */
static const struct {
	const char *says;
	uint8_t length;
	uint8_t bytes[20];
} malformed[] = {
	{"a number that no shape has", 11, {2, 0, 1, 0, 0, 0, 0, 2, 1, 7, 9}},
	{"a shape of no event", 10, {0, 1, 0, 0, 0, 0, 0, 0, 1, 0}},
	{"a shape without a time of two bytes", 13,
		{6, 1, 1, 0, 1, 1, 0, 0, 0x80 | 8 | 3, 0, 1, 2, 3}},
	{"bytes that no event takes", 15, {5, 1, 1, 1, 1, 1, 0, 1, 3, 0, 1, 7, 8, 9, 1}},
	{"a time that is not there", 13, {5, 1, 1, 0, 1, 1, 0, 0, 3, 0, 1, 8, 9}},
	{"a stack that is not there", 14, {6, 1, 1, 1, 1, 1, 0, 0, 2, 0, 1, 7, 8, 9}},
	{"another event of no kind", 10, {1, 0, 1, 0, 0, 0, 0, 1, 0, 8}},
	{"another event that is cut", 10, {2, 0, 1, 0, 0, 0, 0, 1, 0, 7}},
	{"fewer bytes than its events", 14, {4, 1, 1, 1, 1, 1, 0, 0, 3, 0, 1, 7, 8, 9}},
	{"more bytes than its events", 14, {6, 1, 1, 1, 1, 1, 0, 0, 3, 0, 1, 7, 8, 9}},
};

HT_TEST(malformed_columns_are_refused)
{
	static const uint8_t proper[] = {5, 1, 1, 1, 1, 1, 0, 0, 3, 0, 1, 7, 8, 9};
	struct bench bench;
	bench_init(&bench);
	ck_assert(decode(&bench, proper, sizeof(proper)));
	ck_assert_mem_eq(bench.piece.data, ((uint8_t[]){3, 0, 7, 8, 9}), 5);
	for (size_t i = 0; i < HT_ARRAY_SIZE(malformed); i++)
		ck_assert_msg(!decode(&bench, malformed[i].bytes, malformed[i].length), "%s",
			malformed[i].says);
	bench_deinit(&bench);
}

/* All events have one shape, whose field `wide` has four or eight bytes; the column of that field
 * is empty. */
static void check_runs_out(struct bench *bench, unsigned int wide)
{
	enum { SHAPE, TIME, ADDR, SIZE, STACK, OTHER, COLUMNS, EVENTS = 1000 };
	const uint8_t tags[] = {(uint8_t)(ABI_EVENT_ALLOC | (wide == TIME ? 3 : 0) << 3 |
					  (wide == ADDR ? 3 : 0) << 5),
		(uint8_t)((wide == SIZE ? 3 : 0) | (wide == STACK ? 3 : 0) << 2)};
	struct bytes_out columns = {0};
	uint64_t event_bytes = 2 + 4 - 1 + (wide == STACK ? 4 : 8);
	ck_no_err(bytes_out_uleb(&columns, wide == OTHER ? EVENTS * 9 : EVENTS * event_bytes));
	ck_no_err(bytes_out_uleb(&columns, 1));
	for (unsigned int i = 0; i < COLUMNS; i++) {
		bool is_there = i == SHAPE || (wide != OTHER && i != OTHER && i != wide);
		ck_no_err(bytes_out_uleb(&columns, is_there ? EVENTS : 0));
	}
	ck_no_err(bytes_out_put(&columns, tags, sizeof(tags)));
	for (unsigned int i = 0; i < (wide == OTHER ? 1 : COLUMNS - 2) * EVENTS; i++)
		ck_no_err(bytes_out_u8(&columns, wide != OTHER));
	ck_assert(!decode(bench, columns.data, columns.length));
	bytes_out_deinit(&columns);
}

HT_TEST(a_column_that_runs_out_is_not_left_far_behind)
{
	struct bench bench;
	bench_init(&bench);
	for (unsigned int wide = 1; wide <= 5; wide++)
		check_runs_out(&bench, wide);
	/* 31 events without a shape have one byte in all, but claim 20 bytes each. */
	uint8_t columns[9 + 32] = {(31 * 20 & 0x7f) | 0x80, 31 * 20 >> 7, 0, 31, 0, 0, 0, 0, 1};
	columns[sizeof(columns) - 1] = ABI_EVENT_ALLOC | 3 << 3 | 3 << 5;
	ck_assert(!decode(&bench, columns, sizeof(columns)));
	bench_deinit(&bench);
}

HT_TEST(columns_are_appended)
{
	struct bench bench;
	bool is_done;
	bench_init(&bench);
	ck_no_err(bytes_out_put(&bench.columns, "abc", 3));
	ck_no_err(columns_encode(bench.encoder, bytes_of(golden_piece, sizeof(golden_piece)),
		&bench.columns, &is_done));
	ck_assert(is_done);
	ck_assert_uint_eq(bench.columns.length, 3 + sizeof(golden_columns));
	ck_assert_mem_eq(bench.columns.data + 3, golden_columns, sizeof(golden_columns));
	ck_no_err(bytes_out_put(&bench.piece, "de", 2));
	ck_no_err(columns_decode(
		bytes_of(golden_columns, sizeof(golden_columns)), &bench.scratch, &bench.piece));
	ck_assert_uint_eq(bench.piece.length, 2 + sizeof(golden_piece));
	ck_assert_mem_eq(bench.piece.data, "de", 2);
	ck_assert_mem_eq(bench.piece.data + 2, golden_piece, sizeof(golden_piece));
	bench_deinit(&bench);
}

HT_SUITE("format/columns")
