/* SPDX-License-Identifier: Apache-2.0
 *
 * The target's memory through /proc/PID/mem: works without stopping it, past page protections, and
 * fails with an error where process_vm_readv would hang. Requires proc_open_mem. After an exec of
 * the target every access fails (HT_ERR_TARGET_GONE), it never reaches the new program.
 */
#pragma once

#include "attach/target/proc.h"

/* Reads exactly `length` bytes; HT_ERR_SYS naming the address when any byte is unreadable. */
HT_MUST_CHECK
struct ht_err *memory_read(const struct proc *proc, raddr_t addr, void *buffer, size_t length);
/* As many bytes from `addr` as are readable, up to `length`; 0 when none. Errors are only those
 * that concern the whole process. */
HT_MUST_CHECK
struct ht_err *memory_read_some(
	const struct proc *proc, raddr_t addr, void *buffer, size_t length, size_t *ret_read);
HT_MUST_CHECK
struct ht_err *memory_read_u64(const struct proc *proc, raddr_t addr, uint64_t *ret);
/* A NUL-terminated string of at most `max` bytes with its NUL, malloc'd; HT_ERR_FORMAT if longer.
 */
HT_MUST_CHECK
struct ht_err *memory_read_string(const struct proc *proc, raddr_t addr, size_t max, char **ret);
HT_MUST_CHECK
struct ht_err *memory_write(const struct proc *proc, raddr_t addr, const void *data, size_t length);
/* One aligned 8-byte store: other threads see the old or the new word, never a mixture. */
HT_MUST_CHECK
struct ht_err *memory_write_u64(const struct proc *proc, raddr_t addr, uint64_t value);
