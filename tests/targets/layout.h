/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets in the agent's memory (format/abi_control.h), for a program that attacks it and includes
 * no header of heaptap. tests/integration/test_hostile.c checks them.
 */
#pragma once

#define LAYOUT_THUNKS  0x0u
#define LAYOUT_CONFIG  0x40000u
#define LAYOUT_JOURNAL 0x41000u
#define LAYOUT_FOLLOW  424u /* of struct abi_config */

/* Relative to the shared area. */
#define LAYOUT_CONTROL_BYTES 0x1000u
#define LAYOUT_GIVEN_UP	     456u /* of struct abi_control */
#define LAYOUT_EXEC_ASKS     472u /* of struct abi_control */
#define LAYOUT_TABLE	     (LAYOUT_CONTROL_BYTES + 16u * 16384u)
#define LAYOUT_NODES	     (LAYOUT_TABLE + (1u << 24))
#define LAYOUT_FUNCTIONS     (LAYOUT_NODES + (1u << 24))
#define LAYOUT_LAST	     (LAYOUT_FUNCTIONS + (1u << 23))
#define LAYOUT_SAMPLES	     (LAYOUT_LAST + (1u << 17))
#define LAYOUT_DEEP	     (LAYOUT_SAMPLES + (1u << 20) + (1u << 22))
#define LAYOUT_SLOTS	     (LAYOUT_DEEP + 16u * 0x19d000u)
#define LAYOUT_SLOT_BYTES    0x40000u
