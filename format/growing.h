/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock on the file of a trace while a capture writes it (FORMAT.md, "Cut and damaged files"): by
 * it a reader tells a trace that grows from one that was cut. Nothing ever waits for the lock, and
 * the kernel releases it when the last descriptor of the open file is closed, however its owner
 * ended.
 */
#pragma once

#include "format/base.h"

/* Marks the open file `fd` as being written. Some file systems have no locks: then nothing happens.
 */
void growing_mark(int fd);
/* Is the file marked by another open file description than that of `fd`? */
bool growing_is_marked(int fd);
