/* SPDX-License-Identifier: Apache-2.0
 *
 * The target's files, for the process that looks up names: by the end of the window a library may
 * be deleted or replaced, and the target's mount namespace gone. They are held open by O_PATH from
 * their first sight on, which asks no file system anything, and opened for reading by the process
 * that writes the trace, which may wait for a file system.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/memory/proc_map.h"
#include "format/handover.h"

struct handover_file {
	struct handover_item item;
	int fd; /* O_PATH; -1: none */
};

/* Zero-initialised holds nothing and can be closed. */
struct handover {
	int near,
		far; /* two ends: ours, and the one for the process that looks up names; -1: none */
	int root;    /* the target's root directory; -1: unknown */
	struct handover_file *file;
	size_t count, capacity, open_count, open_max;
};

/* Where this is not possible names are looked up by paths alone. */
void handover_open(struct handover *handover, const struct proc *proc);
/* Holds the file that `module` was loaded from, as `map`, its first mapping, has it. */
void handover_add(struct handover *handover, const struct proc *proc, const struct module *module,
	const struct proc_map *map);
/* The module was unloaded: its file is let go unless it is deleted, since a file system with an
 * open file cannot be unmounted. */
void handover_gone(struct handover *handover, uint64_t module_id);
/* Sends everything to the far end; once, before names are looked up. */
void handover_send(struct handover *handover);
void handover_close(struct handover *handover);

/* In the process that looks up names, with heaptap's rights still: takes what came to the far end
 * `socket`, opens it for reading and passes it on. Returns the socket for heaptap-analyze, without
 * FD_CLOEXEC; -1: there is nothing. */
int handover_pass_on(int socket);
