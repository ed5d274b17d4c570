/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds names to the trace: at the end of a window heaptap-analyze reads the trace, and looks up the
 * names of its addresses. It parses files of the target, so it runs unprivileged in a process of
 * its own.
 */
#pragma once

#include <time.h>

#include "attach/daemon/store.h"
#include "attach/proc/proc.h"
#include "attach/proc/proc_status.h"

/* Facts about the target, read while it lives, for the time when it may have ended. */
struct symbols_target {
	uid_t uid;
	gid_t gid;
	bool own_rights; /* its real, effective and saved user are the same: it runs no set-user-ID
			    program */
	pid_t pid, ns_pid; /* its number in our PID namespace, and in its innermost one */
	bool same_mounts;  /* it is in our mount namespace */
	bool has_root;	   /* its root directory is among the files handed over */
	time_t started;	   /* a time up to 3 s before its start */
};

struct symbols_target symbols_target_of(const struct proc *proc, const struct proc_status *status);

/* Appends records of names to the trace: for addresses in files, and for JIT code if the program
 * writes a perf map. Takes at most a minute, and adds nothing if the output is not a regular file.
 * `files`: the far end of a handover; -1: none. `problem`: one line if some names are missing; else
 * "". Returns errors of this process (HT_ERR_NOMEM), but none of heaptap-analyze. */
HT_MUST_CHECK
struct ht_err *symbols_append(struct store *store, const struct symbols_target *target, int files,
	char *problem, size_t problem_bytes);

/* Opens heaptap-analyze (O_PATH), beside this program or in ../libexec/heaptap; the caller closes
 * the descriptor. -1: there is none. `path`: receives its name. */
int symbols_open_analyzer(char *path, size_t path_bytes);

/* HT_ERR_SYS if there is no heaptap-analyze; the message names `option`, which needs it. */
HT_MUST_CHECK
struct ht_err *symbols_need_analyzer(const char *option);

/* In a child: execs heaptap-analyze. Returns if that fails. */
void symbols_become_analyzer(char *const argv[]);
