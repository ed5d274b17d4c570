/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/stackscan.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/memory/proc_maps.h"
#include "attach/process/proc_open.h"
#include "attach/thread/proc_where.h"
#include "format/abi_thunk.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define STACK_PAGES 4u
#define STACK_WORDS (STACK_PAGES * HT_PAGE_BYTES / 8)
#define LONG_BYTES  (1u << 19)
#define FRAME_WORDS 4u /* of put_frame */

/* Addresses that nothing else in the test holds. */
#define TEXT  0x5a5a00010000ull
#define THUNK 0x5a5a00020000ull
#define SLACK 0x5a5a00030000ull

static const struct stackscan_ranges ours = {.text_lo = TEXT,
	.text_hi = TEXT + 0x1000,
	.thunk_lo = THUNK,
	.thunk_hi = THUNK + HT_PAGE_BYTES,
	.slack_lo = SLACK,
	.slack_hi = SLACK + 0x100};

static raddr_t at(const void *pointer)
{
	return (raddr_t)(uintptr_t)pointer;
}

static raddr_t entry(unsigned index)
{
	return THUNK + index * ABI_THUNK_BYTES + ABI_THUNK_ENTRY;
}

HT_TEST(entries)
{
	ck_assert(stackscan_is_entry(&ours, entry(0)));
	ck_assert(stackscan_is_entry(&ours, entry(ABI_THUNK_MAX - 1)));
	ck_assert(!stackscan_is_entry(&ours, entry(ABI_THUNK_MAX)));
	ck_assert(!stackscan_is_entry(&ours, entry(0) - ABI_THUNK_BYTES));
	for (unsigned i = 1; i < ABI_THUNK_BYTES; i++)
		ck_assert(!stackscan_is_entry(&ours, entry(3) + i));
	ck_assert(!stackscan_is_entry(&ours, TEXT + ABI_THUNK_ENTRY));
}

HT_TEST(bounds_of_our_code)
{
	const struct {
		raddr_t lo, hi;
	} part[] = {
		{ours.text_lo, ours.text_hi},
		{ours.thunk_lo, ours.thunk_hi},
		{ours.slack_lo, ours.slack_hi},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(part); i++) {
		ck_assert(!stackscan_ours(&ours, part[i].lo - 1));
		ck_assert(stackscan_ours(&ours, part[i].lo));
		ck_assert(stackscan_ours(&ours, part[i].hi - 1));
		ck_assert(!stackscan_ours(&ours, part[i].hi));
	}
}

/* --- stacks made by hand ---------------------------------------------------------------------- */

static struct proc self;

