/* SPDX-License-Identifier: Apache-2.0
 *
 * Hands the target's files over to the process that looks up names: by the end of the window a
 * library may be deleted or replaced, and the target's mount namespace gone. Each file is held by
 * O_PATH from the first time that heaptap sees it, which asks no file system. The process that
 * writes the trace opens the files for reading, as it may wait for a file system.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/memory/proc_map.h"
#include "format/handover.h"

struct handover_file {
	struct handover_item item;
	int fd; /* O_PATH; -1: none */
};

/* Zero-initialised: holds nothing, and can be closed. */
struct handover {
	int near, far; /* the ends of a socket: heaptap's, and that of the process that looks up
			  names; -1: closed */
	int root;      /* the target's root directory; -1: unknown */
	struct handover_file *file;
	size_t count, capacity, open_count, open_max;
};

/* Opens the socket and the root directory. If the socket cannot be made, the other functions do
 * nothing, and names are looked up by paths alone. */
void handover_open(struct handover *handover, const struct proc *proc);
/* Holds the file that `module` was loaded from, unless it cannot be opened or half of heaptap's
 * descriptors are used for files. `map`: the module's first mapping. */
void handover_add(struct handover *handover, const struct proc *proc, const struct module *module,
	const struct proc_map *map);
/* Call it when the module was unloaded. Closes its file unless the file is deleted, since a file
 * system with an open file cannot be unmounted. */
void handover_gone(struct handover *handover, uint64_t module_id);
/* Sends all files to the far end, as far as they fit into the socket. Call it once, before names
 * are looked up. */
void handover_send(struct handover *handover);
void handover_close(struct handover *handover);

/* In the process that looks up names, while it still has heaptap's rights: receives the files from
 * the far end `socket`, opens them for reading and passes them on. Returns the socket for
 * heaptap-analyze, without FD_CLOEXEC; -1: there are no files. */
int handover_pass_on(int socket);
