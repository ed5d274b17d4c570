/* SPDX-License-Identifier: Apache-2.0 */
#include "format/foreign.h"

#include <string.h>

size_t foreign_decode(const char *at, size_t left, uint32_t *ret)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	uint8_t first = (uint8_t)at[0];
	size_t length = first < 0x80   ? 1
			: first < 0xc0 ? 0
			: first < 0xe0 ? 2
			: first < 0xf0 ? 3
				       : 4;
	if (length == 0 || length > left || first >= 0xf8)
		return 0;
	uint32_t point = length == 1 ? first : first & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if (((uint8_t)at[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | ((uint8_t)at[i] & 0x3f);
	}
	if (point < smallest[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		return 0;
	*ret = point;
	return length;
}

bool foreign_is_harmless(uint32_t point)
{
	bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
	bool direction = point == 0x61c || (point >= 0x200b && point <= 0x200f) ||
			 (point >= 0x2028 && point <= 0x202e) ||
			 (point >= 0x2060 && point <= 0x206f) || point == 0xfeff;
	return !control && !direction;
}

void foreign_copy(char *to, size_t bytes, const char *from)
{
	size_t left = strlen(from), put = 0;
	while (left) {
		uint32_t point = '?';
		size_t size = foreign_decode(from, left, &point);
		size_t step = size ? size : 1;
		if (foreign_is_harmless(point)) {
			if (step >= bytes - put)
				break;
			memmove(to + put, size ? from : "?", step);
			put += step;
		}
		from += step;
		left -= step;
	}
	to[put] = '\0';
}
