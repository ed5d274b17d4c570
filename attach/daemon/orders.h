/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders of the daemon to the process that writes the trace, or to the filter before it: messages
 * in a pipe.
 */
#pragma once

#include <sys/types.h>

#include "format/record.h"

enum order_kind {
	ORDER_PUT = 1, /* a record follows, as rec_encode makes it */
	ORDER_FLUSH,   /* answered when all before it is written, or cannot be; no events follow */
	ORDER_FINISH,  /* the same, and the file is complete; then the process ends */
	ORDER_FINISH_NAMED, /* with what is appended at the end */
	ORDER_DISCARD,	    /* nothing was captured; then the process ends */
};

/* A message. */
struct order {
	uint32_t kind;
	uint32_t length; /* of the record */
	uint64_t events; /* in it */
};

/* Appends a message; `rec`: NULL if the kind has none. Nothing is appended after an error. */
HT_MUST_CHECK
struct ht_err *orders_put(
	struct bytes_out *queue, enum order_kind kind, const struct rec *rec, uint64_t events);

/* The reading end. {.fd = PIPE, .next_fd = -1} is valid. */
struct orders {
	int fd;
	int next_fd;	     /* the pipe to the next process; -1: none */
	struct bytes_out in; /* read, but not carried out */
};

/* Waits up to 0.2 s for data and reads it. `*ret_open` is false if there is none and no more is
 * needed: the pipe is closed, next_fd has no reader, or process `parent` (0: any) is not the
 * parent any more. */
HT_MUST_CHECK
struct ht_err *orders_receive(struct orders *orders, pid_t parent, bool *ret_open);
/* Calls `carry_out` for each whole message, until it returns false; then returns false, too. */
bool orders_carry_out(struct orders *orders,
	bool (*carry_out)(void *context, const struct order *order, const uint8_t *record),
	void *context);
