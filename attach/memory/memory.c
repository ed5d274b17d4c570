/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/memory/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "attach/helper/pulse.h"
#include "attach/memory/pagemap.h"
#include "attach/memory/proc_maps.h"
#include "attach/memory/slow.h"
#include "attach/proc/fd.h"
#include "attach/proc/proc_tids.h"

static struct ht_err *gone(const struct proc *proc)
{
	return ht_err_new(
		HT_ERR_TARGET_GONE, "process %d has ended or runs another program", proc->pid);
}

/* pread takes a signed offset. The upper half of the address space is the kernel's, except for the
 * vsyscall page, which heaptap does not need. */
static bool reachable(raddr_t addr, size_t length)
{
	return addr <= INT64_MAX && length <= INT64_MAX - addr;
}

static ssize_t read_once(const struct proc *proc, raddr_t addr, void *buffer, size_t length)
{
	pulse_enter();
	ssize_t got = pread(proc->mem_fd, buffer, length, (off_t)addr);
	pulse_leave();
	return got;
}

static ssize_t write_once(const struct proc *proc, raddr_t addr, const void *data, size_t length)
{
	pulse_enter();
	ssize_t put = pwrite(proc->mem_fd, data, length, (off_t)addr);
	pulse_leave();
	return put;
}

struct ht_err *memory_read_own(
	const struct proc *proc, raddr_t addr, void *buffer, size_t length, size_t *ret_read)
{
	*ret_read = 0;
	if (!reachable(addr, length))
		return NULL;
	while (*ret_read < length) {
		ssize_t got = read_once(
			proc, addr + *ret_read, (uint8_t *)buffer + *ret_read, length - *ret_read);
		if (got == 0)
			return gone(proc);
		if (got > 0) {
			*ret_read += (size_t)got;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EIO || errno == EFAULT)
			return NULL;
		return ht_err_sys(errno, "cannot read the memory of process %d", proc->pid);
	}
	return NULL;
}

struct ht_err *memory_read_some(
	const struct proc *proc, raddr_t addr, void *buffer, size_t length, size_t *ret_read)
{
	*ret_read = 0;
	if (slow_is_in(addr, length) && pagemap_own(proc, addr, length) != PAGEMAP_OWN_ALL)
		return NULL;
	return memory_read_own(proc, addr, buffer, length, ret_read);
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

struct ht_err *memory_open_file(const struct proc *proc, const struct proc_map *map, int *ret_fd)
{
	*ret_fd = -1;
	if (slow_is_in(map->lo, map->hi - map->lo))
		return NULL;
	pulse_enter();
	struct ht_err *err = proc_open_mapped(proc, map, ret_fd);
	pulse_leave();
	if (!err || err->code != HT_ERR_INCOMPLETE)
		return err;
	ht_err_free(err);
	*ret_fd = -1;
	return NULL;
}

size_t memory_read_file(const struct proc *proc, const struct proc_map *map, uint64_t offset,
	void *buffer, size_t length)
{
	FD_GUARD int fd = -1;
	ht_err_free(memory_open_file(proc, map, &fd));
	if (fd < 0)
		return 0;
	pulse_enter();
	ssize_t got = pread(fd, buffer, length, (off_t)offset);
	pulse_leave();
	return got > 0 ? (size_t)got : 0;
}

struct ht_err *memory_read_u64(const struct proc *proc, raddr_t addr, uint64_t *ret)
{
	return memory_read(proc, addr, ret, sizeof(*ret));
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
		ssize_t put =
			write_once(proc, addr + done, (const uint8_t *)data + done, length - done);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return write_failed(proc, addr + done, put);
		done += (size_t)put;
	}
	return NULL;
}

/* How a word is stored whole. The kernel copies data written through the file with `rep movsb` on
 * processors that are fast at it (FSRM), from the start of a page of its own. If the word lies a
 * little further from the start of its page than the data from the start of the kernel's page, the
 * processor takes source and destination for overlapping and stores byte by byte: on a Zen 3 at
 * offsets 8, 16 and 24, and at no other place that test_memory tries. Such words go by
 * process_vm_writev from a page of ours, half a page away from that offset. That call takes a PID
 * and obeys page protections. A page that the program cannot write cannot change meanwhile either:
 * it is written from its start. */
#define OVERLAP_BYTES 64u

bool memory_stores_by_pid(raddr_t addr)
{
	raddr_t offset = addr % HT_PAGE_BYTES;
	return offset > 0 && offset < OVERLAP_BYTES;
}

static ssize_t write_as(pid_t tid, raddr_t addr, uint64_t value)
{
	static _Alignas(HT_PAGE_BYTES) uint8_t page[HT_PAGE_BYTES];
	uint8_t *from = page + (addr + HT_PAGE_BYTES / 2) % HT_PAGE_BYTES;
	struct iovec ours = {from, sizeof(value)};
	struct iovec theirs = {(void *)addr, sizeof(value)};

	memcpy(from, &value, sizeof(value));
	pulse_enter();
	ssize_t put = process_vm_writev(tid, &ours, 1, &theirs, 1, 0);
	pulse_leave();
	return put;
}

/* After the end of the main thread its number leads to no memory; a living thread's number does. */
static ssize_t write_from_afar(const struct proc *proc, raddr_t addr, uint64_t value)
{
	pid_t tid = 0;
	ssize_t put = write_as(proc->pid, addr, value);
	if (put >= 0 || errno != ESRCH)
		return put;
	return write_as(ht_err_drop(proc_living_tid(proc, &tid)) ? 0 : tid, addr, value);
}

static ssize_t write_from_start(const struct proc *proc, raddr_t addr, uint64_t value)
{
	uint64_t word[OVERLAP_BYTES / sizeof(value)];
	raddr_t start = ht_align_down(addr, HT_PAGE_BYTES);
	size_t length = addr - start, got = 0;

	if (ht_err_drop(memory_read_own(proc, start, word, length, &got)) || got != length)
		return write_once(proc, addr, &value, sizeof(value));
	word[length / sizeof(value)] = value;
	ssize_t put = write_once(proc, start, word, length + sizeof(value));
	return put > (ssize_t)length ? put - (ssize_t)length : put < 0 ? put : 0;
}

/* If a container's filter forbids process_vm_writev, the store goes through the file all the same:
 * a torn word is rare, and removing a hook must not fail for it. */
static ssize_t write_word(const struct proc *proc, raddr_t addr, uint64_t value)
{
	if (!memory_stores_by_pid(addr))
		return write_once(proc, addr, &value, sizeof(value));
	ssize_t put = write_from_afar(proc, addr, value);
	if (put == (ssize_t)sizeof(value))
		return put;
	return put < 0 && errno == EFAULT ? write_from_start(proc, addr, value)
					  : write_once(proc, addr, &value, sizeof(value));
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
		put = write_word(proc, addr, value);
	while (put < 0 && errno == EINTR);
	return put == (ssize_t)sizeof(value) ? NULL : write_failed(proc, addr, put);
}
