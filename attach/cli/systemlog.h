/* SPDX-License-Identifier: Apache-2.0
 *
 * Is standard error systemd's journal?
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Does JOURNAL_STREAM name the socket that standard error is? See systemd.exec(5). */
bool systemlog_is_stderr(void);
/* For systemlog_is_stderr and tests. `stream`: the value of JOURNAL_STREAM, "DEVICE:INODE"; NULL:
 * not set. */
bool systemlog_is(const char *stream, dev_t device, ino_t inode);
