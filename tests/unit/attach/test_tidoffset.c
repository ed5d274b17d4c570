/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a thread's number stands, in control blocks of this process's own making.
 */
#include "attach/stub/tidoffset.h"

#include <string.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define TID	    2u
#define BLOCK_WORDS 1024u

static uint32_t block[2 * BLOCK_WORDS] __attribute__((aligned(4096)));

/* `at`: offsets of words that hold the number, up to a 0. */
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
