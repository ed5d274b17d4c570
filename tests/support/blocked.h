/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls that block for long, to be made in a child of a test.
 */
#pragma once

#define BLOCKED_S 1000 /* the timeout of those that have one */

long blocked_epoll(void);
long blocked_epoll_timed(void);
long blocked_nanosleep(void);
long blocked_poll(void);
long blocked_ppoll(void);
long blocked_select(void);
long blocked_recv(void);
long blocked_read(void);
long blocked_send(void);
long blocked_accept(void);
long blocked_pipe(void);
long blocked_sigtimedwait(void);
long blocked_semop(void);
long blocked_futex(void);
long blocked_waitpid(void);
/* Where blocked_semop leaves the number of its semaphore, for the parent to remove; shared memory
 * or NULL. */
extern volatile long *blocked_note;

/* Waits for ever; ends with the parent. */
_Noreturn void blocked_wait_for_parent(void);
