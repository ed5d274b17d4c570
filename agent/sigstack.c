/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sigstack.h"

#include "agent/sys.h"

#define PIECE_WORDS 32u
#define SCAN_BYTES  16384u /* longest distance from a hook in a handler to the signal frame */

/* stack_t in a signal frame. Linux does not write the four bytes after the flags. */
struct saved {
	uint64_t base, flags, bytes;
};

static bool is_saved(const struct saved *saved, uint64_t at, uint64_t sp, uint64_t hi)
{
	uint32_t flags = (uint32_t)saved->flags & ~(uint32_t)SYS_SS_ONSTACK;
	return flags == SYS_SS_AUTODISARM && saved->base <= sp && saved->bytes <= hi &&
	       saved->base <= hi - saved->bytes && at < saved->base + saved->bytes;
}

/*
 * While a handler runs on a stack with SS_AUTODISARM, the kernel reports no signal stack, as for a
 * thread without one. The handler's signal frame, on that stack, holds the former setting. The
 * kernel copies the words, because pages above may be unreadable.
 */
static bool is_disarmed_stack(uint64_t sp, uint64_t hi)
{
	uint64_t word[PIECE_WORDS];
	long pid = sys_getpid();
	uint64_t end = hi - sp > SCAN_BYTES ? sp + SCAN_BYTES : hi;

	for (uint64_t at = ht_align_up(sp, sizeof(word[0])); at + sizeof(word) <= end;
		at += sizeof(word) - sizeof(struct saved)) {
		struct sys_iovec local = {word, sizeof(word)}, remote = {(void *)at, sizeof(word)};
		if (sys_process_vm_readv(pid, &local, &remote, 1) != (long)sizeof(word))
			return false;
		for (unsigned i = 0; i + 3 <= PIECE_WORDS; i++) {
			const struct saved saved = {word[i], word[i + 1], word[i + 2]};
			if (is_saved(&saved, at + i * sizeof(word[0]), sp, hi))
				return true;
		}
	}
	return false;
}

bool sigstack_is_in_use(uint64_t sp, uint64_t hi)
{
	int32_t flags = sys_signal_stack_flags();
	return flags & SYS_SS_ONSTACK || (flags == SYS_SS_DISABLE && is_disarmed_stack(sp, hi));
}
