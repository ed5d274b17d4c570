/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for the trace: at the end of a window heaptap-analyze reads it back and says what its
 * addresses are called. It parses files of the target, so it runs without privileges, in a process
 * of its own.
 */
#pragma once

#include "attach/daemon/store.h"
#include "attach/target/proc.h"

/* Appends REC_SYMBOL records to the trace. `problem` gets one line when there are no names or not
 * all; "" else. */
HT_MUST_CHECK
struct ht_err *symbols_append(struct store *store, uid_t target_uid, gid_t target_gid,
	char *problem, size_t problem_bytes);

/* Opens heaptap-analyze: beside this program, or in ../libexec/heaptap. -1 when there is none.
 * `path` gets its name. */
int symbols_open_analyzer(char *path, size_t path_bytes);
