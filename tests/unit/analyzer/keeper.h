/* SPDX-License-Identifier: Apache-2.0
 *
 * The test takes the part of a capture's keeper, the process that passes requests to the capture:
 * it receives requests and answers them.
 */
#pragma once

#include <sys/socket.h>

#include "format/control.h"
#include "tests/support/ht_check.h"

#define KEEPER_TURNS_MAX 100

struct scene;

/* Calls `turn` until the keeper gets a request, which must have this verb, then sends `reply` and
 * calls `turn` once more. Fails the test after KEEPER_TURNS_MAX calls without a request. */
static inline void keeper_answer(int keeper, enum control_verb verb,
	const struct control_reply *reply, void (*turn)(struct scene *scene), struct scene *scene)
{
	struct control_request request;
	for (int i = 0; i < KEEPER_TURNS_MAX; i++) {
		if (recv(keeper, &request, sizeof(request), MSG_DONTWAIT) ==
			(ssize_t)sizeof(request)) {
			ck_assert_int_eq(request.verb, verb);
			ck_assert_int_eq(
				send(keeper, reply, sizeof(*reply), 0), (int)sizeof(*reply));
			turn(scene);
			return;
		}
		turn(scene);
	}
	ck_abort_msg("the capture is not asked");
}
