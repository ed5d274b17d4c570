/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/jump.h"

#include <string.h>

#include "attach/elf/distance.h"
#include "attach/thread/regs.h"

raddr_t jump_target(raddr_t at, const uint8_t code[JUMP_BYTES])
{
	return distance_target(code + 1, at + JUMP_BYTES);
}

bool jump_leads(raddr_t at, const uint8_t code[JUMP_BYTES], raddr_t to)
{
	uint8_t made[JUMP_BYTES] = {JUMP_OPCODE};
	int32_t far = (int32_t)(to - at - JUMP_BYTES);
	memcpy(made + 1, &far, sizeof(far));
	for (size_t i = 0; i < JUMP_BYTES; i++)
		if (code[i] != made[i] && (i == 0 || code[i] != REGS_BREAKPOINT))
			return false;
	return true;
}
