/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds-checked reading and growing writing of bytes. Every parser of hostile input goes through
 * `struct bytes`: a failed read returns false, leaves the result untouched and does not advance.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

struct bytes {
	const uint8_t *at;
	const uint8_t *end;
};

static inline struct bytes bytes_of(const void *data, size_t length)
{
	/* `data` may be NULL if `length` is 0. */
	return (struct bytes){.at = data, .end = length ? (const uint8_t *)data + length : data};
}

static inline size_t bytes_left(const struct bytes *in)
{
	return (size_t)(in->end - in->at);
}

/* Numbers of fixed length are little-endian. */
HT_MUST_CHECK
bool bytes_u8(struct bytes *in, uint8_t *ret);
HT_MUST_CHECK
bool bytes_u16(struct bytes *in, uint16_t *ret);
HT_MUST_CHECK
bool bytes_u32(struct bytes *in, uint32_t *ret);
HT_MUST_CHECK
bool bytes_u64(struct bytes *in, uint64_t *ret);
/* LEB128, at most 10 bytes, value within 64 bits; anything else fails. */
HT_MUST_CHECK
bool bytes_uleb(struct bytes *in, uint64_t *ret);
HT_MUST_CHECK
bool bytes_sleb(struct bytes *in, int64_t *ret);
/* A view of the next `length` bytes. */
HT_MUST_CHECK
bool bytes_take(struct bytes *in, size_t length, const uint8_t **ret);

/* A growing buffer. Zero-initialised is empty and valid. The functions below fail only with
 * HT_ERR_NOMEM, and the buffer then holds what it held before. */
struct bytes_out {
	uint8_t *data;
	size_t length;
	size_t capacity;
};

void bytes_out_deinit(struct bytes_out *out);
/* Makes room for `more` bytes behind the used ones. */
HT_MUST_CHECK
struct ht_err *bytes_out_reserve(struct bytes_out *out, size_t more);
HT_MUST_CHECK
struct ht_err *bytes_out_put(struct bytes_out *out, const void *data, size_t length);
HT_MUST_CHECK
struct ht_err *bytes_out_u8(struct bytes_out *out, uint8_t value);
HT_MUST_CHECK
struct ht_err *bytes_out_u64(struct bytes_out *out, uint64_t value);
HT_MUST_CHECK
struct ht_err *bytes_out_uleb(struct bytes_out *out, uint64_t value);
