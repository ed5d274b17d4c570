/* SPDX-License-Identifier: Apache-2.0
 *
 * The jump that an entry hook makes of a function's first bytes: an opcode and a distance. Only the
 * opcode's byte is written; the four bytes behind it are the function's own.
 */
#pragma once

#include <stdint.h>

#include "format/base.h"

#define JUMP_BYTES  5u
#define JUMP_OPCODE 0xe9 /* the first of them */

/* The destination of a jump at `at` if its first byte were the opcode. */
raddr_t jump_target(raddr_t at, const uint8_t code[JUMP_BYTES]);
/* Is the code at `at` the jump to `to`? A debugger's breakpoints may be in its distance. Another
 * tool's jump begins with the same byte: only the distance distinguishes it. */
bool jump_leads(raddr_t at, const uint8_t code[JUMP_BYTES], raddr_t to);