/* Returns a mapping of `bytes` bytes, with nothing readable around it. */
static uint64_t *make_stack_of(size_t bytes)
{
	uint8_t *area = mmap(
		NULL, bytes + 2 * HT_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(area, MAP_FAILED);
	ck_assert_int_eq(mprotect(area + HT_PAGE_BYTES, bytes, PROT_READ | PROT_WRITE), 0);
	if (!self.pid) {
		ck_no_err(proc_open(getpid(), &self));
		ck_no_err(proc_open_mem(&self));
	}
	return (uint64_t *)(void *)(area + HT_PAGE_BYTES);
}

static uint64_t *make_stack(void)
{
	return make_stack_of(STACK_PAGES * HT_PAGE_BYTES);
}

static struct stackscan_found scan(const struct proc_maps *maps, raddr_t sp)
{
	struct stackscan_found found;
	ck_no_err(stackscan_run(&self, maps, &ours, sp, STACKSCAN_ALL, &found));
	return found;
}

static struct stackscan_found scan_now(const uint64_t *sp)
{
	struct proc_maps maps;
	ck_no_err(proc_maps_read(&self, &maps));
	struct stackscan_found found = scan(&maps, at(sp));
	proc_maps_deinit(&maps);
	return found;
}

static void check_found(const struct stackscan_found *found, size_t plain, size_t signal)
{
	ck_assert_uint_eq(found->plain, plain);
	ck_assert_uint_eq(found->signal, signal);
	ck_assert_uint_eq(found->unread, 0);
}

static void check_unread(const struct stackscan_found *found, size_t plain)
{
	ck_assert_uint_eq(found->plain, plain);
	ck_assert_uint_eq(found->signal, 0);
	ck_assert_uint_eq(found->unread, 1);
}

/* Puts RSP, RIP, flags and segments as the kernel does in a signal frame. */
static void put_frame(uint64_t *stack, raddr_t sp, raddr_t pc)
{
	stack[0] = sp;
	stack[1] = pc;
	stack[2] = 0x246;
	stack[3] = 0x002b000000000033;
}

HT_TEST(return_addresses)
{
	uint64_t *stack = make_stack();
	struct stackscan_found found = scan_now(stack + 100);
	check_found(&found, 0, 0);
	stack[200] = TEXT;
	stack[201] = TEXT + 0xfff;
	stack[202] = TEXT + 0x1000;
	stack[300] = THUNK + ABI_THUNK_ENTRY + 4;
	stack[STACK_WORDS - 1] = SLACK + 0xff;
	found = scan_now(stack + 100);
	check_found(&found, 4, 0);
	ck_assert_uint_eq(found.entry_count, 0);
}

/* The word that a call without return has left (slack_left) does not count; a PC with that value
 * does. */
HT_TEST(one_word_is_no_return_address)
{
	uint64_t *stack = make_stack();
	struct stackscan_ranges ranges = ours;
	struct stackscan_found found;
	struct proc_maps maps;
	ranges.slack_left = SLACK + 0x80;
	ck_no_err(proc_maps_read(&self, &maps));
	stack[200] = SLACK + 0x80;
	ck_no_err(stackscan_run(&self, &maps, &ranges, at(stack + 100), STACKSCAN_ALL, &found));
	check_found(&found, 0, 0);
	stack[201] = SLACK + 0x7f;
	stack[202] = SLACK + 0x81;
	stack[203] = 0;
	ck_no_err(stackscan_run(&self, &maps, &ranges, at(stack + 100), STACKSCAN_ALL, &found));
	check_found(&found, 2, 0);
	put_frame(stack + 300, at(stack + 310), SLACK + 0x80);
	ck_no_err(stackscan_run(&self, &maps, &ranges, at(stack + 100), STACKSCAN_ALL, &found));
	check_found(&found, 2, 1);
	proc_maps_deinit(&maps);
}

HT_TEST(the_red_zone_belongs_to_the_stack)
{
	uint64_t *stack = make_stack();
	struct stackscan_found found;
	stack[100 - 17] = TEXT;
	found = scan_now(stack + 100);
	check_found(&found, 0, 0);
	stack[100 - 16] = TEXT;
	found = scan_now(stack + 100);
	check_found(&found, 1, 0);
	/* At the mapping's beginning the red zone is cut short; and sp may be odd. */
	found = scan_now(stack);
	check_found(&found, 2, 0);
	found = scan_now((uint64_t *)(void *)((uint8_t *)(stack + 100) + 3));
	check_found(&found, 1, 0);
}

HT_TEST(function_pointers_are_located)
{
	uint64_t *stack = make_stack();
	for (unsigned i = 0; i < ABI_THUNK_MAX; i++)
		stack[100 + 2 * i] = entry(i);
	struct stackscan_found found = scan_now(stack + 50);
	check_found(&found, 0, 0);
	ck_assert_uint_eq(found.entry_count, ABI_THUNK_MAX);
	for (unsigned i = 0; i < ABI_THUNK_MAX; i++)
		ck_assert_uint_eq(found.entry[i], at(&stack[100 + 2 * i]));
	stack[STACK_WORDS - 1] = entry(1);
	found = scan_now(stack + 50);
	ck_assert_uint_eq(found.entry_count, STACKSCAN_ENTRIES_MAX + 1);
	ck_assert_uint_eq(found.entry[STACKSCAN_ENTRIES_MAX - 1], at(&stack[100 + 2 * 63]));
}

HT_TEST(signal_frames)
{
	uint64_t *stack = make_stack();
	put_frame(stack + 200, at(stack + 300), 0x1234);
	struct stackscan_found found = scan_now(stack + 100);
	check_found(&found, 0, 0);
	put_frame(stack + 200, at(stack + 300), TEXT + 5);
	found = scan_now(stack + 100);
	ck_assert_uint_eq(found.signal, 1);
	put_frame(stack + 200, at(stack + 300), entry(2));
	found = scan_now(stack + 100);
	ck_assert_uint_eq(found.signal, 1);
}

/* The stack is read in pieces; signal frames lie across the borders of pieces at each offset. */
HT_TEST(signal_frames_everywhere)
{
	uint64_t *stack = make_stack_of(LONG_BYTES);
	const size_t words = LONG_BYTES / sizeof(*stack);
	for (size_t shift = 0; shift < FRAME_WORDS; shift++) {
		size_t frames = 0;
		memset(stack, 0, LONG_BYTES);
		for (size_t i = shift; i + FRAME_WORDS <= words; i += FRAME_WORDS, frames++)
			put_frame(stack + i, at(stack + i), SLACK);
		struct stackscan_found found = scan_now(stack);
		ck_assert_uint_eq(found.signal, frames);
		ck_assert_uint_eq(found.plain, frames);
	}
}

HT_TEST(interrupted_stacks_are_followed)
{
	uint64_t *alternate = make_stack(), *primary = make_stack(), *third = make_stack();
	put_frame(alternate + 200, at(primary + 700), 0x1234);
	put_frame(primary + 900, at(third + 700), 0x1234);
	third[700 - 16] = TEXT;
	third[700 - 17] = TEXT;
	primary[700 - 17] = TEXT;
	primary[STACK_WORDS - 1] = TEXT;
	struct stackscan_found found = scan_now(alternate + 100);
	check_found(&found, 2, 0);
}

/* Stacks that return into each other are scanned once. */
HT_TEST(circles)
{
	uint64_t *a = make_stack(), *b = make_stack();
	put_frame(a + 200, at(b + 700), 0x1234);
	put_frame(b + 900, at(a + 100), 0x1234);
	a[300] = TEXT;
	b[800] = TEXT;
	struct stackscan_found found = scan_now(a + 100);
	check_found(&found, 2, 0);
}

/* The interrupted frames lie below the signal stack, in the same mapping. */
HT_TEST(a_signal_stack_within_the_stack)
{
	uint64_t *stack = make_stack();
	put_frame(stack + 1000, at(stack + 300), 0x1234);
	stack[299] = TEXT;
	stack[400] = TEXT;
	stack[1500] = TEXT;
	struct stackscan_found found = scan_now(stack + 900);
	check_found(&found, 3, 0);
}

HT_TEST(stacks_too_many_are_unread)
{
	uint64_t *stack = make_stack();
	for (unsigned i = 0; i < 7; i++)
		put_frame(stack + 200 + 4 * i, at(make_stack() + 100), 0x1234);
	struct stackscan_found found = scan_now(stack + 100);
	check_found(&found, 0, 0);
	put_frame(stack + 300, at(make_stack() + 100), 0x1234);
	found = scan_now(stack + 100);
	check_unread(&found, 0);
}

/* Frames of nested signals on one stack are no further stacks. */
HT_TEST(many_frames_on_one_stack)
{
	uint64_t *stack = make_stack(), *other = make_stack();
	for (unsigned i = 0; i < 20; i++)
		put_frame(stack + 200 + 4 * i, at(stack + 1000 + i), 0x1234);
	put_frame(stack + 600, at(other + 100), 0x1234);
	other[100] = TEXT;
	struct stackscan_found found = scan_now(stack + 100);
	check_found(&found, 1, 0);
}

HT_TEST(a_stack_that_is_not_there_is_a_hit)
{
	uint64_t *stack = make_stack();
	struct stackscan_found found = scan_now((const uint64_t *)0x10000);
	check_found(&found, 1, 0);
	put_frame(stack + 200, 0x10000, 0x1234);
	found = scan_now(stack + 150);
	check_found(&found, 1, 0);
}

/* A stack is unread if it was mapped after the maps were read, or if its rest cannot be read. */
HT_TEST(a_stack_that_the_maps_do_not_tell_is_unread)
{
	uint64_t *stack = make_stack();
	struct proc_maps maps;

	ck_no_err(proc_maps_read(&self, &maps));
	stack[100] = TEXT;
	munmap(stack + HT_PAGE_BYTES / 8, HT_PAGE_BYTES);
	struct stackscan_found found = scan(&maps, at(stack + 50));
	check_unread(&found, 1);
	uint64_t *young = make_stack();
	young[100] = 1;
	found = scan(&maps, at(young + 100));
	check_unread(&found, 0);
	proc_maps_deinit(&maps);
	uint64_t *whole = make_stack();
	ck_no_err(proc_maps_read(&self, &maps));
	uint64_t *younger = make_stack();
	younger[100] = 1;
	put_frame(whole + 200, at(younger + 100), 0x1234);
	found = scan(&maps, at(whole + 150));
	check_unread(&found, 0);
	proc_maps_deinit(&maps);
}

/* --- frames made by the kernel ------------------------------------------------------------------
 */

void trap_outer(void);
extern const char trap_outer_end[], trap_inner[], trap_inner_end[];

__asm__(".text\n"
	".globl trap_outer, trap_outer_end, trap_inner, trap_inner_end\n"
	"trap_outer:\n"
	"	sub $1024, %rsp\n"
	"	call trap_inner\n"
	"	add $1024, %rsp\n"
	"	ret\n"
	"trap_outer_end:\n"
	"trap_inner:\n"
	"	int3\n"
	"	ret\n"
	"trap_inner_end:\n");

enum where { ON_THE_STACK, ON_ANOTHER, WITHIN_THE_STACK };

static void stay(int sig)
{
	(void)sig;
	child_ready(0);
	child_wait();
}

static void trapped(const void *arg)
{
	enum where where = *(const enum where *)arg;
	static uint8_t apart[65536];
	uint8_t within[65536];
	struct sigaction action = {.sa_handler = stay, .sa_flags = SA_ONSTACK};
	stack_t stack = {.ss_sp = where == ON_ANOTHER ? apart : within, .ss_size = sizeof(apart)};

	if (where != ON_THE_STACK)
		sigaltstack(&stack, NULL);
	sigaction(SIGTRAP, &action, NULL);
	trap_outer();
}

HT_TEST(real_signal_frames)
{
	static const enum where where[] = {ON_THE_STACK, ON_ANOTHER, WITHIN_THE_STACK};
	/* The caller's code is the text, so that its return address counts; the PC is in the slack.
	 * Not on the stack, which the child inherits. */
	static const struct stackscan_ranges ranges = {.text_lo = (raddr_t)trap_outer,
		.text_hi = (raddr_t)trap_outer_end,
		.slack_lo = (raddr_t)trap_inner,
		.slack_hi = (raddr_t)trap_inner_end};
	for (size_t i = 0; i < HT_ARRAY_SIZE(where); i++) {
		struct child child = child_fork(trapped, &where[i]);
		struct proc proc;
		struct proc_maps maps;
		struct proc_syscall call;
		struct stackscan_found found;
		child_sleeping(&child);
		ck_no_err(proc_open(child.pid, &proc));
		ck_no_err(proc_open_mem(&proc));
		ck_no_err(proc_maps_read(&proc, &maps));
		ck_no_err(proc_syscall_read(&proc, child.pid, &call));
		ck_no_err(stackscan_run(&proc, &maps, &ranges, call.sp, STACKSCAN_ALL, &found));
		ck_assert_uint_eq(found.signal, 1);
		ck_assert_msg(found.plain >= 2, "%zu: %zu words", i, found.plain);
		proc_maps_deinit(&maps);
		proc_close(&proc);
		child_kill(&child);
	}
}

HT_SUITE("attach/proof/stackscan")
