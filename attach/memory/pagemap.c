/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/memory/pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "attach/proc/fd.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/proc_living.h"

/* PAGEMAP_SCAN of linux/fs.h, which the headers of Debian 12 lack. */
struct region {
	uint64_t start, end, categories;
};

struct question {
	uint64_t size, flags;
	uint64_t start, end, walk_end;
	uint64_t vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN	     _IOWR('f', 16, struct question)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)

struct ht_err *pagemap_open(const struct proc *proc, int *ret_fd)
{
	char path[PROC_PATH_BYTES];
	struct ht_err *err = proc_file_path(proc, "pagemap", path);
	*ret_fd = err ? -1 : openat(proc->dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (err || *ret_fd >= 0 || errno == ENOENT || errno == EACCES || errno == EPERM)
		return err;
	return proc_file_failed(proc, path, errno);
}

struct ht_err *pagemap_read(const struct proc *proc, int fd, raddr_t at, uint64_t *entry,
	size_t count, size_t *ret_count)
{
	ssize_t got = pread(fd, entry, count * sizeof(entry[0]),
		(off_t)(at / HT_PAGE_BYTES * sizeof(entry[0])));
	if (got < 0)
		return proc_file_failed(proc, "pagemap", errno);
	*ret_count = (size_t)got / sizeof(entry[0]);
	return NULL;
}

enum pagemap_own pagemap_own(const struct proc *proc, raddr_t addr, size_t length)
{
	size_t pages = 0, own = 0;
	FD_GUARD int fd = -1;
	struct ht_err *err = pagemap_open(proc, &fd);
	bool known = !err && fd >= 0;

	for (raddr_t page = ht_align_down(addr, HT_PAGE_BYTES); known && page < addr + length;
		page += HT_PAGE_BYTES, pages++) {
		uint64_t entry = 0;
		size_t count = 0;
		err = pagemap_read(proc, fd, page, &entry, 1, &count);
		known = !err && count;
		own += known && entry & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED) &&
		       !(entry & PAGEMAP_FILE);
	}
	ht_err_free(err);
	if (!known)
		return PAGEMAP_OWN_UNKNOWN;
	return own == 0 ? PAGEMAP_OWN_NONE : own < pages ? PAGEMAP_OWN_SOME : PAGEMAP_OWN_ALL;
}

bool pagemap_is_empty(const struct proc *proc, raddr_t addr)
{
	uint64_t entry = 0;
	size_t count;
	FD_GUARD int fd = -1;
	struct ht_err *err = pagemap_open(proc, &fd);
	bool known = !err && fd >= 0;

	if (known)
		err = pagemap_read(proc, fd, addr, &entry, 1, &count);
	known &= !err;
	ht_err_free(err);
	return known && !(entry & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED));
}

raddr_t pagemap_next(int fd, raddr_t at, raddr_t hi)
{
	struct region first = {0};
	struct question question = {.size = sizeof(question),
		.start = at,
		.end = hi,
		.vec = (uint64_t)&first,
		.vec_len = 1,
		.max_pages = 1,
		.category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
		.return_mask = SCAN_PRESENT | SCAN_SWAPPED};
	int found = ioctl(fd, SCAN, &question);
	if (found < 0 || question.walk_end > hi)
		return at;
	raddr_t next = found ? first.start : question.walk_end;
	return next > at && next <= hi ? next : at;
}
