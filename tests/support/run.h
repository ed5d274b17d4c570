/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts programs as a user would, captures their output, and waits for them with a deadline.
 * XDG_CACHE_HOME names a directory of the test. Every function fails the running test on error.
 * Children die with the test process.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

struct run {
	pid_t pid;
	int out_fd, err_fd; /* memfds that hold what the program wrote so far */
	int status;	    /* from waitpid, once the program has ended */
	bool ended;
};

/* Starts argv[0] (a path, or found in PATH) with /dev/null as its stdin. */
void run_start(struct run *run, const char *const argv[]);
/* Like run_start, but the program runs with user and group 65534 instead of root. */
void run_start_as_nobody(struct run *run, const char *const argv[]);
/* Like run_start, but the child calls `prepare(context)` just before exec. */
void run_start_prepared(
	struct run *run, const char *const argv[], void (*prepare)(void *context), void *context);
/* Like run_start, but the program's stdout is `stdout_fd`; run_out then returns "". */
void run_start_to(struct run *run, const char *const argv[], int stdout_fd);

/* Waits until the program has ended. One that runs longer than `limit_ms` is killed and fails the
 * test; time in which a busy machine did not run the test does not count. Returns the exit status,
 * or 128 + the signal that ended the program. */
int run_wait(struct run *run, unsigned limit_ms);
/* heaptap must refuse within 10 s; 5 s more are for the start of the program. */
#define RUN_REFUSAL_MS 15000u
/* Has the program ended? Never waits. */
bool run_has_ended(struct run *run);
/* The output of the program so far, NUL-terminated, malloc'd. */
char *run_out(const struct run *run);
char *run_err(const struct run *run);
/* Kills the program if it still runs, and closes the captured output. */
void run_deinit(struct run *run);

/* run_start, run_wait and run_deinit. Returns the exit status; `ret_out` and `ret_err` (unless
 * NULL) get the output, malloc'd. */
int run_program(const char *const argv[], unsigned limit_ms, char **ret_out, char **ret_err);

/* Path of a file below the build directory under test (HEAPTAP_OUT, default out/release), such as
 * "heaptap" or "tests/targets/ledger". Static buffers, used in turn: valid for the next 7 calls. */
char *run_built(const char *name);

/* The program named by the environment's `variable`. NULL: the variable names no executable; prints
 * that the check of `what` is skipped. */
const char *run_named(const char *what, const char *variable);

/* The monotonic clock, and a pause of one millisecond for polling loops. */
uint64_t run_now_ms(void);
void run_pause(void);

/* Evaluates `condition` every millisecond until it holds; fails the test after `limit_ms`. */
#define run_until(condition, limit_ms)                                                             \
	do {                                                                                       \
		uint64_t run_until_end = run_now_ms() + (limit_ms);                                \
		while (!(condition)) {                                                             \
			ck_assert_msg(run_now_ms() < run_until_end,                                \
				"still not so after %u ms: %s", (unsigned)(limit_ms), #condition); \
			run_pause();                                                               \
		}                                                                                  \
	} while (0)
