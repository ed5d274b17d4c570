/* SPDX-License-Identifier: Apache-2.0 */
#include "format/container.h"

#define CRC32_POLYNOMIAL 0xedb88320u

/* Bit by bit is fast enough: it covers only header and index, never the blocks. */
uint32_t trace_crc32(uint32_t crc, const void *data, size_t length)
{
	const uint8_t *at = data;
	crc = ~crc;
	for (size_t i = 0; i < length; i++) {
		crc ^= at[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? CRC32_POLYNOMIAL : 0);
	}
	return ~crc;
}
