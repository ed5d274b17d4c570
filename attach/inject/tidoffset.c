/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/tidoffset.h"

#include "attach/target/memory.h"
#include "attach/target/regs.h"

#define TID_OFFSET_GLIBC 720u  /* struct pthread.tid, glibc 2.4 and later on x86-64 */
#define BLOCK_WORDS	 1024u /* a page: more than a control block of glibc or musl */

uint32_t tidoffset_find(const struct proc *proc, const struct user_regs_struct *regs, pid_t ns_tid)
{
	uint32_t block[BLOCK_WORDS], found = 0, count = 0;
	size_t got = 0;

	if (!ns_tid)
		return 0;
	raddr_t at = regs_thread_pointer(regs);
	struct ht_err *err = memory_read_some(proc, at, block, sizeof(block), &got);
	ht_err_free(err);
	if (err)
		return 0;
	for (uint32_t i = 0; i < got / sizeof(block[0]); i++) {
		if (block[i] != (uint32_t)ns_tid)
			continue;
		if (i * sizeof(block[0]) == TID_OFFSET_GLIBC)
			return TID_OFFSET_GLIBC;
		found = i * (uint32_t)sizeof(block[0]);
		count++;
	}
	return count == 1 ? found : 0;
}
