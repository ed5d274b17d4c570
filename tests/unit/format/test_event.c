/* SPDX-License-Identifier: Apache-2.0 */
#include "format/event.h"

#include <stdlib.h>
#include <string.h>

#include "format/abi_hooks.h"
#include "tests/support/eventbuild.h"
#include "tests/support/ht_check.h"

/* Deterministic: a failure is a failure every time. */
static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 32 | *state << 32;
}

/* A value of any magnitude: 0 .. 64 significant bits. */
static uint64_t any_magnitude(uint64_t *state)
{
	unsigned int bits = (unsigned int)(next_random(state) % 65);
	return bits ? next_random(state) >> (64 - bits) : 0;
}

static void encode(struct eventbuild *build, const struct event *event)
{
	switch (event->kind) {
	case ABI_EVENT_ALLOC:
	case ABI_EVENT_REALLOC_END:
		eventbuild_alloc(build, event->kind, event->hook, event->tsc, event->addr,
			event->size, event->stack);
		break;
	case ABI_EVENT_FREE:
	case ABI_EVENT_REALLOC_BEGIN:
		eventbuild_free(
			build, event->kind, event->hook, event->tsc, event->addr, event->size);
		break;
	case ABI_EVENT_REALLOC_FREED:
	case ABI_EVENT_REALLOC_FAIL:
		eventbuild_realloc_done(build, event->kind, event->tsc);
		break;
	case ABI_EVENT_MAPPING:
	case ABI_EVENT_THREAD:
		ck_abort();
	}
}

static void check_event(const struct event *got, const struct event *want)
{
	ck_assert_int_eq(got->kind, want->kind);
	ck_assert_uint_eq(got->hook, want->hook);
	ck_assert_uint_eq(got->tid, want->tid);
	ck_assert_uint_eq(got->tsc, want->tsc);
	ck_assert_uint_eq(got->addr, want->addr);
	ck_assert_uint_eq(got->size, want->size);
	ck_assert_uint_eq(got->stack, want->stack);
}

/* Half of the addresses have come before. */
static uint64_t random_addr(uint64_t *state)
{
	static uint64_t known[16];
	uint64_t *one = &known[next_random(state) % HT_ARRAY_SIZE(known)];
	if (next_random(state) % 2)
		*one = any_magnitude(state);
	return *one;
}

static struct event random_event(uint64_t *state, uint32_t tid, uint64_t tsc_before)
{
	uint64_t step = any_magnitude(state);
	uint64_t room = UINT64_MAX - tsc_before;
	struct event event = {
		.kind = ABI_EVENT_ALLOC + (unsigned int)(next_random(state) % 6),
		.tid = tid,
		.tsc = abi_time_floor(tsc_before + (step < room ? step : room)),
	};
	if (event.kind == ABI_EVENT_REALLOC_FREED || event.kind == ABI_EVENT_REALLOC_FAIL)
		return event;
	event.hook = (uint8_t)(next_random(state) % 16);
	event.addr = random_addr(state);
	event.size = any_magnitude(state);
	if (event.kind == ABI_EVENT_ALLOC || event.kind == ABI_EVENT_REALLOC_END)
		event.stack = (uint32_t)any_magnitude(state) >> next_random(state) % 32;
	return event;
}

HT_TEST(random_events_round_trip)
{
	enum { EVENTS = 32 };
	uint64_t state = 1;
	for (int round = 0; round < 2000; round++) {
		struct event want[EVENTS];
		struct eventbuild build = {0};
		uint64_t tsc = 0;
		uint32_t tid = 0;
		for (int i = 0; i < EVENTS; i++) {
			if (i % 8 == 0) {
				tid = (uint32_t)next_random(&state);
				eventbuild_thread(&build, tid, (uint32_t)i);
			}
			want[i] = random_event(&state, tid, tsc);
			tsc = want[i].tsc;
			encode(&build, &want[i]);
		}
		struct event_decoder decoder = {0};
		struct bytes in = bytes_of(build.out.data, build.out.length);
		struct event got;
		event_decoder_restart(&decoder);
		for (int i = 0; i < EVENTS; i++) {
			ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_OK);
			check_event(&got, &want[i]);
		}
		ck_assert_uint_eq(decoder.level, EVENTS - 8);
		ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_NONE_LEFT);
		ck_assert(decoder.in_step);
		eventbuild_deinit(&build);
	}
}

