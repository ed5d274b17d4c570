/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel says of each page of the target (Documentation/admin-guide/mm/pagemap.rst).
 */
#pragma once

#include "attach/proc/proc.h"

/* Bits of a page's entry, of 8 bytes, in the file. */
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_SWAPPED (1ull << 62)
#define PAGEMAP_FILE	(1ull << 61) /* a file's, or of shared memory: not anonymous */

/* `*ret_fd` is the caller's; -1: the kernel has no such file, or not for us. */
HT_MUST_CHECK
struct ht_err *pagemap_open(const struct proc *proc, int *ret_fd);
/* The entries of up to `count` pages from `at` on; fewer at the end of the program's addresses. */
HT_MUST_CHECK
struct ht_err *pagemap_read(const struct proc *proc, int fd, raddr_t at, uint64_t *entry,
	size_t count, size_t *ret_count);
/* Which of the pages of [addr, addr + length) are the process's own copies, for which no file
 * system is asked? */
enum pagemap_own { PAGEMAP_OWN_UNKNOWN, PAGEMAP_OWN_NONE, PAGEMAP_OWN_SOME, PAGEMAP_OWN_ALL };
enum pagemap_own pagemap_own(const struct proc *proc, raddr_t addr, size_t length);
/* Is nothing at `addr`, neither in memory nor swapped out? Without reading it. False where the
 * kernel does not tell. */
bool pagemap_is_empty(const struct proc *proc, raddr_t addr);
/* The first page from `at` on that is in memory or swapped; `hi` when none is below it, and `at`
 * where the kernel cannot tell (before Linux 6.7). Both are addresses of pages. */
raddr_t pagemap_next(int fd, raddr_t at, raddr_t hi);
