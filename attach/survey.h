/* SPDX-License-Identifier: Apache-2.0
 *
 * What attach finds out before it touches anything: is the process fit, what is loaded, which slots
 * call an allocator. `heaptap doctor` prints it; attach acts on it.
 */
#pragma once

#include "attach/elf/slots.h"
#include "attach/recover.h"

struct survey {
	struct proc proc;
	struct proc_status status;
	struct proc_maps maps;
	struct modules modules;
	struct slots slots;
	size_t tap_count, foreign_count, unresolved_count;
	struct recover_found found; /* of an earlier capture */
	bool any_seccomp;	    /* a thread has a filter: the agent must make no system call */
};

/*
 * Looks at process `pid`. HT_ERR_REFUSED or HT_ERR_PERMISSION, in one line, when it cannot be
 * attached to: no such process, kernel thread, zombie, 32-bit, stopped, traced, strict seccomp,
 * shadow stack, already tapped, without any slot.
 */
HT_MUST_CHECK
struct ht_err *survey_take(pid_t pid, struct survey *ret);
void survey_deinit(struct survey *survey);

/* Reads mappings, modules and slots again; modules keep their ids. `thunk_lo/hi`: our own thunks.
 */
HT_MUST_CHECK
struct ht_err *survey_refresh(struct survey *survey, raddr_t thunk_lo, raddr_t thunk_hi);
