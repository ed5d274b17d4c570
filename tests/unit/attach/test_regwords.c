/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads with addresses of thunks in their registers: in general registers, and in vector
 * registers of each kind, at any byte, while the threads run and while they sleep.
 */
#include "attach/proof/regwords.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "attach/proc/clock.h"
#include "attach/thread/tracee.h"
#include "attach/thread/vectors.h"
#include "format/abi_thunk.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define THUNK  0x5a5a00020000ull
#define ENTRY  (THUNK + 3 * ABI_THUNK_BYTES + ABI_THUNK_ENTRY)
#define OTHER  (THUNK + 4 * ABI_THUNK_BYTES + ABI_THUNK_ENTRY) /* leads to no known function */
#define REAL   0x5a5a00077000ull
#define FAR_NS (10 * CLOCK_NS_PER_S)
#define FILLER 0xa5

static const struct stackscan_ranges ours = {.thunk_lo = THUNK, .thunk_hi = THUNK + HT_PAGE_BYTES};

#define REGISTER_BYTES 64u

static struct shared {
	uint8_t in[REGISTER_BYTES], out[REGISTER_BYTES];
	volatile uint64_t turns;
} * shared;

/* Defines a body that loads one register once, and stores it in each turn. */
#define SPIN(name, move, reg)                                                                      \
	static void name(const void *arg)                                                          \
	{                                                                                          \
		(void)arg;                                                                         \
		child_ready(0);                                                                    \
		__asm__ volatile(#move " %1, %%" #reg "\n"                                         \
				       "1:\n" #move " %%" #reg ", %0\n"                            \
				       "incq %2\n"                                                 \
				       "jmp 1b\n"                                                  \
				 : "=m"(shared->out)                                               \
				 : "m"(shared->in), "m"(shared->turns)                             \
				 : "memory");                                                      \
	}

SPIN(spin_with_mmx, movq, mm5)
SPIN(spin_with_first, movdqu, xmm0)
SPIN(spin_with_sse, movdqu, xmm15)
SPIN(spin_with_avx, vmovdqu, ymm9)
SPIN(spin_with_zmm, vmovdqu64, zmm9)
SPIN(spin_with_upper, vmovdqu64, zmm31)

static void sleep_with_sse(const void *arg)
{
	long result = SYS_pause;
	(void)arg;
	child_ready(0);
	__asm__ volatile("movdqu %2, %%xmm7\n"
			 "syscall\n"
			 "movdqu %%xmm7, %1\n"
			 : "+a"(result), "=m"(shared->out)
			 : "m"(shared->in)
			 : "rcx", "r11", "memory");
	child_wait();
}

static raddr_t real_of(void *context, raddr_t entry)
{
	(void)context;
	return entry == ENTRY ? REAL : 0;
}

static void setup(void)
{
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	memset(shared->in, FILLER, sizeof(shared->in));
}

static void put(size_t at, uint64_t word)
{
	memcpy(shared->in + at, &word, sizeof(word));
}

static void hold(const struct child *child, struct tracee *ret)
{
	enum tracee_result result;
	ck_no_err(tracee_stop(child->pid, clock_mono_ns() + FAR_NS, false, ret, &result));
	ck_assert_int_eq(result, TRACEE_STOPPED);
}

static void wait_for_turns(void)
{
	for (uint64_t since = shared->turns; shared->turns < since + 2;)
		sched_yield();
}

static struct regwords_report look(const struct child *child, bool rewrite)
{
	const struct regwords regwords = {.ranges = &ours, .real = rewrite ? real_of : NULL};
	struct regwords_report report;
	struct tracee tracee;
	hold(child, &tracee);
	ck_no_err(regwords_look(&regwords, child->pid, &tracee.regs, &report));
	ck_no_err(tracee_release(&tracee));
	return report;
}

/* ENTRY is at byte `at` of the register; heaptap's look must leave its first `bytes` bytes as they
 * were. */
static void check_spin(void (*spin)(const void *arg), size_t bytes, size_t at)
{
	uint8_t expected[REGISTER_BYTES];
	const uint64_t real = REAL;
	setup();
	put(at, ENTRY);
	struct child child = child_fork(spin, NULL);
	wait_for_turns();
	struct regwords_report report = look(&child, false);
	ck_assert_msg(report.left == 1 && !report.rewritten, "at %zu: %zu", at, report.left);
	wait_for_turns();
	ck_assert_mem_eq(shared->out, shared->in, bytes);
	report = look(&child, true);
	ck_assert_msg(!report.left && report.rewritten == 1, "at %zu", at);
	wait_for_turns();
	memcpy(expected, shared->in, bytes);
	memcpy(expected + at, &real, sizeof(real));
	ck_assert_mem_eq(shared->out, expected, bytes);
	report = look(&child, true);
	ck_assert_uint_eq(report.left + report.rewritten, 0);
	child_kill(&child);
	munmap(shared, sizeof(*shared));
}

