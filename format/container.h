/* SPDX-License-Identifier: Apache-2.0
 *
 * The container of a trace file: magics, header, footer (FORMAT.md, "Container"). Internal to
 * writer.c and reader.c, except trace_crc32.
 */
#pragma once

#include "format/bytes.h"

#define TRACE_MAJOR	   2u
#define TRACE_MINOR	   5u
#define TRACE_MAJOR_OLDEST 1u /* the oldest major version that the reader accepts */

/* Header and footer are skippable frames of LZ4, so that lz4(1) passes over them; blocks are LZ4
 * frames. */
#define TRACE_SKIPPABLE_MAGIC 0x184D2A5Eu
#define TRACE_BLOCK_MAGIC     0x184D2204u
#define TRACE_SKIPPABLE_BYTES 8u /* magic, payload length */

#define TRACE_TAG_BYTES	  4u
#define TRACE_HEADER_TAG  "HTAP"
#define TRACE_FOOTER_TAG  "HTIX"
#define TRACE_TRAILER_TAG "HTND"

/* Header payload: tag, u16 major, u16 minor, additions of newer versions, u32 crc. */
#define TRACE_HEADER_MIN 12u
#define TRACE_HEADER_MAX 4096u

/* Footer payload: tag, index entries, trailer. The crc covers the payload up to itself. */
struct trace_trailer {
	uint64_t blocks;
	uint64_t records;
	uint64_t footer_offset; /* of the footer's skippable frame, from the trace's first byte */
	uint32_t crc;
	uint8_t tag[TRACE_TAG_BYTES];
};

_Static_assert(sizeof(struct trace_trailer) == 32, "the trailer is the file's last 32 bytes");

#define TRACE_FOOTER_MIN (TRACE_TAG_BYTES + sizeof(struct trace_trailer))

/* CRC-32 as in zlib and in .gnu_debuglink: continues `crc`, which starts at 0. */
HT_MUST_CHECK
uint32_t trace_crc32(uint32_t crc, const void *data, size_t length);
