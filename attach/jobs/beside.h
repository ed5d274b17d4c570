/* SPDX-License-Identifier: Apache-2.0
 *
 * The command of attach -- CMD: while it runs, heaptap records another process.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

struct beside {
	char **words; /* borrowed */
	pid_t pid;    /* 0: not started */
	bool is_over; /* it has ended, or could not be started */
};

/* Starts the command at the first call. Has the command ended? True also if it cannot be started,
 * after a message that says why. `context`: a struct beside. For limits_options.is_over. */
bool beside_is_over(void *context);
