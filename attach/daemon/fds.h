/* SPDX-License-Identifier: Apache-2.0
 *
 * The descriptors of a process that was forked for one task.
 */
#pragma once

#include "format/base.h"

/* Closes all descriptors but these, which get sorted; negative ones stand for none. False: some may
 * still be open. */
HT_MUST_CHECK
bool fds_close_all_but(int *kept, size_t count);
