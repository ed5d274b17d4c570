/* SPDX-License-Identifier: Apache-2.0
 *
 * The error object. NULL is success; an error says in one line what failed, why, and what to do.
 * The message is written where the operands are known. Expected outcomes (end of stream, not found,
 * target exited) are values, not errors.
 */
#pragma once

#include "format/base.h"

/* The kind of an error, by which callers decide. attach/series/outcome.c and analyzer/main.c map it
 * to an exit status: heaptap(1), EXIT STATUS. */
enum ht_err_code {
	HT_ERR_SYS,	    /* a system call failed, errno in `sys`: exit 1 */
	HT_ERR_INTERNAL,    /* a broken invariant of our own: exit 1 */
	HT_ERR_NOMEM,	    /* exit 1 */
	HT_ERR_USAGE,	    /* exit 2 */
	HT_ERR_REFUSED,	    /* refused or unsupported, the target was not touched: exit 3 */
	HT_ERR_PERMISSION,  /* the kernel forbids it; names the rule and the remedy: exit 4 */
	HT_ERR_TARGET_GONE, /* the target ended or exec'd: exit 5 */
	HT_ERR_INCOMPLETE, /* the detach is incomplete: something may remain in a process: exit 6 */
	HT_ERR_FORMAT,	   /* malformed trace, ELF or agent data: exit 9 */
};

struct ht_err {
	enum ht_err_code code;
	int sys;       /* errno, or 0 */
	char *message; /* one line, no newline, no full stop; owned */
};

/* Makes an error. Never fails: without memory it returns a static HT_ERR_NOMEM object. */
HT_MUST_CHECK
HT_PRINTF(2, 3) struct ht_err *ht_err_new(enum ht_err_code code, const char *fmt, ...);

/* As ht_err_new(HT_ERR_SYS, ...), and appends ": " and the text of `sys`. */
HT_MUST_CHECK
HT_PRINTF(2, 3) struct ht_err *ht_err_sys(int sys, const char *fmt, ...);

/* Puts "context: " before the message; takes and returns `err` (NULL stays NULL). Without memory
 * the message stays as it is. */
HT_MUST_CHECK
HT_PRINTF(2, 3) struct ht_err *ht_err_wrap(struct ht_err *err, const char *fmt, ...);

/* Frees `err`; NULL and the static objects are accepted. */
void ht_err_free(struct ht_err *err);

/* Frees `err`; true if it was an error. For callers that need only to know that a step failed. */
bool ht_err_drop(struct ht_err *err);

/* Keeps the first of two errors and frees the other: for undo that goes on past a failing step. */
HT_MUST_CHECK
struct ht_err *ht_err_first(struct ht_err *first, struct ht_err *second);

/* Runs a step and stores its error in `err`, unless a step before has failed (`err` is not NULL).
 */
#define HT_THEN(err, ...)                                                                          \
	do {                                                                                       \
		if (!(err))                                                                        \
			(err) = (__VA_ARGS__);                                                     \
	} while (0)

/* Returns from the function with the error that the call gives, if it gives one. What the function
 * holds must be released by guards (HT_CLEANUP) or not be held yet. */
#define HT_TRY(...)                                                                                \
	do {                                                                                       \
		struct ht_err *try_err = (__VA_ARGS__);                                            \
		if (try_err)                                                                       \
			return try_err;                                                            \
	} while (0)
