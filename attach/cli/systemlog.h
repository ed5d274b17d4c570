/* SPDX-License-Identifier: Apache-2.0
 *
 * Is standard error the journal of systemd?
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* JOURNAL_STREAM names the socket that is standard error: systemd.exec(5). */
bool systemlog_is_stderr(void);
/* `stream`: the value of JOURNAL_STREAM, "DEVICE:INODE"; NULL: there is none. */
bool systemlog_is(const char *stream, dev_t device, ino_t inode);
