/* SPDX-License-Identifier: Apache-2.0 */
#include "format/bytes.h"

#include <string.h>

#include "tests/support/ht_check.h"

HT_TEST(fixed_widths_are_little_endian)
{
	const uint8_t data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	struct bytes in = bytes_of(data, sizeof(data));
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;
	ck_assert(bytes_u8(&in, &u8) && u8 == 1);
	ck_assert(bytes_u16(&in, &u16) && u16 == 0x0302);
	ck_assert(bytes_u32(&in, &u32) && u32 == 0x07060504);
	ck_assert(bytes_u64(&in, &u64) && u64 == 0x0f0e0d0c0b0a0908);
	ck_assert_uint_eq(bytes_left(&in), 0);
}

HT_TEST(a_short_read_changes_nothing)
{
	const uint8_t data[7] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	for (size_t length = 0; length < sizeof(data); length++) {
		struct bytes in = bytes_of(data, length);
		uint8_t u8 = 5;
		uint16_t u16 = 5;
		uint32_t u32 = 5;
		uint64_t u64 = 5;
		int64_t s64 = 5;
		const uint8_t *view = NULL;
		ck_assert(length >= 1 || !bytes_u8(&in, &u8));
		ck_assert(length >= 2 || !bytes_u16(&in, &u16));
		ck_assert(length >= 4 || !bytes_u32(&in, &u32));
		ck_assert(
			!bytes_u64(&in, &u64) && !bytes_uleb(&in, &u64) && !bytes_sleb(&in, &s64));
		ck_assert(!bytes_take(&in, length + 1, &view) && !bytes_take(&in, SIZE_MAX, &view));
		ck_assert(u8 == 5 && u16 == 5 && u32 == 5 && u64 == 5 && s64 == 5 && !view);
		ck_assert_uint_eq(bytes_left(&in), length);
	}
}

HT_TEST(take_gives_a_view)
{
	const char data[] = "abcdef";
	struct bytes in = bytes_of(data, 6);
	const uint8_t *view;
	ck_assert(bytes_take(&in, 0, &view) && view == (const uint8_t *)data);
	ck_assert(bytes_take(&in, 4, &view) && view == (const uint8_t *)data);
	ck_assert(bytes_take(&in, 2, &view) && view == (const uint8_t *)data + 4);
	ck_assert_uint_eq(bytes_left(&in), 0);
	/* No offset is added to a null pointer: clang's sanitizer would report it. */
	in = (struct bytes){0};
	ck_assert(bytes_take(&in, 0, &view) && !view && !bytes_left(&in));
}

HT_TEST(uleb_round_trips)
{
	for (unsigned int bit = 0; bit <= 64; bit++) {
		uint64_t edge = bit < 64 ? 1ull << bit : 0;
		for (int step = -1; step <= 1; step++) {
			uint64_t value = edge + (uint64_t)step;
			uint64_t ret;
			struct bytes_out out = {0};
			ck_no_err(bytes_out_uleb(&out, value));
			ck_assert_uint_le(out.length, 10);
			struct bytes in = bytes_of(out.data, out.length);
			ck_assert(bytes_uleb(&in, &ret) && ret == value);
			ck_assert_uint_eq(bytes_left(&in), 0);
			bytes_out_deinit(&out);
		}
	}
}

static const struct {
	const char *bytes;
	size_t length;
	bool unsigned_ok, signed_ok;
	uint64_t as_unsigned;
	int64_t as_signed;
} lebs[] = {
	{"\x00", 1, true, true, 0, 0},
	{"\x3f", 1, true, true, 63, 63},
	{"\x40", 1, true, true, 64, -64},
	{"\x7f", 1, true, true, 127, -1},
	{"\x80\x01", 2, true, true, 128, 128},
	{"\x80\x7f", 2, true, true, 0x3f80, -128},
	{"\x85\x80\x00", 3, true, true, 5, 5}, /* padded */
	{"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9, true, true, INT64_MAX, -1},
	{"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 10, true, true, 0, 0},
	{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, true, false, UINT64_MAX, 0},
	{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", 10, true, true, INT64_MAX, INT64_MAX},
	{"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", 10, false, true, 0, INT64_MIN},
	{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, false, false, 0, 0},
	{"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, false, false, 0, 0},
};

HT_TEST(leb_accepts_what_fits_64_bits)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(lebs); i++) {
		uint64_t u = 5;
		int64_t s = 5;
		struct bytes in = bytes_of(lebs[i].bytes, lebs[i].length);
		ck_assert_msg(bytes_uleb(&in, &u) == lebs[i].unsigned_ok, "uleb %zu", i);
		ck_assert_uint_eq(bytes_left(&in), lebs[i].unsigned_ok ? 0 : lebs[i].length);
		ck_assert_uint_eq(u, lebs[i].unsigned_ok ? lebs[i].as_unsigned : 5);
		in = bytes_of(lebs[i].bytes, lebs[i].length);
		ck_assert_msg(bytes_sleb(&in, &s) == lebs[i].signed_ok, "sleb %zu", i);
		ck_assert_uint_eq(bytes_left(&in), lebs[i].signed_ok ? 0 : lebs[i].length);
		ck_assert_int_eq(s, lebs[i].signed_ok ? lebs[i].as_signed : 5);
	}
}

HT_TEST(output_grows_and_keeps_its_bytes)
{
	struct bytes_out out = {0};
	for (unsigned int i = 0; i < 10000; i++)
		ck_no_err(bytes_out_u8(&out, (uint8_t)(i * 7)));
	ck_no_err(bytes_out_u64(&out, 0x0102030405060708));
	ck_no_err(bytes_out_put(&out, NULL, 0));
	ck_assert_uint_eq(out.length, 10008);
	ck_assert_uint_ge(out.capacity, out.length);
	for (unsigned int i = 0; i < 10000; i++)
		ck_assert_uint_eq(out.data[i], (uint8_t)(i * 7));
	ck_assert(!memcmp(out.data + 10000, "\x08\x07\x06\x05\x04\x03\x02\x01", 8));
	bytes_out_deinit(&out);
	ck_assert(!out.data && !out.length && !out.capacity);
}

HT_TEST(reserve_makes_room_behind_the_used_bytes)
{
	struct bytes_out out = {0};
	ck_no_err(bytes_out_u8(&out, 1));
	ck_no_err(bytes_out_reserve(&out, 5000));
	ck_assert_uint_ge(out.capacity - out.length, 5000);
	ck_assert_uint_eq(out.length, 1);
	const uint8_t *before = out.data;
	ck_no_err(bytes_out_reserve(&out, 5000));
	ck_assert_ptr_eq(out.data, before);
	bytes_out_deinit(&out);
}

HT_TEST(an_impossible_size_is_an_error)
{
	struct bytes_out out = {0};
	ck_no_err(bytes_out_u8(&out, 1));
	ck_err(bytes_out_reserve(&out, SIZE_MAX), HT_ERR_NOMEM);
	ck_err(bytes_out_reserve(&out, SIZE_MAX / 2), HT_ERR_NOMEM);
	ck_assert_uint_eq(out.length, 1);
	ck_assert_uint_eq(out.data[0], 1);
	bytes_out_deinit(&out);
}

HT_SUITE("format/bytes")
