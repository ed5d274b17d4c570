/* SPDX-License-Identifier: Apache-2.0
 *
 * The start code of a linked-in C library. It runs once: after its last call, of the function that
 * calls main and exit, its bytes are free, like those behind a text segment. In glibc it is
 * __libc_start_main, some four kilobytes, and calls __libc_start_call_main last.
 */
#pragma once

#include "attach/allocators/beginnings.h"
#include "attach/elf/elf_file.h"
#include "attach/elf/module.h"
#include "attach/memory/memory.h"
#include "attach/proc/proc.h"

/* Adds the names that startcode_note knows. */
void startcode_add_beginnings(struct beginnings *beginnings);
/* Records a symbol of the executable, if it has one of those names. `*call`: address of the
 * function that the start code calls last. */
void startcode_note(
	struct startcode *found, raddr_t *call, raddr_t addr, uint64_t bytes, const char *name);
/* Looks in the executable's file for the only call of `call` in the start code. If there is not
 * exactly one, `found` becomes empty. */
void startcode_settle(
	struct startcode *found, raddr_t call, const struct module *module, struct elf_file *file);

/* Has the start code made its last call? `*ret` is false if that is uncertain. */
HT_MUST_CHECK
struct ht_err *startcode_is_over(const struct proc *proc, const struct startcode *code, bool *ret);
