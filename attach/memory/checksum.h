/* SPDX-License-Identifier: Apache-2.0
 *
 * A fast checksum against damage and accident. Not against an adversary who chooses the bytes.
 */
#pragma once

#include "format/base.h"

/* Continues from `seed`, the checksum of the bytes before these, or 0. Two inputs that differ only
 * within one aligned 8-byte word always have different checksums. */
uint64_t checksum(uint64_t seed, const void *data, size_t bytes);
