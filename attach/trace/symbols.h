/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for the trace: at the end of a window heaptap-analyze reads it back and says what its
 * addresses are called. It parses files of the target, so it runs without privileges, in a process
 * of its own.
 */
#pragma once

#include <time.h>

#include "attach/daemon/store.h"
#include "attach/proc/proc.h"
#include "attach/proc/proc_status.h"

/* Of which process: found out while it lives, for when it does not. */
struct symbols_target {
	uid_t uid;
	gid_t gid;
	bool own_rights;   /* it has those of one user: no set-user-ID program */
	pid_t pid, ns_pid; /* its number here, and where it is */
	bool same_mounts;  /* it sees the files that we see */
	bool has_root;	   /* its root directory is among the files handed over */
	time_t started;	   /* or a little before */
};

struct symbols_target symbols_target_of(const struct proc *proc, const struct proc_status *status);

/* Appends REC_SYMBOL records to the trace: for places in files, and in code that the program made
 * if there is a map of it for perf. `files` is the far end of a handover, -1 for none. `problem`
 * gets one line when there are no names or not all; "" else. */
HT_MUST_CHECK
struct ht_err *symbols_append(struct store *store, const struct symbols_target *target, int files,
	char *problem, size_t problem_bytes);

/* Opens heaptap-analyze: beside this program, or in ../libexec/heaptap. -1 when there is none.
 * `path` gets its name. */
int symbols_open_analyzer(char *path, size_t path_bytes);

/* HT_ERR_SYS if there is none; the message names `option`, which needs it. */
HT_MUST_CHECK
struct ht_err *symbols_need_analyzer(const char *option);

/* In a child: becomes heaptap-analyze. Returns if that is not possible. */
void symbols_become_analyzer(char *const argv[]);
