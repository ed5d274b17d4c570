/* SPDX-License-Identifier: Apache-2.0
 *
 * Hands a slot's buffer to the daemon: over the socket, or by waiting until the daemon has copied
 * it from the shared memory where system calls are forbidden.
 */
#pragma once

#include "format/abi_control.h"

/*
 * True: the daemon has read, or will read, all committed bytes. False: they are lost; `*ret_loss`
 * says why. Waits at most abi_config.wait_cycles_max; with ABI_FLAG_LOSSLESS the limit applies only
 * after abi_config.stop is set.
 */
HT_MUST_CHECK
bool send_buffer(const struct abi_config *config, struct abi_slot *slot, enum abi_loss *ret_loss);
