/* SPDX-License-Identifier: Apache-2.0
 *
 * The jump that an entry hook puts into a function: an opcode and a distance. One byte of it is
 * written; the four behind it are the function's own.
 */
#pragma once

#include <stdint.h>

#include "format/base.h"

#define JUMP_BYTES  5u
#define JUMP_OPCODE 0xe9 /* the first of them */

/* Where the jump at `at` leads to, if its first byte were the opcode. */
raddr_t jump_target(raddr_t at, const uint8_t code[JUMP_BYTES]);
/* Is the code at `at` the jump to `to`? A debugger's breakpoints may stand in its distance; another
 * tool's jump begins with the same byte, and only the distance tells it. */
bool jump_leads(raddr_t at, const uint8_t code[JUMP_BYTES], raddr_t to);
