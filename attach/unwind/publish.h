/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts unwind tables and snapshots where the agent reads them: the tables area of the image's
 * memfd. Only appends; a snapshot in force is never changed, so the agent needs no lock. Tables are
 * kept by module, so that a new snapshot after dlopen compiles only what is new.
 */
#pragma once

#include "attach/elf/modules.h"
#include "format/abi_control.h"
#include "format/abi_unwind.h"

struct publish;

/* `local`: the memfd mapped here, `base`: the image's address in the target; `compiled` from
 * publish_compile may be NULL. */
HT_MUST_CHECK
struct ht_err *publish_create(struct publish **ret);
void publish_destroy(struct publish *publish);

/* Compiles the tables of all modules that are not compiled yet: the slow part, before anything is
 * touched. A module whose unwind information is unusable gets none (frame pointers only). */
HT_MUST_CHECK
struct ht_err *publish_compile(
	struct publish *publish, const struct proc *proc, const struct modules *modules);

/*
 * Writes the tables that are not in the memfd yet and a new snapshot of modules and executable
 * anonymous mappings, and puts it in force. `new_epoch`: a range now means another module than
 * before. HT_ERR_REFUSED when the area is full: the old snapshot stays in force.
 */
HT_MUST_CHECK
struct ht_err *publish_snapshot(struct publish *publish, uint8_t *local, raddr_t base,
	const struct modules *modules, const struct proc_maps *maps, bool new_epoch);

uint16_t publish_epoch(const struct publish *publish);
