/* SPDX-License-Identifier: Apache-2.0
 *
 * Distances in code: a jump, a call or an address relative to the instruction has a signed number
 * of 32 bits, counted from the instruction's end.
 */
#pragma once

#include <string.h>

#include "format/base.h"

/* The address that the distance at `code` leads to. `end`: where its instruction ends. */
static inline raddr_t distance_target(const uint8_t *code, raddr_t end)
{
	int32_t distance;
	memcpy(&distance, code, sizeof(distance));
	return end + (raddr_t)(int64_t)distance;
}
