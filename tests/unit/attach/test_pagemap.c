/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/memory/pagemap.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define PAGES	    64
#define LARGE_BYTES (1ull << 40)

static struct proc self;
static int fd;

static void setup(void)
{
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(pagemap_open(&self, &fd));
	ck_assert_int_ge(fd, 0);
}

static void teardown(void)
{
	close(fd);
	proc_close(&self);
}

static raddr_t reserve(uint64_t bytes, uint8_t **ret)
{
	*ret = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(*ret, MAP_FAILED);
	return (raddr_t)*ret;
}

HT_TEST(entries_of_pages)
{
	uint64_t entry[PAGES];
	size_t count;
	uint8_t *bytes;
	raddr_t at = reserve(PAGES * HT_PAGE_BYTES, &bytes);
	setup();
	bytes[5 * HT_PAGE_BYTES] = 1;
	ck_no_err(pagemap_read(&self, fd, at, entry, PAGES, &count));
	ck_assert_uint_eq(count, PAGES);
	for (size_t i = 0; i < PAGES; i++)
		ck_assert_uint_eq(!!(entry[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)), i == 5);
	ck_assert(!(entry[5] & PAGEMAP_FILE));
	ck_no_err(pagemap_read(&self, fd, ~0ull << 12, entry, PAGES, &count));
	ck_assert_uint_eq(count, 0);
	teardown();
}

/* pagemap_next never skips a page that is there. */
HT_TEST(the_next_page_that_is_there)
{
	uint8_t *bytes;
	raddr_t at = reserve(LARGE_BYTES, &bytes), hi = at + LARGE_BYTES;
	raddr_t last = hi - HT_PAGE_BYTES;
	setup();
	bytes[0] = bytes[LARGE_BYTES - 1] = 1;
	ck_assert_uint_eq(pagemap_next(fd, at, hi), at);
	ck_assert_uint_eq(pagemap_next(fd, last, hi), last);
	raddr_t next = pagemap_next(fd, at + HT_PAGE_BYTES, hi);
	ck_assert_uint_eq(pagemap_next(-1, at + HT_PAGE_BYTES, hi), at + HT_PAGE_BYTES);
	if (next == at + HT_PAGE_BYTES) {
		printf("skipped: pagemap: this kernel does not tell (before Linux 6.7)\n");
	} else {
		ck_assert_uint_eq(next, last);
		ck_assert_uint_eq(pagemap_next(fd, at + HT_PAGE_BYTES, last), last);
		ck_assert_int_eq(madvise((void *)last, HT_PAGE_BYTES, MADV_DONTNEED), 0);
		ck_assert_uint_eq(pagemap_next(fd, at + HT_PAGE_BYTES, hi), hi);
	}
	teardown();
}

HT_SUITE("attach/memory/pagemap")
