/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a descriptor.
 */
#pragma once

#include <errno.h>
#include <unistd.h>

#include "format/base.h"

/* Closes `*fd` unless it is -1, and makes it so. errno stays. */
static inline void fd_close(int *fd)
{
	int sys = errno;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = sys;
}

/* In front of a local descriptor: it is closed where its scope ends. */
#define FD_GUARD HT_CLEANUP(fd_close)
