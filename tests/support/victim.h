/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of tests/targets under test. All of them speak the same language on stdin and stdout:
 *
 *      ready PID       printed when it is up, with its threads started and its handlers installed
 *      ping            answered by "pong" (it is alive and its main loop turns)
 *      stop            checks its own results, then exits with 0, or with 2 and a reason on stderr
 *
 * and some know more commands, answered by one line each. A victim lets any process of the same
 * user trace it, also where Yama restricts that, and dies with the test process.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "format/base.h"

struct victim {
	pid_t pid;
	int in_fd, out_fd;   /* its stdin and stdout */
	char pending[65536]; /* read and not yet returned */
	size_t pending_bytes;
};

/* Starts it and waits for its "ready PID". `argv[0]` is a path. */
void victim_start(struct victim *victim, const char *const argv[]);
/* Like victim_start, but the victim gets the PID `pid`, which must be free (needs
 * CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN). The victim ends when its stdin is closed, not when the
 * calling thread ends. */
void victim_start_as(struct victim *victim, pid_t pid, const char *const argv[]);
/* Sends one line. */
void victim_send(struct victim *victim, const char *command);
/* The next line that the victim prints, without newline, malloc'd. Fails the test if the victim
 * prints nothing for `limit_ms`, or ends. */
char *victim_line(struct victim *victim, unsigned limit_ms);
/* Waits until the victim prints something or ends. False after `limit_ms`; time in which a busy
 * machine did not run the test does not count. */
bool victim_await(const struct victim *victim, unsigned limit_ms);
/* Fails the test with the message that the victim did `what`, and with the state of each thread if
 * its PID is known. */
_Noreturn void victim_complain(const struct victim *victim, const char *what, unsigned limit_ms);
/* Sends one line; returns the answer as victim_line does. */
char *victim_ask(struct victim *victim, const char *command, unsigned limit_ms);
/* Fails the test unless the victim answers "ping". */
void victim_prove_alive(struct victim *victim);
/* Lets it check itself and end; fails the test unless it exits with 0. */
void victim_stop(struct victim *victim);
/* Waits for its end. Returns the exit status, or 128 + the signal that ended it. After `limit_ms`
 * kills it and fails the test. */
int victim_wait(struct victim *victim, unsigned limit_ms);
/* SIGKILL, and waits. */
void victim_kill(struct victim *victim);

/* Writes into the process's memory, read-only pages too, as a debugger does. */
void victim_poke(pid_t pid, uint64_t addr, const void *bytes, size_t count);
/* The address of the first byte of the process's C library's code, or with `last` of the last
 * byte. */
uint64_t victim_libc(pid_t pid, bool last);
