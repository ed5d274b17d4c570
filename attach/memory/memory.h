/* SPDX-License-Identifier: Apache-2.0
 *
 * The target's memory through /proc/PID/mem: without stopping the target, past page protections,
 * and with an error where process_vm_readv would hang. Requires proc_open_mem. After an exec every
 * access fails with HT_ERR_TARGET_GONE and never reaches the new program, except as
 * memory_write_u64 says.
 *
 * While this process avoids slow mappings (slow_avoid), they are unreadable, except for pages that
 * the target has written: those are its own copies.
 */
#pragma once

#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

/* Reads exactly `length` bytes. HT_ERR_SYS, which names the address, if any byte is unreadable. */
HT_MUST_CHECK
struct ht_err *memory_read(const struct proc *proc, raddr_t addr, void *buffer, size_t length);
/* Reads as many bytes from `addr` as are readable, up to `length`; `*ret_read` may be 0. Unreadable
 * bytes are no error; an error means that the process has ended or that none of its memory can be
 * read. */
HT_MUST_CHECK
struct ht_err *memory_read_some(
	const struct proc *proc, raddr_t addr, void *buffer, size_t length, size_t *ret_read);
/* As memory_read_some, for pages that heaptap has written or is about to write, whatever slow_avoid
 * says: after the first write they are the target's own copies and no file system serves them. */
HT_MUST_CHECK
struct ht_err *memory_read_own(
	const struct proc *proc, raddr_t addr, void *buffer, size_t length, size_t *ret_read);
/* Opens the file behind `map` as proc_open_mapped, and counts the wait (pulse.h). The caller owns
 * `*ret_fd`; -1 without an error: the file cannot be opened, or slow_avoid forbids it. */
HT_MUST_CHECK
struct ht_err *memory_open_file(const struct proc *proc, const struct proc_map *map, int *ret_fd);
/* Reads up to `length` bytes at `offset` of the file behind `map`. Returns the bytes read; 0: none,
 * or slow_avoid forbids it. */
size_t memory_read_file(const struct proc *proc, const struct proc_map *map, uint64_t offset,
	void *buffer, size_t length);
HT_MUST_CHECK
struct ht_err *memory_read_u64(const struct proc *proc, raddr_t addr, uint64_t *ret);
/* Writes all bytes, past page protections. After an error some may be written. */
HT_MUST_CHECK
struct ht_err *memory_write(const struct proc *proc, raddr_t addr, const void *data, size_t length);
/* One aligned 8-byte store: other threads see the old or the new word, never a mixture. Where
 * memory_stores_by_pid is true, the store goes by PID instead of by the opened memory: call
 * proc_check_same and read the word right before. If the kernel forbids that (a container's
 * filter), the store goes by the opened memory all the same, and other threads may, rarely, see a
 * mixture. The store waits for the target's mmap_lock, and not even SIGKILL ends that wait. */
HT_MUST_CHECK
struct ht_err *memory_write_u64(const struct proc *proc, raddr_t addr, uint64_t value);
/* Does a store to `addr`, aligned to 8 bytes, go by PID? Depends on the address alone. */
bool memory_stores_by_pid(raddr_t addr);
