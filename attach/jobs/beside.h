/* SPDX-License-Identifier: Apache-2.0
 *
 * A command for whose time another process is recorded (attach -- CMD).
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

struct beside {
	char **words; /* borrowed */
	pid_t pid;    /* 0: not started */
	bool is_over; /* it has ended, or could not be started */
};

/* Starts the command at the first call; has it ended? For limits_options.is_over. */
bool beside_is_over(void *context);
