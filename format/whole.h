/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes of a whole length, whatever the kernel transfers with each call.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

/* Reads `bytes` bytes, or fewer if the file ends before. Returns their number; -1 with errno. */
ssize_t whole_read(int fd, void *ret, size_t bytes);
/* False, with errno, if not all bytes could be written. */
HT_MUST_CHECK
bool whole_write(int fd, const void *data, size_t bytes);
