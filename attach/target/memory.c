/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/target/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ht_err *gone(const struct proc *proc)
{
	return ht_err_new(
		HT_ERR_TARGET_GONE, "process %d has ended or runs another program", proc->pid);
}

/* pread takes a signed offset: the upper half of the address space is the kernel's, except for the
 * vsyscall page, which holds nothing for us. */
static bool reachable(raddr_t addr, size_t length)
{
	return addr <= INT64_MAX && length <= INT64_MAX - addr;
}

struct ht_err *memory_read_some(
	const struct proc *proc, raddr_t addr, void *buffer, size_t length, size_t *ret_read)
{
	*ret_read = 0;
	if (!reachable(addr, length))
		return NULL;
	while (*ret_read < length) {
		ssize_t got = pread(proc->mem_fd, (uint8_t *)buffer + *ret_read, length - *ret_read,
			(off_t)(addr + *ret_read));
		if (got == 0)
			return gone(proc);
		if (got > 0) {
			*ret_read += (size_t)got;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EIO || errno == EFAULT || errno == ENOMEM)
			return NULL;
		return ht_err_sys(errno, "cannot read the memory of process %d", proc->pid);
	}
	return NULL;
}

struct ht_err *memory_read(const struct proc *proc, raddr_t addr, void *buffer, size_t length)
{
	size_t got;
	struct ht_err *err = memory_read_some(proc, addr, buffer, length, &got);
	if (err || got == length)
		return err;
	return ht_err_sys(EIO, "cannot read %zu bytes at 0x%" PRIx64 " of process %d", length, addr,
		proc->pid);
}

struct ht_err *memory_read_u64(const struct proc *proc, raddr_t addr, uint64_t *ret)
{
	return memory_read(proc, addr, ret, sizeof(*ret));
}

struct ht_err *memory_read_string(const struct proc *proc, raddr_t addr, size_t max, char **ret)
{
	char *text = malloc(max ? max : 1);
	if (!text)
		return ht_err_new(HT_ERR_NOMEM, "no memory for a string of %zu bytes", max);
	struct ht_err *err = NULL;
	size_t length = 0;
	while (length < max) {
		/* Up to the end of a page: the string may end just before an unmapped one. */
		size_t step = HT_PAGE_BYTES - (size_t)((addr + length) % HT_PAGE_BYTES);
		if (step > max - length)
			step = max - length;
		err = memory_read(proc, addr + length, text + length, step);
		if (err)
			break;
		if (memchr(text + length, '\0', step)) {
			*ret = text;
			return NULL;
		}
		length += step;
	}
	free(text);
	if (err)
		return err;
	return ht_err_new(HT_ERR_FORMAT,
		"the string at 0x%" PRIx64 " of process %d is longer than %zu bytes", addr,
		proc->pid, max);
}

static struct ht_err *write_failed(const struct proc *proc, raddr_t addr, ssize_t put)
{
	if (put == 0)
		return gone(proc);
	return ht_err_sys(put < 0 ? errno : EIO, "cannot write to 0x%" PRIx64 " of process %d",
		addr, proc->pid);
}

struct ht_err *memory_write(const struct proc *proc, raddr_t addr, const void *data, size_t length)
{
	if (!reachable(addr, length))
		return ht_err_sys(
			EFAULT, "cannot write to 0x%" PRIx64 " of process %d", addr, proc->pid);
	for (size_t done = 0; done < length;) {
		ssize_t put = pwrite(proc->mem_fd, (const uint8_t *)data + done, length - done,
			(off_t)(addr + done));
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return write_failed(proc, addr + done, put);
		done += (size_t)put;
	}
	return NULL;
}

struct ht_err *memory_write_u64(const struct proc *proc, raddr_t addr, uint64_t value)
{
	if (addr % sizeof(value))
		return ht_err_new(HT_ERR_INTERNAL, "0x%" PRIx64 " is not aligned to 8 bytes", addr);
	if (!reachable(addr, sizeof(value)))
		return ht_err_sys(
			EFAULT, "cannot write to 0x%" PRIx64 " of process %d", addr, proc->pid);
	ssize_t put;
	do
		put = pwrite(proc->mem_fd, &value, sizeof(value), (off_t)addr);
	while (put < 0 && errno == EINTR);
	return put == (ssize_t)sizeof(value) ? NULL : write_failed(proc, addr, put);
}
