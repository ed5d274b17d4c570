/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages with descriptors (SCM_RIGHTS) between processes of heaptap, through a SOCK_SEQPACKET
 * socket.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

#define MESSAGE_FDS_MAX 253u /* the kernel's SCM_MAX_FD */

/* Sends `bytes` of `data` and `fd_count` descriptors, which the caller keeps. `flags` as for
 * sendmsg(2). Never raises SIGPIPE. Returns the bytes sent, or -1 with errno; never EINTR. */
ssize_t message_send(
	int socket, const void *data, size_t bytes, const int *fd, size_t fd_count, int flags);

/* Receives one message of up to `bytes`, with up to `*fd_count` descriptors, which the caller owns;
 * they are close-on-exec. Sets `*fd_count` to their number: smaller than sent if this process has
 * no free descriptor number. Returns the bytes received, 0 if the other end is closed, or -1 with
 * errno and no descriptor; never EINTR. */
ssize_t message_receive(
	int socket, void *data, size_t bytes, int *ret_fd, size_t *fd_count, int flags);

/* Waits until `fd` is readable or closed; false at the deadline. */
bool message_await(int fd, uint64_t deadline_mono_ns);
