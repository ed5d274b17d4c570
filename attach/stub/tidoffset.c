/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stub/tidoffset.h"

#include "attach/memory/memory.h"
#include "attach/thread/regs.h"

#define BLOCK_WORDS 1024u /* a page: more than a control block of glibc or musl */

/* Offsets of struct pthread.tid on x86-64: glibc since 2.11, musl since 1.2.2. Others are searched.
 */
static const uint32_t known[] = {720, 48};

uint32_t tidoffset_find(const struct proc *proc, const struct user_regs_struct *regs, pid_t ns_tid)
{
	uint32_t block[BLOCK_WORDS], found = 0, count = 0;
	size_t got = 0;

	if (!ns_tid)
		return 0;
	raddr_t at = regs_thread_pointer(regs);
	if (ht_err_drop(memory_read_some(proc, at, block, sizeof(block), &got)))
		return 0;
	for (size_t i = 0; i < HT_ARRAY_SIZE(known); i++)
		if (known[i] < got && block[known[i] / sizeof(block[0])] == (uint32_t)ns_tid)
			return known[i];
	for (uint32_t i = 0; i < got / sizeof(block[0]); i++) {
		if (block[i] != (uint32_t)ns_tid)
			continue;
		found = i * (uint32_t)sizeof(block[0]);
		count++;
	}
	return count == 1 ? found : 0;
}
