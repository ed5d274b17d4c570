/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a piece of events sorted by field, and back (FORMAT.md, 3.8): what is alike stands
 * together, so that compressing it takes less time and leaves less. Nothing of an event's meaning
 * is looked at but how long its fields are; the same bytes come back. Hostile input, both ways.
 */
#pragma once

#include "format/bytes.h"

struct columns_encoder;

HT_MUST_CHECK
struct ht_err *columns_encoder_create(struct columns_encoder **ret);
/* Accepts NULL. */
void columns_encoder_destroy(struct columns_encoder *encoder);

/* Appends the columns of `piece` to `out`. `*ret_done` is false, and nothing was appended, when the
 * piece is not whole events from its first byte to its last one, or longer than a record. */
HT_MUST_CHECK
struct ht_err *columns_encode(
	struct columns_encoder *encoder, struct bytes piece, struct bytes_out *out, bool *ret_done);

/* Appends the piece to `out`: at most TRACE_RECORD_MAX bytes. HT_ERR_FORMAT when the columns are
 * not what an encoder makes; `out` is then as it was. `scratch` is memory for the next call. */
HT_MUST_CHECK
struct ht_err *columns_decode(
	struct bytes columns, struct bytes_out *scratch, struct bytes_out *out);
