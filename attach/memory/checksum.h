/* SPDX-License-Identifier: Apache-2.0
 *
 * Says fast whether bytes are what they were: against damage and accident, not against somebody who
 * chooses the bytes.
 */
#pragma once

#include "format/base.h"

/* Goes on from `seed`: the checksum of what came before, or 0. Bytes that differ only within one
 * aligned word of 8 always differ in their checksum. */
uint64_t checksum(uint64_t seed, const void *data, size_t bytes);
