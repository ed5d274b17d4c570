/* SPDX-License-Identifier: Apache-2.0
 *
 * tidoffset_find finds the TID in thread control blocks that are made up in this process.
 */
#include "attach/stub/tidoffset.h"

#include <string.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define TID	    2u
#define BLOCK_WORDS 1024u

static uint32_t block[2 * BLOCK_WORDS] __attribute__((aligned(4096)));

/* Looks for `tid` in a block in which only the words at the offsets `at` hold TID. `at` ends with
 * 0. Returns the offset found; 0: none. */
static uint32_t find(const uint32_t *at, pid_t tid)
{
	struct proc proc;
	memset(block, 0, sizeof(block));
	for (; *at; at++)
		block[*at / sizeof(block[0])] = TID;
	ck_no_err(proc_open(getpid(), &proc));
	ck_no_err(proc_open_mem(&proc));
	const struct user_regs_struct regs = {.fs_base = (raddr_t)(uintptr_t)block};
	uint32_t found = tidoffset_find(&proc, &regs, tid);
	proc_close(&proc);
	return found;
}

#define FIND(...) find((const uint32_t[]){__VA_ARGS__, 0}, TID)

HT_TEST(offset_of_known_c_libraries)
{
	ck_assert_uint_eq(FIND(720), 720);
	ck_assert_uint_eq(FIND(48), 48);
	/* A small TID, as the first threads of a container have, is also the value of flags
	 * elsewhere. */
	ck_assert_uint_eq(FIND(64, 720, 1024), 720);
	ck_assert_uint_eq(FIND(16, 48, 64), 48);
	ck_assert_uint_eq(FIND(48, 720), 720);
}

HT_TEST(offset_of_other_c_libraries)
{
	ck_assert_uint_eq(FIND(100), 100);
	ck_assert_uint_eq(FIND(100, 200), 0);
	ck_assert_uint_eq(FIND(4096), 0);
	ck_assert_uint_eq(find((const uint32_t[]){720, 0}, 0), 0);
}

HT_SUITE("attach/stub/tidoffset")
