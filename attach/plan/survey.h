/* SPDX-License-Identifier: Apache-2.0
 *
 * What attach finds out before it touches anything: is the process fit, what is loaded, which slots
 * call an allocator. `heaptap doctor` prints it; attach acts on it.
 */
#pragma once

#include "attach/got/coverage.h"
#include "attach/inject/ourmaps.h"
#include "attach/memory/proc_map.h"
#include "attach/proc/proc_status.h"

struct survey {
	struct proc proc;
	struct proc_status status;
	struct proc_maps maps;
	struct modules modules;
	struct slots slots;
	struct coverage coverage; /* of what was loaded at first; empty after survey_refresh */
	size_t partial_count;	  /* modules loaded later that have more than is looked at */
	char partial_path[160];	  /* the last of them */
	size_t tap_count, foreign_count, unresolved_count; /* of the allocators' slots */
	struct ourmaps found;				   /* of an earlier capture */
	bool is_static;	    /* it has no dynamic linker, and no slots of its own */
	size_t entry_count; /* functions that are, or would be, hooked at their entry (entries.h) */
	bool any_seccomp;   /* a thread has a filter: the agent must make no system call */
	bool given_optional; /* functions that were given may be missing: as with_mappings */
	bool with_mappings;  /* slots of functions that map memory are wanted, too: to be set before
				survey_read */
};

/*
 * Looks at process `pid`. HT_ERR_REFUSED or HT_ERR_PERMISSION, in one line, when it cannot be
 * attached to: no such process, kernel thread, zombie, 32-bit, stopped, traced, strict seccomp,
 * shadow stack, already tapped, without any slot.
 */
HT_MUST_CHECK
struct ht_err *survey_take(pid_t pid, struct survey *ret);
/* Its two halves: the process alone, without a look into its memory, and the rest. After an error
 * of the second, survey_deinit. */
HT_MUST_CHECK
struct ht_err *survey_open(pid_t pid, struct survey *ret);
HT_MUST_CHECK
struct ht_err *survey_read(struct survey *survey);
void survey_deinit(struct survey *survey);
/* What a capture may take of the memory of the target's control groups, but for ABI_FUNCTIONS_BYTES
 * where functions are noted. */
uint64_t survey_memory_bytes(const struct survey *survey);

/* HT_ERR_REFUSED when the process has the image of a capture. Reads nothing of its memory. */
HT_MUST_CHECK
struct ht_err *survey_check_tapped(const struct proc *proc, struct ourmaps *ret);
/* Reads mappings, modules and slots again; modules keep their ids. `thunk_lo/hi`: our own thunks.
 */
HT_MUST_CHECK
struct ht_err *survey_refresh(struct survey *survey, raddr_t thunk_lo, raddr_t thunk_hi);
