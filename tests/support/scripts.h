/* SPDX-License-Identifier: Apache-2.0
 *
 * Node.js scripts that report their progress. Included once by each test program.
 */
#pragma once

#include <stdlib.h>

#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define SCRIPTS_ANSWER_MS 30000

/* Waits until the script's count has grown by `rounds`. */
static void scripts_work(struct victim *victim, uint64_t rounds)
{
	char *answer = victim_ask(victim, "count", SCRIPTS_ANSWER_MS);
	uint64_t until = strtoull(answer, NULL, 10) + rounds;
	for (uint64_t now = 0; now < until;) {
		free(answer);
		answer = victim_ask(victim, "count", SCRIPTS_ANSWER_MS);
		now = strtoull(answer, NULL, 10);
	}
	free(answer);
}
