/* SPDX-License-Identifier: Apache-2.0
 *
 * The headers of one ELF image in the target's memory: what a module is made from.
 */
#pragma once

#include "attach/elf/module.h"
#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

/*
 * Reads the image whose ELF header is at `header` and sets the fields of *ret that come from it
 * (bias and span, segments, build-id, dynamic, eh_frame_hdr, tls_bytes, pie); the others are 0.
 * *ret_valid is false for anything but a well-formed x86-64 executable or library; an error
 * concerns the process.
 */
HT_MUST_CHECK
struct ht_err *headers_read(
	const struct proc *proc, raddr_t header, struct module *ret, bool *ret_valid);
/* Are all segments mapped where the headers say, from the file that `file` maps or privately? Tells
 * a loaded image from an ELF file that is merely mapped as data. */
bool headers_are_loaded(
	const struct module *module, const struct proc_maps *maps, const struct proc_map *file);
