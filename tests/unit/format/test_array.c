/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays grow when they are full, keep what they have, and stay as they are without memory.
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
	/* Volatile: the compiler warns of what it can see. */
	volatile size_t too_many = SIZE_MAX / sizeof(*array) / 2 + 1;
	size_t capacity = too_many, was = capacity;
	ck_assert(!ARRAY_HAS_ROOM(array, capacity, capacity, FIRST));
	ck_assert_ptr_eq(array, before);
	ck_assert_uint_eq(capacity, was);
	free(array);
#endif
}

HT_SUITE("format/array")
