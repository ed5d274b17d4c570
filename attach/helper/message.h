/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between processes of heaptap's own, with descriptors (SCM_RIGHTS), through a socket of
 * SOCK_SEQPACKET.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define MESSAGE_FDS_MAX 253u /* the kernel's SCM_MAX_FD */

/* Sends `bytes` of `data` and `fd_count` descriptors, which stay the caller's. `flags` as for
 * sendmsg(2); SIGPIPE is never raised. Returns the bytes sent, or -1 with errno; never EINTR. */
ssize_t message_send(
	int socket, const void *data, size_t bytes, const int *fd, size_t fd_count, int flags);

/* Receives one message of up to `bytes`, and up to `*fd_count` descriptors into `ret_fd`, which
 * become the caller's and are closed at exec. `*fd_count` becomes their number: fewer than were
 * sent when this process has no number left for one. Returns the bytes received, 0 when the other
 * end is closed, or -1 with errno and without descriptors; never EINTR. */
ssize_t message_receive(
	int socket, void *data, size_t bytes, int *ret_fd, size_t *fd_count, int flags);