/* The bytes as abi_event.h describes them, by hand. */
static const uint8_t golden[] = {
	1, 0x39, 0x30, 0, 0, 2, 0, 0, 0,		   /* THREAD 12345, level 2 */
	2 | 1 << 3 | 2 << 5, 0 | 1 << 2 | 5 << 4,	   /* ALLOC, aligned_alloc */
	0x34, 0x12,					   /* time 0x12340 */
	0x00, 0x00, 0x00, 0x02,				   /* 0x10000000 >> 4, zigzag */
	100,						   /* size */
	0x02, 0x01,					   /* stack 0x102 */
	3 | 0 << 3 | 1 << 5, 1 | 3 << 4, 1, 3, 0, 0x00, 1, /* FREE, 32 below, usable 256 */
	7 | 0 << 3, 9,					   /* REALLOC_FAIL */
	3 | 0 << 3 | 0 << 5, 1 << 2 | 3 << 4, 1, 0xb9,	   /* FREE of the first, no size */
};

HT_TEST(the_encoding_is_as_specified)
{
	const struct event want[] = {
		{ABI_EVENT_ALLOC, ABI_HOOK_ALIGNED_ALLOC, 0, 12345, 0x12340, 0x10000000, 100, 0x102,
			0},
		{ABI_EVENT_FREE, ABI_HOOK_FREE, 0, 12345, 0x12350, 0x10000000 - 32, 256, 0, 0},
		{ABI_EVENT_REALLOC_FAIL, 0, 0, 12345, 0x12350 + 0x90, 0, 0, 0, 0},
		{ABI_EVENT_FREE, ABI_HOOK_FREE, 0, 12345, 0x12350 + 0xa0, 0x10000000, 0, 0, 0},
	};
	struct event_decoder decoder = {0};
	struct bytes in = bytes_of(golden, sizeof(golden));
	struct event got;
	struct eventbuild build = {0};
	event_decoder_restart(&decoder);
	eventbuild_thread(&build, 12345, 2);
	for (size_t i = 0; i < HT_ARRAY_SIZE(want); i++) {
		ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_OK);
		check_event(&got, &want[i]);
		encode(&build, &want[i]);
	}
	ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_NONE_LEFT);
	ck_assert_uint_eq(decoder.level, 2);
	ck_assert_uint_eq(build.out.length, sizeof(golden));
	ck_assert_mem_eq(build.out.data, golden, sizeof(golden));
	eventbuild_deinit(&build);
}

HT_TEST(a_piece_continues_the_one_before)
{
	const size_t first_piece = 9 + 11;
	struct event_decoder decoder = {0};
	struct event got;
	event_decoder_restart(&decoder);
	struct bytes in = bytes_of(golden, first_piece);
	ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_OK);
	ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_NONE_LEFT);
	in = bytes_of(golden + first_piece, sizeof(golden) - first_piece);
	ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_OK);
	ck_assert_uint_eq(got.tid, 12345);
	ck_assert_uint_eq(got.tsc, 0x12350);
	ck_assert_uint_eq(got.addr, 0x10000000 - 32);
}

HT_TEST(a_restart_forgets_the_deltas)
{
	struct event_decoder decoder = {0};
	struct event first, second;
	for (int round = 0; round < 2; round++) {
		struct bytes in = bytes_of(golden, sizeof(golden));
		event_decoder_restart(&decoder);
		ck_assert_int_eq(event_next(&decoder, &in, round ? &second : &first), EVENT_OK);
	}
	check_event(&second, &first);
}

/* The piece is cut at every byte, in a buffer that ends there: nothing behind it is read, and no
 * event is made up. */
