/* SPDX-License-Identifier: Apache-2.0
 *
 * The target's memory through /proc/PID/mem: works without stopping it, past page protections, and
 * fails with an error where process_vm_readv would hang. Requires proc_open_mem. After an exec of
 * the target every access fails (HT_ERR_TARGET_GONE), it never reaches the new program; but see
 * memory_write_u64.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

/* Where this process avoids slow mappings (slow_avoid) they count as unreadable, but for pages that
 * the target has written to: these are its own copies. */

/* Reads exactly `length` bytes; HT_ERR_SYS naming the address when any byte is unreadable. */
HT_MUST_CHECK
struct ht_err *memory_read(const struct proc *proc, raddr_t addr, void *buffer, size_t length);
/* As many bytes from `addr` as are readable, up to `length`; 0 when none. Errors are only those
 * that concern the whole process. */
HT_MUST_CHECK
struct ht_err *memory_read_some(
	const struct proc *proc, raddr_t addr, void *buffer, size_t length, size_t *ret_read);
/* The same of pages that we have written to, or are about to: after the first write they are the
 * target's own copy, and no file system is asked for them, whatever the mapping. */
HT_MUST_CHECK
struct ht_err *memory_read_own(
	const struct proc *proc, raddr_t addr, void *buffer, size_t length, size_t *ret_read);
/* Opens the very file of `map`, as proc_open_mapped, counted by pulse.h. `*ret_fd` is the caller's;
 * -1 without an error: it cannot be opened, or is not to be (slow_avoid). */
HT_MUST_CHECK
struct ht_err *memory_open_file(const struct proc *proc, const struct proc_map *map, int *ret_fd);
/* From the very file of `map`, at `offset` of it: as many bytes as it has, up to `length`; 0 when
 * it cannot be read, or is not to be (slow_avoid). */
size_t memory_read_file(const struct proc *proc, const struct proc_map *map, uint64_t offset,
	void *buffer, size_t length);
HT_MUST_CHECK
struct ht_err *memory_read_u64(const struct proc *proc, raddr_t addr, uint64_t *ret);
HT_MUST_CHECK
struct ht_err *memory_write(const struct proc *proc, raddr_t addr, const void *data, size_t length);
/*
 * One aligned 8-byte store: other threads see the old or the new word, never a mixture. Where
 * memory_stores_by_number that takes a call which knows a number instead of a memory: to be made
 * right after proc_check_same and a look at the word. It waits for the target's mmap_lock, and not
 * even SIGKILL ends that.
 */
HT_MUST_CHECK
struct ht_err *memory_write_u64(const struct proc *proc, raddr_t addr, uint64_t value);
/* Does a store to `addr`, aligned to 8 bytes, take that call? Asks nobody. */
bool memory_stores_by_number(raddr_t addr);
