/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer that goes on: server-sent events. One that is read slowly misses messages, and gets the
 * last.
 */
#pragma once

#include "analyzer/serve/follow.h"

/* Begins the answer, with the message that there is. */
enum MHD_Result stream_begin(struct follow *follow, struct MHD_Connection *connection);
/* There is a new message, or the end. */
void stream_wake_all(struct follow *follow);