HT_TEST(at_any_byte)
{
	check_spin(spin_with_mmx, 8, 0);
	for (size_t at = 0; at <= 8; at++) {
		check_spin(spin_with_first, 16, at);
		check_spin(spin_with_sse, 16, at);
	}
}

HT_TEST(words_in_extended_state)
{
	__builtin_cpu_init();
	for (size_t at = 0; at < 32 && __builtin_cpu_supports("avx"); at += 8)
		check_spin(spin_with_avx, 32, at);
	for (size_t at = 0; at < 64 && __builtin_cpu_supports("avx512f"); at += 8) {
		check_spin(spin_with_zmm, 64, at);
		check_spin(spin_with_upper, 64, at);
	}
	if (!__builtin_cpu_supports("avx512f"))
		printf("skipped: regwords: zmm: this processor has none\n");
}

/* After heaptap's write the thread's system call continues, and the code after it sees the function
 * in its register. */
HT_TEST(words_of_a_sleeping_thread)
{
	struct tracee tracee;
	uint64_t word[2];
	setup();
	put(0, ENTRY);
	put(8, ENTRY);
	struct child child = child_fork(sleep_with_sse, NULL);
	child_sleeping(&child);
	struct regwords_report report = look(&child, true);
	ck_assert_uint_eq(report.rewritten, 2);
	child_sleeping(&child);
	ck_assert_int_eq(child_call(child.pid), SYS_pause);
	hold(&child, &tracee);
	regs_forget_call(&tracee.regs);
	regs_set_result(&tracee.regs, 0);
	ck_no_err(tracee_release_at(&tracee, &tracee.regs));
	do {
		sched_yield(); /* a call, behind which memory is read anew */
		memcpy(word, shared->out, sizeof(word));
	} while (word[1] == 0);
	ck_assert_uint_eq(word[0], REAL);
	ck_assert_uint_eq(word[1], REAL);
	child_kill(&child);
}

static void spin(const void *arg)
{
	(void)arg;
	child_ready(0);
	for (;;)
		shared->turns++;
}

/* A child of this process may have inherited the addresses that the test looks for. */
static void clear(struct user_regs_struct *regs)
{
	for (unsigned i = 0; i < REGS_WORDS; i++)
		*regs_word(regs, i) = i;
}

HT_TEST(words_in_general_registers)
{
	const struct regwords none = {.ranges = &ours}, all = {.ranges = &ours, .real = real_of};
	struct regwords_report report;
	struct tracee tracee;
	setup();
	struct child child = child_fork(spin, NULL);
	hold(&child, &tracee);
	struct user_regs_struct regs;
	clear(&regs);
	*regs_word(&regs, 1) = ENTRY;
	*regs_word(&regs, 14) = OTHER;
	ck_no_err(regwords_look(&none, child.pid, &regs, &report));
	ck_assert_uint_eq(report.left, 2);
	ck_assert_uint_eq(report.rewritten, 0);
	ck_assert_uint_eq(*regs_word(&regs, 1), ENTRY);
	ck_no_err(regwords_look(&all, child.pid, &regs, &report));
	ck_assert_uint_eq(report.left, 1);
	ck_assert_uint_eq(report.rewritten, 1);
	ck_assert_uint_eq(*regs_word(&regs, 1), REAL);
	ck_assert_uint_eq(*regs_word(&regs, 14), OTHER);

	/* About to enter a thunk. */
	clear(&regs);
	regs_set_pc(&regs, ENTRY);
	ck_no_err(regwords_look(&none, child.pid, &regs, &report));
	ck_assert_uint_eq(report.left, 0);
	ck_no_err(regwords_look(&all, child.pid, &regs, &report));
	ck_assert_uint_eq(regs_pc(&regs), REAL);
	ck_no_err(tracee_release(&tracee));
	child_kill(&child);
}

HT_TEST(written_words_equal_those_read)
{
	static struct vectors before, after;
	struct tracee tracee;
	setup();
	struct child child = child_fork(spin_with_sse, NULL);
	wait_for_turns();
	hold(&child, &tracee);
	ck_no_err(vectors_read(child.pid, &before));
	ck_assert_uint_ge(before.length, 512);
	ck_no_err(vectors_write(child.pid, &before));
	ck_no_err(vectors_read(child.pid, &after));
	ck_assert_uint_eq(after.length, before.length);
	ck_assert_mem_eq(after.bytes, before.bytes, before.length);
	ck_no_err(tracee_release(&tracee));
	wait_for_turns();
	ck_assert_mem_eq(shared->out, shared->in, 16);
	child_kill(&child);
}

HT_TEST(words_of_a_thread_killed_while_stopped)
{
	static struct vectors vectors;
	struct tracee tracee;
	setup();
	struct child child = child_fork(spin_with_sse, NULL);
	hold(&child, &tracee);
	ck_no_err(vectors_read(child.pid, &vectors));
	child_kill(&child);
	ck_no_err(vectors_write(child.pid, &vectors));
	ck_no_err(vectors_read(child.pid, &vectors));
	ck_assert_uint_eq(vectors.length, 0);
}

HT_SUITE("attach/proof/regwords")
