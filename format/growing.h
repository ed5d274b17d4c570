/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock on the file of a trace while a capture writes it (FORMAT.md, "Cut and damaged files"). By
 * it a reader distinguishes a growing trace from a cut one. No process waits for the lock. The
 * kernel releases it when the last descriptor of the open file closes, even if its owner was
 * killed.
 */
#pragma once

#include "format/base.h"

/* Marks the open file `fd` as being written. Does nothing on a file system without locks. */
void growing_mark(int fd);
/* Whether growing_mark was called for this file through another open file description than that of
 * `fd`, which is still open. */
bool growing_is_marked(int fd);
