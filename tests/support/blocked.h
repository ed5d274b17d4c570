/* SPDX-License-Identifier: Apache-2.0
 *
 * Each function makes a system call that blocks for a long time. Call them in a child of a test.
 */
#pragma once

#define BLOCKED_S 1000 /* the timeout, for calls that take one */

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
/* blocked_semop stores its semaphore's number here, so that the parent can remove the semaphore.
 * Points to shared memory; NULL: not stored. */
extern volatile long *blocked_note;

/* Sleeps until the parent ends, then ends too. */
_Noreturn void blocked_wait_for_parent(void);
