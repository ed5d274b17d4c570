/* SPDX-License-Identifier: Apache-2.0
 *
 * The code by which a C library that is linked in has begun its program. It runs once, and never
 * comes back: when it has called main for good its bytes are nobody's, like those behind a text
 * segment. glibc's is __libc_start_main, some four kilobytes.
 */
#pragma once

#include "attach/allocators/beginnings.h"
#include "attach/elf/elf_file.h"
#include "attach/elf/module.h"
#include "attach/memory/memory.h"
#include "attach/proc/proc.h"

/* Adds the names of which startcode_note takes note. */
void startcode_add_beginnings(struct beginnings *beginnings);
/* Takes note of a symbol of the executable. */
void startcode_note(
	struct startcode *found, raddr_t *call, raddr_t addr, uint64_t bytes, const char *name);
/* Looks in the executable's file for its one call of `call`; where that is not to be found there
 * is no such code. */
void startcode_settle(
	struct startcode *found, raddr_t call, const struct module *module, struct elf_file *file);

/* Has it made that call? False where that is not certain. */
HT_MUST_CHECK
struct ht_err *startcode_is_over(const struct proc *proc, const struct startcode *code, bool *ret);
