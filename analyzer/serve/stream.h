/* SPDX-License-Identifier: Apache-2.0
 *
 * Server-sent events: answers that stay open. A browser that reads slowly misses messages between,
 * but always gets the last one.
 */
#pragma once

#include <microhttpd.h>

#include "format/base.h"

struct stream;

/* All open streams, and the newest message. */
struct stream_hub {
	struct stream *first;
	size_t count;
	char *message;	     /* owned; the bytes to send; NULL: none yet */
	uint64_t generation; /* number of the message */
	bool has_ended;
};

/* Begins an answer with the current message. */
enum MHD_Result stream_begin(struct stream_hub *hub, struct MHD_Connection *connection);
/* Sends `message` to all streams; takes ownership of it. */
void stream_send_all(struct stream_hub *hub, char *message);
/* Ends all streams; they close in the server's next turn. */
void stream_end_all(struct stream_hub *hub);
/* Call when no stream is open. */
void stream_hub_deinit(struct stream_hub *hub);
