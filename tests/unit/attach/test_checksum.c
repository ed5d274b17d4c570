/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/memory/checksum.h"

#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/random.h"

#define BYTES 200u

HT_TEST(every_changed_bit_shows)
{
	uint8_t data[BYTES];
	uint64_t random = 1;
	for (size_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)random_next(&random);
	for (size_t bytes = 1; bytes <= BYTES; bytes++) {
		uint64_t sum = checksum(7, data, bytes);
		for (size_t bit = 0; bit < 8 * bytes; bit++) {
			data[bit / 8] ^= (uint8_t)(1u << bit % 8);
			ck_assert_uint_ne(checksum(7, data, bytes), sum);
			data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		ck_assert_uint_eq(checksum(7, data, bytes), sum);
		ck_assert_uint_ne(checksum(8, data, bytes), sum);
	}
}

HT_TEST(length_and_order_show)
{
	static const uint8_t zero[BYTES];
	uint8_t data[BYTES];
	for (size_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(i / 8);
	uint64_t sum = checksum(0, data, BYTES);
	for (size_t bytes = 0; bytes < BYTES; bytes++)
		ck_assert_uint_ne(checksum(0, zero, bytes), checksum(0, zero, bytes + 1));
	/* Two words change places. */
	for (size_t i = 0; i + 8 < BYTES; i += 8) {
		uint8_t other[BYTES];
		memcpy(other, data, BYTES);
		memcpy(other, data + i, 8);
		memcpy(other + i, data, 8);
		if (i)
			ck_assert_uint_ne(checksum(0, other, BYTES), sum);
	}
}

HT_SUITE("attach/memory/checksum")
