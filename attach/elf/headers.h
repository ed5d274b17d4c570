/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the headers of one ELF image in the target's memory into a module.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

/* Reads the image with its ELF header at `header`. Sets the fields of `*ret` that come from the
 * headers (bias and span, segments, build-id, dynamic, eh_frame_hdr, tls_bytes, pie) and clears the
 * others. `*ret_valid` is false unless the image is a well-formed x86-64 executable or library.
 * Errors concern the process. */
HT_MUST_CHECK
struct ht_err *headers_read(
	const struct proc *proc, raddr_t header, struct module *ret, bool *ret_valid);
/* Is each segment's beginning mapped where the headers say, from the file of the mapping `file` or
 * anonymously? This tells a loaded image from an ELF file that is only mapped as data. */
bool headers_are_loaded(
	const struct module *module, const struct proc_maps *maps, const struct proc_map *file);
