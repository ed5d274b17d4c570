/* SPDX-License-Identifier: Apache-2.0
 *
 * Closing descriptors.
 */
#pragma once

#include <errno.h>
#include <unistd.h>

#include "format/base.h"

/* Closes `*fd` unless it is -1, then sets it to -1. Keeps errno. */
static inline void fd_close(int *fd)
{
	int sys = errno;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = sys;
}

/* Marks a local descriptor that closes at the end of its scope. */
#define FD_GUARD HT_CLEANUP(fd_close)
