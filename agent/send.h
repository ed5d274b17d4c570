/* SPDX-License-Identifier: Apache-2.0
 *
 * Hands a slot's buffer to the daemon over the socket. If system calls are forbidden, waits until
 * the daemon has copied the buffer from the shared memory.
 */
#pragma once

#include "format/abi_control.h"

/*
 * True: the daemon has read, or will read, all committed bytes, or recording has stopped. False:
 * the bytes are lost; `*ret_loss`: the reason. Waits at most abi_config.wait_cycles_max; with
 * ABI_FLAG_LOSSLESS, and as long as the socket can be used, the limit applies only after
 * abi_config.stop is set.
 */
HT_MUST_CHECK
bool send_buffer(const struct abi_config *config, struct abi_slot *slot, enum abi_loss *ret_loss);
