/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers of a stopped thread other than the general ones (x87, MMX, SSE, AVX ...), as the
 * kernel's bytes. In a system call they are as at its entry.
 */
#pragma once

#include <sys/types.h>

#include "format/err.h"

#define VECTORS_MAX_BYTES 16384u

struct vectors {
	int set; /* the register set, NT_... */
	size_t length;
	uint8_t bytes[VECTORS_MAX_BYTES];
};

/* A range of bytes whose contents come from instructions. */
struct vectors_part {
	size_t lo, hi;
};

#define VECTORS_PARTS 2u

/* Reads the registers; `length` is 0 if the thread was killed while it was stopped. */
HT_MUST_CHECK
struct ht_err *vectors_read(pid_t tid, struct vectors *ret);
void vectors_parts(const struct vectors *vectors, struct vectors_part ret[VECTORS_PARTS]);
HT_MUST_CHECK
struct ht_err *vectors_write(pid_t tid, const struct vectors *vectors);
