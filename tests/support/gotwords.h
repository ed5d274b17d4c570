/* SPDX-License-Identifier: Apache-2.0
 *
 * The GOT words of a process, found in its modules' files on disk: they check what attach/elf finds
 * in memory. Shares no code with attach/elf, on purpose.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

struct gotword {
	uint64_t addr;	/* in the process */
	uint64_t value; /* the contents of the word */
	bool allocator; /* its relocation names a function of the malloc family, or it holds the
			   address of one that is linked in */
	bool lazy;	/* JUMP_SLOT not bound yet: it points into its own module */
	char symbol[48];
	char module[160];
};

struct gotwords {
	struct gotword *word; /* in order of maps */
	size_t count;
};

/* JUMP_SLOT and GLOB_DAT words of every mapped ELF file but the dynamic linker, and words of .got
 * that hold the address of an allocator's function that is linked in. */
void gotwords_read(pid_t pid, struct gotwords *ret);
void gotwords_deinit(struct gotwords *words);

/* Counts allocator words that hold an address within mappings named heaptap, in modules whose path
 * ends with `module` ("": all). `ret_all` (unless NULL): how many allocator words these modules
 * have, bound or not, without words that are 0. */
size_t gotwords_tapped(pid_t pid, const char *module, size_t *ret_all);
