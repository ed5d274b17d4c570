/* SPDX-License-Identifier: Apache-2.0 */
#include "format/bytes.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they are");

#define LEB_BYTES_MAX 10u

bool bytes_take(struct bytes *in, size_t length, const uint8_t **ret)
{
	if (length > bytes_left(in))
		return false;
	*ret = in->at;
	if (length) /* `at` may be NULL */
		in->at += length;
	return true;
}

static bool take_copy(struct bytes *in, void *ret, size_t length)
{
	const uint8_t *from;
	if (!bytes_take(in, length, &from))
		return false;
	memcpy(ret, from, length);
	return true;
}

bool bytes_u8(struct bytes *in, uint8_t *ret)
{
	return take_copy(in, ret, sizeof(*ret));
}

bool bytes_u16(struct bytes *in, uint16_t *ret)
{
	return take_copy(in, ret, sizeof(*ret));
}

bool bytes_u32(struct bytes *in, uint32_t *ret)
{
	return take_copy(in, ret, sizeof(*ret));
}

bool bytes_u64(struct bytes *in, uint64_t *ret)
{
	return take_copy(in, ret, sizeof(*ret));
}

/* Length of the LEB128 at the front of `in`; 0 if it does not end within 10 bytes. */
static size_t leb_length(const struct bytes *in)
{
	size_t left = bytes_left(in);
	size_t limit = left < LEB_BYTES_MAX ? left : LEB_BYTES_MAX;
	for (size_t i = 0; i < limit; i++) {
		if (!(in->at[i] & 0x80))
			return i + 1;
	}
	return 0;
}

static uint64_t leb_bits(const uint8_t *at, size_t length)
{
	uint64_t value = 0;
	for (size_t i = 0; i < length; i++)
		value |= (uint64_t)(at[i] & 0x7f) << 7 * i;
	return value;
}

bool bytes_uleb(struct bytes *in, uint64_t *ret)
{
	size_t length = leb_length(in);
	if (!length || (length == LEB_BYTES_MAX && in->at[length - 1] > 1))
		return false;
	*ret = leb_bits(in->at, length);
	in->at += length;
	return true;
}

bool bytes_sleb(struct bytes *in, int64_t *ret)
{
	size_t length = leb_length(in);
	if (!length)
		return false;
	uint8_t last = in->at[length - 1];
	if (length == LEB_BYTES_MAX && last != 0 && last != 0x7f)
		return false;
	uint64_t value = leb_bits(in->at, length);
	if (last & 0x40 && length < LEB_BYTES_MAX)
		value |= UINT64_MAX << 7 * length;
	*ret = (int64_t)value;
	in->at += length;
	return true;
}

void bytes_out_deinit(struct bytes_out *out)
{
	free(out->data);
	*out = (struct bytes_out){0};
}

struct ht_err *bytes_out_reserve(struct bytes_out *out, size_t more)
{
	if (more <= out->capacity - out->length)
		return NULL;
	if (more > SIZE_MAX / 4 - out->length)
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu bytes", more);
	size_t capacity = out->capacity ? out->capacity : 64;
	while (capacity < out->length + more)
		capacity *= 2;
	uint8_t *data = realloc(out->data, capacity);
	if (!data)
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu bytes", capacity);
	out->data = data;
	out->capacity = capacity;
	return NULL;
}

struct ht_err *bytes_out_put(struct bytes_out *out, const void *data, size_t length)
{
	if (!length)
		return NULL;
	HT_TRY(bytes_out_reserve(out, length));
	memcpy(out->data + out->length, data, length);
	out->length += length;
	return NULL;
}

struct ht_err *bytes_out_u8(struct bytes_out *out, uint8_t value)
{
	return bytes_out_put(out, &value, sizeof(value));
}

struct ht_err *bytes_out_u64(struct bytes_out *out, uint64_t value)
{
	return bytes_out_put(out, &value, sizeof(value));
}

struct ht_err *bytes_out_uleb(struct bytes_out *out, uint64_t value)
{
	uint8_t leb[LEB_BYTES_MAX];
	size_t length = 0;
	while (value > 0x7f) {
		leb[length++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	leb[length++] = (uint8_t)value;
	return bytes_out_put(out, leb, length);
}
