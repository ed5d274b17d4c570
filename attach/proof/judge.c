/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/judge.h"

#include <libunwind-ptrace.h>
#include <string.h>

#include "attach/memory/memory.h"
#include "attach/proc/proc.h"
#include "attach/proc/proc_living.h"

#define FRAMES_MAX 20000u

/* A smaller frame holds no array that was used as a signal stack: the kernel's signal frame alone
 * takes 8 + 304 + 128 bytes and, with SSE only, 512 bytes of registers. */
#define STACK_BYTES_MIN 900u

/* In clone and clone3 of glibc and musl, the system call that ends the thread comes this soon after
 * the call of the thread's first function. */
#define EXIT_WITHIN_BYTES 16u
#define ENTRY_BYTES	  64u /* length of _start up to its call */

struct walk {
	const struct proc *proc;
	const struct stackscan_ranges *ranges;
	bool whole;
	struct proc_auxv auxv;
};

/* Without unwind data of a function libunwind guesses by rbp, and may skip a frame of ours. */
static bool is_known(unw_cursor_t *cursor, unw_word_t ip)
{
	unw_proc_info_t info;
	return unw_get_proc_info(cursor, &info) == 0 &&
	       !(info.start_ip == ip && info.end_ip == ip + 1);
}

/* Does the frame at `ip` begin a thread? A coroutine's first frame is an outermost frame too, but
 * begins none. */
static struct ht_err *begins_thread(const struct walk *walk, raddr_t ip, bool *ret)
{
	static const uint8_t syscall_code[] = {0x0f, 0x05};
	uint8_t code[EXIT_WITHIN_BYTES];
	size_t got = 0;

	*ret = ip - walk->auxv.entry < ENTRY_BYTES;
	if (*ret)
		return NULL;
	struct ht_err *err = memory_read_some(walk->proc, ip, code, sizeof(code), &got);
	*ret = !err && memmem(code, got, syscall_code, sizeof(syscall_code));
	return err;
}

/* May the frame from `lo` to `hi`, whose function is not ours, hold an array that is another stack,
 * with a return into our code on it? */
static struct ht_err *may_hold_stack(
	const struct walk *walk, unw_cursor_t *cursor, raddr_t lo, raddr_t hi, bool *ret)
{
	*ret = false;
	if (!walk->whole || hi < lo + STACK_BYTES_MIN || unw_is_signal_frame(cursor) > 0)
		return NULL;
	return stackscan_holds(walk->proc, walk->ranges, lo, hi, ret);
}

/* Judges one frame. `*ret_more`: the frame is outside, and another follows. `*called`: on return,
 * the next frame's address is a return address, not a PC. */
static struct ht_err *judge_frame(const struct walk *walk, unw_cursor_t *cursor, bool *called,
	enum judge_result *ret, bool *ret_more)
{
	unw_word_t ip, sp, caller_sp;
	bool holds, begins = true;

	*ret = JUDGE_UNDECIDED;
	*ret_more = false;
	if (unw_get_reg(cursor, UNW_REG_IP, &ip) < 0 || unw_get_reg(cursor, UNW_REG_SP, &sp) < 0)
		return NULL;
	if (*called ? stackscan_is_return(walk->ranges, ip) : stackscan_ours(walk->ranges, ip)) {
		*ret = JUDGE_INSIDE;
		return NULL;
	}
	if (!is_known(cursor, ip))
		return NULL;
	unw_cursor_t caller = *cursor;
	int step = unw_step(&caller);
	if (step < 0)
		return NULL;
	if (step == 0) {
		struct ht_err *err = walk->whole ? begins_thread(walk, ip, &begins) : NULL;
		*ret = !err && begins ? JUDGE_OUTSIDE : JUDGE_UNDECIDED;
		return err;
	}
	if (unw_get_reg(&caller, UNW_REG_SP, &caller_sp) < 0)
		return NULL;
	struct ht_err *err = may_hold_stack(walk, cursor, sp, caller_sp, &holds);
	*ret = !err && holds ? JUDGE_INSIDE : JUDGE_UNDECIDED;
	*ret_more = !err && !holds;
	*called = unw_is_signal_frame(cursor) <= 0;
	*cursor = caller;
	return err;
}

static struct ht_err *walk_frames(
	const struct walk *walk, unw_cursor_t *cursor, enum judge_result *ret)
{
	struct ht_err *err = NULL;
	bool called = false, more = true;
	for (unsigned i = 0; i < FRAMES_MAX && more && !err; i++)
		err = judge_frame(walk, cursor, &called, ret, &more);
	return err;
}

static struct ht_err *judge(const struct walk *walk, pid_t tid, enum judge_result *ret)
{
	unw_addr_space_t space = unw_create_addr_space(&_UPT_accessors, 0);
	void *info = space ? _UPT_create(tid) : NULL;
	unw_cursor_t cursor;
	struct ht_err *err = NULL;

	*ret = JUDGE_UNDECIDED;
	if (info && unw_init_remote(&cursor, space, info) == 0)
		err = walk_frames(walk, &cursor, ret);
	if (info)
		_UPT_destroy(info);
	if (space)
		unw_destroy_addr_space(space);
	return err;
}

struct ht_err *judge_frames(const struct proc *proc, pid_t tid,
	const struct stackscan_ranges *ranges, enum judge_result *ret)
{
	return judge(&(struct walk){.proc = proc, .ranges = ranges}, tid, ret);
}

struct ht_err *judge_whole(const struct proc *proc, pid_t tid,
	const struct stackscan_ranges *ranges, enum judge_result *ret)
{
	struct walk walk = {.proc = proc, .ranges = ranges, .whole = true};
	HT_TRY(proc_auxv_read(proc, &walk.auxv));
	return judge(&walk, tid, ret);
}
