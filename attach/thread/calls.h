/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls by what they wait for.
 */
#pragma once

#include <sys/syscall.h>

#include "format/base.h"

/* Wait for data, or a connection, on their first argument (SO_RCVTIMEO). */
#define CALLS_RECEIVING                                                                            \
	SYS_read, SYS_readv, SYS_preadv2, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_accept,     \
		SYS_accept4
/* Wait for room, or a connection, on their first argument (SO_SNDTIMEO). */
#define CALLS_SENDING                                                                              \
	SYS_write, SYS_writev, SYS_pwritev2, SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_sendfile,  \
		SYS_connect
/* Wait for events, messages or semaphores. */
#define CALLS_POLLING                                                                              \
	SYS_epoll_wait, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_rt_sigtimedwait, SYS_io_getevents,  \
		SYS_io_pgetevents, SYS_io_uring_enter, SYS_select, SYS_pselect6, SYS_ppoll,        \
		SYS_semop, SYS_semtimedop, SYS_msgrcv, SYS_msgsnd

/* Is `nr` among the call numbers that follow? */
#define CALLS_INCLUDE(nr, ...)                                                                     \
	calls_include((const int[]){__VA_ARGS__},                                                  \
		sizeof((const int[]){__VA_ARGS__}) / sizeof(int), (nr))

static inline bool calls_include(const int *calls, size_t count, long nr)
{
	for (size_t i = 0; i < count; i++)
		if (calls[i] == nr)
			return true;
	return false;
}
