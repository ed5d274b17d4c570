/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/books.h"

#include "attach/proc/proc_status.h"

struct books books_make(const struct image *image, const struct proc *proc)
{
	struct proc_status status = {0};
	ht_err_free(proc_status(proc, 0, &status));
	return (struct books){.image = image, .proc = proc, .same_numbers = status.ns_alone};
}

raddr_t books_real(void *context, raddr_t entry)
{
	return image_real(((const struct books *)context)->image, entry);
}

/* Returns the next thread record, from index `*at` on, of the thread with the number `tid` in the
 * target; NULL: no more. */
static const struct abi_slot_head *slot_of(const struct image *image, uint32_t tid, uint32_t *at)
{
	while ((*at = image_slot_next(image, *at)) < image->slot_max) {
		uint32_t i = (*at)++;
		const struct abi_slot_head *head = image_slot_head(image, i);
		uint64_t key = __atomic_load_n(&head->key, __ATOMIC_ACQUIRE);
		if (key && !(key & ABI_SLOT_DEAD) &&
			__atomic_load_n(&head->tid, __ATOMIC_ACQUIRE) == tid)
			return head;
	}
	return NULL;
}

/*
 * Returns the number under which the agent recorded the thread; 0: the records are not about this
 * thread. The records that a forked process maps are its parent's, whose threads may have had the
 * same numbers. A process that shares the memory uses the record of the thread whose thread block
 * it has, and its number may be that of a thread that has ended.
 */
static uint32_t number_of(const struct books *books, const struct proc *of, pid_t tid)
{
	if (books->image->forked || of->pid != books->proc->pid)
		return 0;
	return (uint32_t)(books->same_numbers ? tid : proc_ns_tid(books->proc, tid));
}

static bool is_busy(const struct abi_slot_head *head)
{
	return __atomic_load_n(&head->state, __ATOMIC_ACQUIRE) != ABI_SLOT_IDLE;
}

/* Do the thread records show all calls? No, if a call found no free record (the record of an ended
 * thread may have this thread's number), or if a call was only forwarded because there was no clock
 * or no reader. */
static bool books_tell_all(const struct image *image)
{
	const struct abi_control *control = image_control(image);
	return !__atomic_load_n(&control->lost[ABI_LOSS_SLOT_FULL], __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&control->given_up, __ATOMIC_ACQUIRE) &&
	       !(__atomic_load_n(&control->forbidden, __ATOMIC_ACQUIRE) & ABI_FORBIDDEN_CLOCK);
}

enum quiesce_books books_of(void *context, const struct proc *of, pid_t tid)
{
	const struct books *books = context;
	const struct abi_slot_head *head;
	enum quiesce_books state = QUIESCE_UNKNOWN;
	uint32_t number = number_of(books, of, tid), at = 0;

	while (number && (head = slot_of(books->image, number, &at))) {
		if (is_busy(head))
			return QUIESCE_INSIDE;
		state = QUIESCE_IDLE;
	}
	return books_tell_all(books->image) ? state : QUIESCE_UNKNOWN;
}

/* Lists where hooks began that found no thread record of their own, and returns their number, 2 at
 * most. The agent keeps only the lowest and the highest stack pointer, and keeps them when such a
 * hook returns. */
static size_t unbooked_frames(const struct abi_slot_head *head, struct quiesce_frame *ret)
{
	raddr_t sp[] = {__atomic_load_n(&head->unbooked_lo, __ATOMIC_ACQUIRE),
		__atomic_load_n(&head->unbooked_hi, __ATOMIC_ACQUIRE)};
	size_t count = 0;
	for (size_t i = 0; i < HT_ARRAY_SIZE(sp); i++)
		if (sp[i])
			ret[count++] = (struct quiesce_frame){.sp = sp[i],
				.thread_pointer = head->key & ~15ull,
				.unfollowed = true};
	return count;
}

size_t books_frames(void *context, const struct proc *of, pid_t tid,
	struct quiesce_frame ret[QUIESCE_FRAMES_MAX], bool *ret_abandoned)
{
	const struct books *books = context;
	const struct abi_slot_head *head;
	uint32_t number = number_of(books, of, tid), at = 0;
	size_t count = 0;

	*ret_abandoned = false;
	while (number && (head = slot_of(books->image, number, &at))) {
		*ret_abandoned |= __atomic_load_n(&head->abandoned, __ATOMIC_ACQUIRE) != 0;
		if (count + 2 < QUIESCE_FRAMES_MAX)
			count += unbooked_frames(head, &ret[count]);
		if (is_busy(head) && count < QUIESCE_FRAMES_MAX)
			ret[count++] = (struct quiesce_frame){
				.sp = head->entry_sp, .thread_pointer = head->key & ~15ull};
	}
	return count;
}
