/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer that goes on: server-sent events. One that is read slowly misses messages, and gets the
 * last.
 */
#pragma once

#include "analyzer/serve/follow.h"

/* Begins the answer with the current message. */
enum MHD_Result stream_begin(struct follow *follow, struct MHD_Connection *connection);
/* Call when there is a new message, or at the end. */
void stream_wake_all(struct follow *follow);
