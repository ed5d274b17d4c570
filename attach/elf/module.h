/* SPDX-License-Identifier: Apache-2.0
 *
 * An ELF image loaded in the target, and the table of all of them.
 */
#pragma once

#include <elf.h>

#include "attach/elf/natives.h"

#define MODULE_SEGMENTS_MAX 64u
#define MODULE_BUILD_ID_MAX 64u

struct module_segment {
	uint64_t vaddr, memsz, filesz, offset;
	uint32_t flags; /* PF_R | PF_W | PF_X */
};

struct module {
	uint64_t id;	/* from 1 in order of discovery; never reused within one struct modules */
	char *path;	/* as maps prints it; "": unnamed */
	raddr_t bias;	/* load bias: address = vaddr + bias */
	raddr_t lo, hi; /* page-aligned span of its PT_LOADs */
	raddr_t text_lo, text_hi; /* page-aligned span of its executable segments; equal: none */
	uint64_t dev, inode;
	uint8_t build_id[MODULE_BUILD_ID_MAX];
	size_t build_id_bytes;
	bool executable;	/* the main program: AT_ENTRY lies in it */
	bool vdso, interpreter; /* interpreter: the dynamic linker */
	uint32_t space;		/* namespace (dlmopen); 0: the program's */
	uint32_t order; /* from 1, position in the dynamic linker's list of its namespace; 0: not
			   listed */
	bool initial;	/* loaded with the program and never unloaded */
	bool pie;	/* ET_DYN */
	struct module_segment segment[MODULE_SEGMENTS_MAX];
	size_t segment_count;
	raddr_t dynamic; /* PT_DYNAMIC; 0: none */
	uint64_t dynamic_bytes;
	raddr_t eh_frame_hdr; /* PT_GNU_EH_FRAME; 0: none */
	uint64_t eh_frame_hdr_bytes;
	/* Size of its thread-local variables, rounded up to their alignment; 0: none, or unknown.
	 * The executable's begin that far below the thread pointer. */
	uint64_t tls_bytes;
	/* Code that will not run again (startcode.h), in a static program; 0 bytes: none. */
	raddr_t spent;
	uint64_t spent_bytes;
	struct natives natives;
};

struct modules {
	struct module *module; /* ascending by lo */
	size_t count;
	uint64_t next_id;
};

void module_deinit(struct module *module);
void modules_deinit(struct modules *modules);
/* The module whose span contains `addr`; NULL: none. */
const struct module *modules_find(const struct modules *modules, raddr_t addr);
/* Is the program linked statically, without a dynamic linker? */
bool modules_are_static(const struct modules *modules);
/* In a static program: has something other than its C library loaded the module? A user-space
 * emulator maps such modules for its guest. */
bool module_is_foreign(const struct modules *modules, const struct module *module);
/* The first module for which module_is_foreign is true, or NULL. */
const struct module *modules_first_foreign(const struct modules *modules);
