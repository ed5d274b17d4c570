/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts that attach collects before it touches anything: can the process be recorded, what is
 * loaded, which slots call an allocator. `heaptap doctor` prints it; attach acts on it.
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
	struct coverage coverage; /* of the modules loaded first; empty after survey_refresh */
	size_t partial_count;	  /* modules loaded later with more than heaptap reads */
	char partial_path[160];	  /* path of the last of them */
	size_t tap_count, foreign_count, unresolved_count; /* of the allocators' slots */
	struct ourmaps found;				   /* mappings of an earlier capture */
	bool is_static;	     /* the target has no dynamic linker, and no slots of its own */
	size_t entry_count;  /* functions hooked at their entry, or to be hooked (entries.h) */
	bool any_seccomp;    /* a thread has a filter: the agent must make no system call */
	bool given_optional; /* the user's functions may be missing; set before survey_read */
	bool with_mappings;  /* also records functions that map memory; set before survey_read */
};

/* Surveys process `pid`. HT_ERR_REFUSED or HT_ERR_PERMISSION, in one line, if heaptap cannot
 * attach: no such process, kernel thread, zombie, 32-bit, stopped, frozen, traced, strict seccomp,
 * shadow stack, limits too low, already recorded, without any slot. Free with survey_deinit. */
HT_MUST_CHECK
struct ht_err *survey_take(pid_t pid, struct survey *ret);
/* The two halves of survey_take: survey_open looks at the process but not into its memory,
 * survey_read at the rest. After an error of survey_read, call survey_deinit. */
HT_MUST_CHECK
struct ht_err *survey_open(pid_t pid, struct survey *ret);
HT_MUST_CHECK
struct ht_err *survey_read(struct survey *survey);
void survey_deinit(struct survey *survey);
/* The most memory that a capture may use in the target's control groups. Does not include the
 * ABI_FUNCTIONS_BYTES of a capture that records functions. */
uint64_t survey_memory_bytes(const struct survey *survey);

/* HT_ERR_REFUSED if the process has the image of a capture. Does not read its memory. */
HT_MUST_CHECK
struct ht_err *survey_check_tapped(const struct proc *proc, struct ourmaps *ret);
/* Reads mappings, modules and slots again; modules keep their ids. `thunk_lo`, `thunk_hi`: the
 * range of heaptap's thunks. After an error the survey is unchanged. */
HT_MUST_CHECK
struct ht_err *survey_refresh(struct survey *survey, raddr_t thunk_lo, raddr_t thunk_hi);