HT_TEST(a_cut_piece_is_malformed)
{
	const size_t whole[] = {0, 9, 20, 27, 29, 33};
	for (size_t cut = 0; cut <= sizeof(golden); cut++) {
		size_t events = 0;
		bool at_end = false;
		for (size_t i = 0; i < HT_ARRAY_SIZE(whole); i++) {
			at_end |= cut == whole[i];
			events += i >= 2 && cut >= whole[i];
		}
		uint8_t *piece = malloc(cut ? cut : 1);
		memcpy(piece, golden, cut);
		struct event_decoder decoder = {0};
		struct bytes in = bytes_of(piece, cut);
		struct event got;
		event_decoder_restart(&decoder);
		for (size_t i = 0; i < events; i++)
			ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_OK);
		ck_assert_int_eq(event_next(&decoder, &in, &got),
			at_end ? EVENT_NONE_LEFT : EVENT_MALFORMED);
		ck_assert(decoder.in_step == at_end);
		ck_assert_uint_eq(bytes_left(&in), 0);
		free(piece);
	}
}

static void check_malformed(const uint8_t *data, size_t length)
{
	struct event_decoder decoder = {0};
	struct bytes in = bytes_of(data, length);
	struct event got;
	enum event_result result;
	event_decoder_restart(&decoder);
	do {
		result = event_next(&decoder, &in, &got);
	} while (result == EVENT_OK);
	ck_assert_int_eq(result, EVENT_MALFORMED);
	ck_assert(!decoder.in_step);
}

HT_TEST(impossible_events_are_malformed)
{
	const uint8_t kind_0[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	check_malformed(kind_0, sizeof(kind_0));
	check_malformed(golden + 9, sizeof(golden) - 9); /* no thread */
	struct eventbuild build = {0};
	eventbuild_thread(&build, 1, 0);
	eventbuild_realloc_done(&build, ABI_EVENT_REALLOC_FAIL, UINT64_MAX);
	build.tsc = 0;
	eventbuild_realloc_done(&build, ABI_EVENT_REALLOC_FAIL, ABI_TIME_UNIT); /* time wraps */
	check_malformed(build.out.data, build.out.length);
	eventbuild_deinit(&build);
	const uint8_t beyond[] = {1, 1, 0, 0, 0, 1, 0, 0, 0, 7 | 3 << 3, 0, 0, 0, 0, 0, 0, 0, 0x10};
	check_malformed(beyond, sizeof(beyond));
}

HT_TEST(nothing_is_decoded_out_of_step)
{
	struct event_decoder decoder = {0};
	struct event got;
	for (int round = 0; round < 2; round++) {
		struct bytes in = bytes_of(golden, sizeof(golden));
		ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_MALFORMED);
		ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_NONE_LEFT);
	}
	struct bytes in = bytes_of(golden, sizeof(golden));
	event_decoder_restart(&decoder);
	ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_OK);
}

/* A mapping, made by hand: THREAD, the five words, and THREAD again. */
static const uint8_t golden_mapping[] = {
	1, 7, 0, 0, 0, 0, 0, 0, 0,				  /* THREAD 7, level 0 */
	1 | 1 << 3, 0x10, 0x20, 0, 0, 0, 0, 0, 0,		  /* time */
	1 | 2 << 3, 0, 0x10, 0, 0, 0, 0, 0, 0x40,		  /* address */
	1 | 3 << 3, 0, 0, 0, 0, 1, 0, 0, 0,			  /* length */
	1 | 4 << 3, 9, 0, 0, 0, ABI_CALL_PROTECT, 3, 0, 0,	  /* stack, call, protection */
	1 | 5 << 3, 0x22, 0, 4, 0, 0, 0, 0, 0,			  /* flags */
	1, 7, 0, 0, 0, 0, 0, 0, 0, 2 | 1 << 5, 0, 2, 6, 0, 16, 5, /* ALLOC */
};

