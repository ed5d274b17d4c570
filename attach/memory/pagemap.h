/* SPDX-License-Identifier: Apache-2.0
 *
 * State of each page of the target (Documentation/admin-guide/mm/pagemap.rst).
 */
#pragma once

#include "attach/proc/proc.h"

/* Bits of a page's 8-byte entry in the file. */
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_SWAPPED (1ull << 62)
#define PAGEMAP_FILE	(1ull << 61) /* belongs to a file or to shared memory; unset: anonymous */

/* The caller owns `*ret_fd`; -1: the kernel has no such file, or this user may not read it. */
HT_MUST_CHECK
struct ht_err *pagemap_open(const struct proc *proc, int *ret_fd);
/* Reads the entries of up to `count` pages from `at` on. `*ret_count` is smaller at the end of the
 * address space. */
HT_MUST_CHECK
struct ht_err *pagemap_read(const struct proc *proc, int fd, raddr_t at, uint64_t *entry,
	size_t count, size_t *ret_count);
/* Which pages of [addr, addr + length) are the process's own copies? No file system serves
 * those. */
enum pagemap_own { PAGEMAP_OWN_UNKNOWN, PAGEMAP_OWN_NONE, PAGEMAP_OWN_SOME, PAGEMAP_OWN_ALL };
enum pagemap_own pagemap_own(const struct proc *proc, raddr_t addr, size_t length);
/* Is there no page at `addr`, neither in memory nor swapped out? Does not read the page. False if
 * that cannot be read. */
bool pagemap_is_empty(const struct proc *proc, raddr_t addr);
/* The first page from `at` on that is in memory or swapped out; `hi` if none is below `hi`; `at` if
 * the kernel cannot tell (before Linux 6.7). `at` and `hi` are page-aligned. */
raddr_t pagemap_next(int fd, raddr_t at, raddr_t hi);
