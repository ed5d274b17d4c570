/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints processes for the user to choose from.
 */
#pragma once

#include "attach/process/find.h"

/* A table on standard error: PID, user, age, resident memory, command line. */
void print_found(const struct found_list *list);
