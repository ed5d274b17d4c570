/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/guard_wait.h"

bool guard_wait_find(
	const struct image *image, const struct proc *proc, bool forks, struct follow_ask *ret)
{
	struct abi_control *control = image_control(image);
	uint64_t tid = __atomic_load_n(&control->exec_asks, __ATOMIC_ACQUIRE);
	bool for_child = __atomic_load_n(&control->exec_forks, __ATOMIC_ACQUIRE) != 0;

	/* The target can write these words. */
	if (!tid || tid > INT32_MAX || for_child != forks)
		return false;
	*ret = (struct follow_ask){.proc = proc,
		.tid = (pid_t)tid,
		.code_lo = image->base + ABI_TEXT_OFF,
		.code_hi = image->base + ABI_TEXT_OFF + ABI_TEXT_MAX,
		.asks = &control->exec_asks,
		.held = &control->exec_held};
	return true;
}
