/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes unwind tables and snapshots where the agent reads them: the tables area of the image's
 * memfd. A snapshot in use never changes, so the agent needs no lock; its place is reused
 * ABI_CACHE_COUNT snapshots later. Tables are kept by file, so that a new snapshot after dlopen
 * compiles only new files.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/memory/proc_map.h"
#include "attach/unwind/cache.h"
#include "format/abi_control.h"
#include "format/abi_unwind.h"

struct publish;

/* Creates a publish without tables; free it with publish_destroy. */
HT_MUST_CHECK
struct ht_err *publish_create(struct publish **ret);
void publish_destroy(struct publish *publish);

/* Gets the missing tables of all modules, from `cache` (NULL: none) or compiled. This is the slow
 * part: call it before anything changes in the target. A module with unusable unwind information
 * gets no table (frame pointers only). */
HT_MUST_CHECK
struct ht_err *publish_compile(struct publish *publish, const struct proc *proc,
	const struct modules *modules, struct cache *cache);

/* Would publish_compile without a cache take more than about 16 ms, by the size of
 * .eh_frame_hdr? */
bool publish_is_long(const struct publish *publish, const struct modules *modules);

/* The code of an interpreter, in its module and in further mappings of that part of the module's
 * file. */
struct publish_interpreter {
	uint64_t module_id;
	raddr_t lo;
	uint64_t bytes; /* 0: there is none */
	int words;	/* words of 8 bytes from rbp to the word that names what a frame runs */
	uint64_t scripts[ABI_SCRIPTS_THREADS]; /* as in abi_snapshot, with gaps */
};

/* For the snapshots after this call. */
void publish_set_interpreter(
	struct publish *publish, const struct publish_interpreter *interpreter);

/* Writes the missing tables and a new snapshot of modules and of executable mappings outside of
 * them, and activates it. `local`: where the memfd is mapped here; `base`: the image's address in
 * the target. Always writes one, so that no range of an unloaded module ever applies to another. If
 * a module's table finds no room, stacks end in that module. `new_epoch`: a range now belongs to
 * another module than before. */
HT_MUST_CHECK
struct ht_err *publish_snapshot(struct publish *publish, uint8_t *local, raddr_t base,
	const struct modules *modules, const struct proc_maps *maps, bool new_epoch);

uint16_t publish_epoch(const struct publish *publish);

struct publish_counts {
	size_t cached, compiled; /* tables */
};

struct publish_counts publish_counts(const struct publish *publish);
