/* SPDX-License-Identifier: Apache-2.0
 *
 * What heaptap has mapped in a process, found by the name of the memfd.
 */
#pragma once

#include "attach/inject/image.h"
#include "attach/proc/proc.h"

struct ourmaps {
	bool image;	/* an image, or a part of one */
	bool whole;	/* all of it: its last mapping is there */
	bool tombstone; /* only a thunk page */
	raddr_t base;
	struct image_file file;
	pid_t daemon_pid; /* as the memfd's name says */
};

HT_MUST_CHECK
struct ht_err *ourmaps_read(const struct proc *proc, struct ourmaps *ret);
