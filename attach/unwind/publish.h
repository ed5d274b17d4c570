/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts unwind tables and snapshots where the agent reads them: the tables area of the image's
 * memfd. A snapshot in force is never changed, so the agent needs no lock; its place is used again
 * ABI_CACHE_COUNT snapshots later. Tables are kept by file, so that a new snapshot after dlopen
 * compiles only what is new.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/memory/proc_map.h"
#include "attach/unwind/cache.h"
#include "format/abi_control.h"
#include "format/abi_unwind.h"

struct publish;

/* `local`: the memfd mapped here, `base`: the image's address in the target; `compiled` from
 * publish_compile may be NULL. */
HT_MUST_CHECK
struct ht_err *publish_create(struct publish **ret);
void publish_destroy(struct publish *publish);

/*
 * Gets the tables of all modules that have none yet, from `cache` (NULL: none) or compiled: the
 * slow part, before anything is touched. A module whose unwind information is unusable gets none
 * (frame pointers only).
 */
HT_MUST_CHECK
struct ht_err *publish_compile(struct publish *publish, const struct proc *proc,
	const struct modules *modules, struct cache *cache);

/* Would publish_compile without a cache take some ten milliseconds or more? */
bool publish_is_long(const struct publish *publish, const struct modules *modules);

/* Code of an interpreter, in a module and wherever that part of its file is mapped again. */
struct publish_interpreter {
	uint64_t module_id;
	raddr_t lo;
	uint64_t bytes;			       /* 0: there is none */
	int words;			       /* from rbp: what a frame of it runs */
	uint64_t scripts[ABI_SCRIPTS_THREADS]; /* as in abi_snapshot, with gaps */
};

/* For the snapshots that follow. */
void publish_set_interpreter(
	struct publish *publish, const struct publish_interpreter *interpreter);

/*
 * Writes the tables that are not in the memfd yet and a new snapshot of modules and executable
 * anonymous mappings, and puts it in force: always, so that no range of a module that is gone is
 * ever applied to another. Where there is no room for a module's table, stacks are cut there.
 * `new_epoch`: a range now means another module than before.
 */
HT_MUST_CHECK
struct ht_err *publish_snapshot(struct publish *publish, uint8_t *local, raddr_t base,
	const struct modules *modules, const struct proc_maps *maps, bool new_epoch);

uint16_t publish_epoch(const struct publish *publish);

struct publish_counts {
	size_t cached, compiled; /* tables */
};

struct publish_counts publish_counts(const struct publish *publish);
