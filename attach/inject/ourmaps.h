/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds heaptap's mappings in a process by the name of the memfd.
 */
#pragma once

#include "attach/inject/image.h"
#include "attach/proc/proc.h"

struct ourmaps {
	bool image;	/* an image, or a part of one */
	bool whole;	/* the whole image: its last mapping exists */
	bool tombstone; /* only a jump page */
	/* The address of the image, or of the jump page if that is alone. */
	raddr_t base;
	struct image_file file;
	pid_t daemon_pid; /* from the memfd's name */
};

HT_MUST_CHECK
struct ht_err *ourmaps_read(const struct proc *proc, struct ourmaps *ret);