static void check_golden_mapping(const uint8_t *data, size_t length)
{
	struct event_decoder decoder = {0};
	struct event got;
	struct bytes in = bytes_of(data, length);
	event_decoder_restart(&decoder);
	ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_OK);
	ck_assert_int_eq(got.kind, ABI_EVENT_MAPPING);
	ck_assert_uint_eq(got.hook, ABI_CALL_PROTECT);
	ck_assert_uint_eq(got.tid, 7);
	ck_assert_uint_eq(got.tsc, 0x2010);
	ck_assert_uint_eq(got.addr, 0x4000000000001000);
	ck_assert_uint_eq(got.size, 1ull << 32);
	ck_assert_uint_eq(got.stack, 9);
	ck_assert_uint_eq(got.protect, 3);
	ck_assert_uint_eq(got.flags, 0x40022);
	/* The deltas of the next event ignore the words of the mapping. */
	ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_OK);
	ck_assert_int_eq(got.kind, ABI_EVENT_ALLOC);
	ck_assert_uint_eq(got.tid, 7);
	ck_assert_uint_eq(got.tsc, 2 << ABI_TIME_SHIFT);
	ck_assert_uint_eq(got.addr, 48);
	ck_assert_int_eq(event_next(&decoder, &in, &got), EVENT_NONE_LEFT);
}

HT_TEST(words_make_a_mapping)
{
	uint8_t later[sizeof(golden_mapping) + 9];
	check_golden_mapping(golden_mapping, sizeof(golden_mapping));
	/* A word that a later version has. */
	memcpy(later, golden_mapping, 54);
	memset(later + 54, 0x55, 9);
	later[54] = 1 | 6 << 3;
	memcpy(later + 63, golden_mapping + 54, sizeof(golden_mapping) - 54);
	check_golden_mapping(later, sizeof(later));
}

HT_TEST(words_out_of_order_are_malformed)
{
	uint8_t bad[sizeof(golden_mapping)];
	check_malformed(golden_mapping + 9, sizeof(bad) - 9); /* no thread */
	for (unsigned word = 1; word <= ABI_WORDS; word++) {
		for (unsigned other = 0; other <= ABI_WORDS; other++) {
			memcpy(bad, golden_mapping, sizeof(bad));
			bad[word * 9] = (uint8_t)(1 | other << 3);
			/* A THREAD in place of the last word is valid: the decoder only forgets the
			 * words before. */
			if (other != word && (other || word != ABI_WORDS))
				check_malformed(bad, sizeof(bad));
		}
		check_malformed(golden_mapping, word * 9 + 8); /* cut within it */
	}
}

HT_TEST(noise_ends)
{
	uint64_t state = 3;
	for (int round = 0; round < 20000; round++) {
		uint8_t noise[64] = {ABI_EVENT_THREAD};
		size_t length = next_random(&state) % sizeof(noise);
		for (size_t i = 9; i < sizeof(noise); i++)
			noise[i] = (uint8_t)next_random(&state);
		uint8_t *piece = malloc(length ? length : 1);
		memcpy(piece, noise, length);
		struct event_decoder decoder = {0};
		struct bytes in = bytes_of(piece, length);
		struct event got;
		uint64_t tsc = 0;
		event_decoder_restart(&decoder);
		while (event_next(&decoder, &in, &got) == EVENT_OK) {
			if (got.kind == ABI_EVENT_MAPPING)
				continue;
			ck_assert_uint_ge(got.tsc, tsc);
			tsc = got.tsc;
		}
		ck_assert_uint_eq(bytes_left(&in), 0);
		free(piece);
	}
}

HT_TEST(folded_addresses_unfold)
{
	uint64_t state = 4;
	for (int i = 0; i < 10000; i++) {
		uint64_t delta = any_magnitude(&state);
		ck_assert_uint_eq(abi_addr_unfold(abi_addr_fold(delta)), delta);
		ck_assert_uint_eq(abi_addr_unfold(abi_addr_fold(-delta)), -delta);
	}
	ck_assert_uint_eq(abi_addr_fold(16), 2);
	ck_assert_uint_eq(abi_addr_fold(-(uint64_t)16), 1);
}

HT_SUITE("format/event")
