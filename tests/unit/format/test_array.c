/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays grow when they are full and keep their elements. Without memory an array stays as it is.
 * Sorted arrays are searched by key.
 */
#include "format/array.h"

#include <stdio.h>

#include "tests/support/ht_check.h"

#define FIRST 3u
#define MANY  100u

HT_TEST(grows_when_it_is_full)
{
	HT_FREED uint32_t *array = NULL;
	size_t count = 0, capacity = 0, grown = 0;
	while (count < MANY) {
		size_t before = capacity;
		ck_assert(ARRAY_HAS_ROOM(array, count, capacity, FIRST));
		ck_assert_uint_lt(count, capacity);
		grown += capacity != before;
		if (capacity != before)
			ck_assert_uint_eq(capacity, before ? 2 * before : FIRST);
		array[count] = (uint32_t)count;
		count++;
	}
	ck_assert_uint_eq(grown, 7); /* 3, 6, 12, 24, 48, 96, 192 */
	for (size_t i = 0; i < count; i++)
		ck_assert_uint_eq(array[i], i);
}

HT_TEST(without_memory_nothing_changes)
{
#ifdef __SANITIZE_ADDRESS__
	printf("skipped: array: ASan ends the process that asks for too much\n");
#else
	struct {
		uint8_t bytes[1u << 20];
	} *array = malloc(sizeof(*array)), *before = array;
	/* Volatile: the compiler warns of a constant that is too large. */
	volatile size_t too_many = SIZE_MAX / sizeof(*array) / 2 + 1;
	size_t capacity = too_many, was = capacity;
	ck_assert(!ARRAY_HAS_ROOM(array, capacity, capacity, FIRST));
	ck_assert_ptr_eq(array, before);
	ck_assert_uint_eq(capacity, was);
	free(array);
#endif
}

HT_TEST(reserved_elements_are_zero)
{
	HT_FREED uint32_t *array = NULL;
	size_t capacity = 0, filled = 0;
	while (filled < MANY) {
		ck_no_err(ARRAY_RESERVE(array, capacity, filled + 1, "numbers"));
		ck_assert_uint_gt(capacity, filled);
		for (; filled < capacity; filled++) {
			ck_assert_uint_eq(array[filled], 0);
			array[filled] = (uint32_t)filled + 1;
		}
	}
	for (size_t i = 0; i < filled; i++)
		ck_assert_uint_eq(array[i], i + 1);
}

HT_TEST(the_first_element_from_a_key_on_is_found)
{
	static const struct {
		uint64_t key;
		char other;
	} array[] = {{2, 'a'}, {5, 'b'}, {5, 'c'}, {UINT64_MAX, 'd'}};
	static const struct {
		uint64_t key;
		size_t index;
	} want[] = {{0, 0}, {2, 0}, {3, 1}, {5, 1}, {6, 3}, {UINT64_MAX, 3}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(want); i++)
		ck_assert_uint_eq(
			array_from(array, HT_ARRAY_SIZE(array), sizeof(array[0]), want[i].key),
			want[i].index);
	ck_assert_uint_eq(array_from(array, 1, sizeof(array[0]), 3), 1);
	ck_assert_uint_eq(array_from(NULL, 0, sizeof(array[0]), 5), 0);
}

HT_SUITE("format/array")
