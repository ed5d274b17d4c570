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
	ORDER_FLUSH,   /* answered when all earlier records are written or lost; no events follow */
	ORDER_FINISH,  /* as ORDER_FLUSH, then completes the file; the process ends */
	ORDER_FINISH_NAMED, /* as ORDER_FINISH, and appends the names before the end */
	ORDER_DISCARD,	    /* leaves no file, since nothing was captured; the process ends */
};

/* The head of a message; the encoded record follows. */
struct order {
	uint32_t kind;
	uint32_t length; /* of the record, in bytes */
	uint64_t events; /* in the record */
};

/* Appends a message; `rec`: NULL if the kind has none. After an error the queue is unchanged. */
HT_MUST_CHECK
struct ht_err *orders_put(
	struct bytes_out *queue, enum order_kind kind, const struct rec *rec, uint64_t events);

/* The reading end of the pipe. {.fd = PIPE, .next_fd = -1} is valid. */
struct orders {
	int fd;
	int next_fd;	     /* the pipe to the next process; -1: none */
	struct bytes_out in; /* bytes read whose orders are not carried out yet */
};

/* Waits up to 0.2 s for data and reads it. `*ret_open` is false if no more orders can come or be
 * passed on: the pipe is closed or cannot be read, next_fd has no reader, or no data came and
 * process `parent` (0: any) is no longer the parent. HT_ERR_NOMEM is the only error. */
HT_MUST_CHECK
struct ht_err *orders_receive(struct orders *orders, pid_t parent, bool *ret_open);
/* Calls `carry_out` for each whole message that was read, until `carry_out` returns false; then
 * returns false, too. */
bool orders_carry_out(struct orders *orders,
	bool (*carry_out)(void *context, const struct order *order, const uint8_t *record),
	void *context);
