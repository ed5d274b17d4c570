/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads an allocator's bookkeeping that a test has made up in this process. The file that includes
 * this one defines BOOKS_READER before (mimalloc_reader, jemalloc_reader or tcmalloc_reader), and
 * sets `self` to this process, opened with its memory, and `module` to a module whose segment holds
 * the allocator's variables. Included once by a test program.
 */
#pragma once

#include <sys/mman.h>

#include "attach/heap/heap.h"
#include "attach/heap/view/view.h"
#include "tests/support/ht_check.h"

static struct proc self;
static struct module module;

static inline raddr_t at(const void *pointer)
{
	return (raddr_t)(uintptr_t)pointer;
}

static inline void *pointer(raddr_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* Returns `bytes` of zeros; pages that are not touched take no memory. */
static inline void *map(size_t bytes)
{
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(pages, MAP_FAILED);
	return pages;
}

static inline struct heap_account read_account(bool *ret_found)
{
	struct view view;
	struct heap_account account;
	ck_no_err(view_init(&view, &self));
	ck_no_err(reader_read(&BOOKS_READER, &view, &module, &account, ret_found));
	ck_no_err(view_deinit(&view));
	return account;
}

static inline struct heap_account read_known(void)
{
	bool found;
	struct heap_account account = read_account(&found);
	ck_assert(found);
	ck_assert_msg(account.known, "%s", account.reason);
	return account;
}

/* Checks that the account is unknown, with a reason, or that the allocator is not found at all. */
static inline void check_unknown(void)
{
	bool found;
	struct heap_account account = read_account(&found);
	ck_assert(!found || !account.known);
	ck_assert(!found || account.reason[0]);
}

/* Checks that the account is known without error or reason, and that the blocks handed out have
 * exactly `held_bytes`. */
static inline struct heap_account check_held(uint64_t held_bytes)
{
	struct heap_account account = read_known();
	ck_assert_uint_eq(account.held_bytes, held_bytes);
	ck_assert_str_eq(account.reason, "");
	ck_assert_uint_eq(account.off_bytes, 0);
	return account;
}
