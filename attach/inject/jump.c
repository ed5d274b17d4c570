/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/jump.h"

#include <string.h>

#include "attach/thread/regs.h"

raddr_t jump_target(raddr_t at, const uint8_t code[JUMP_BYTES])
{
	int32_t far;
	memcpy(&far, code + 1, sizeof(far));
	return at + JUMP_BYTES + (raddr_t)(int64_t)far;
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
