/* SPDX-License-Identifier: Apache-2.0 */
#include "format/container.h"

#define CRC32_POLYNOMIAL 0xedb88320u

uint32_t trace_crc32(uint32_t crc, const void *data, size_t length)
{
	static uint32_t table[256]; /* made by the first call */
	const uint8_t *at = data;
	for (uint32_t i = 0; !table[255] && i < 256; i++) {
		uint32_t value = i;
		for (unsigned bit = 0; bit < 8; bit++)
			value = value >> 1 ^ (value & 1 ? CRC32_POLYNOMIAL : 0);
		table[i] = value;
	}
	crc = ~crc;
	for (size_t i = 0; i < length; i++)
		crc = table[(crc ^ at[i]) & 0xff] ^ crc >> 8;
	return ~crc;
}
