/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what quiesce does while it holds threads, and how many threads wait meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "attach/memory/memory.h"
#include "attach/proc/clock.h"
#include "attach/process/proc_open.h"
#include "attach/proof/quiesce.h"
#include "format/abi_thunk.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/unit/attach/ptracecall.h"

/* Addresses that nothing else in the test holds. */
#define TEXT  0x5a5a00010000ull
#define THUNK 0x5a5a00020000ull
#define ENTRY (THUNK + 3 * ABI_THUNK_BYTES + ABI_THUNK_ENTRY)
#define REAL  0x5a5a00077000ull

#define COROUTINES  4u
#define ARENA_BYTES (4ull << 20)
#define STACK_BYTES (64ull << 10)
#define SMALL_BYTES (512ull << 10) /* more than is read of one stack while others wait */

static const struct stackscan_ranges ours = {.text_lo = TEXT,
	.text_hi = TEXT + HT_PAGE_BYTES,
	.thunk_lo = THUNK,
	.thunk_hi = THUNK + HT_PAGE_BYTES};

static struct shared {
	volatile uint64_t r12, turns;
	volatile unsigned stop, interrupted;
	atomic_uint waiting;
	/* Threads that workers have asked to stop and not released, and the most of them at a time.
	 * While there are any: reads, and bytes read; also the bytes while there are several. */
	atomic_uint held, held_most, reads;
	atomic_ulong read, read_while_many;
} * shared;

static struct proc proc;

static long ptrace_called(enum __ptrace_request request, pid_t tid, void *addr, void *data)
{
	long result = ptrace_really(request, tid, addr, data);
	if (result == 0 && request == PTRACE_INTERRUPT)
		shared->held++;
	if (shared->held > shared->held_most)
		shared->held_most = shared->held;
	if (result == 0 && request == PTRACE_DETACH)
		shared->held--;
	return result;
}

/* Called once, at the next read of the target's memory: wakes a thread that waited. */
static void (*while_looked_at)(void);

ssize_t pread(int fd, void *buffer, size_t length, off_t offset)
{
	void (*once)(void) = fd == proc.mem_fd ? while_looked_at : NULL;
	if (once) {
		while_looked_at = NULL;
		once();
	}
	if (shared && shared->held) {
		shared->reads++;
		shared->read += length;
		shared->read_while_many += shared->held > 1 ? length : 0;
	}
	return syscall(SYS_pread64, fd, buffer, length, offset);
}

static enum quiesce_books ask_books(void *context, const struct proc *of, pid_t tid)
{
	(void)context, (void)of, (void)tid;
	return QUIESCE_UNKNOWN;
}

static raddr_t real_of(void *context, raddr_t entry)
{
	(void)context;
	return entry == ENTRY ? REAL : 0;
}

static struct quiesce *start(
	const struct child *child, bool rewrite, raddr_t (*real)(void *context, raddr_t entry))
{
	struct quiesce_options options = {.proc = &proc,
		.ranges = ours,
		.rewrite = rewrite,
		.real = real,
		.books = ask_books};
	struct quiesce *quiesce;
	ck_no_err(proc_open(child->pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	ck_no_err(quiesce_create(&options, &quiesce));
	return quiesce;
}

static void finish(struct quiesce *quiesce, struct child *child)
{
	quiesce_destroy(quiesce);
	proc_close(&proc);
	child_kill(child);
}

static void setup(void)
{
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

static uint8_t *arena;

static void spin_for_good(void)
{
	shared->waiting++;
	while (!shared->stop)
		shared->turns++;
}

static void *spin_on_a_coroutine(void *arg)
{
	ucontext_t here, there;
	getcontext(&there);
	there.uc_stack.ss_sp = arg;
	there.uc_stack.ss_size = STACK_BYTES;
	there.uc_link = &here;
	makecontext(&there, spin_for_good, 0);
	swapcontext(&here, &there);
	return NULL;
}

static void with_coroutines(const void *arg)
{
	pthread_t thread;
	(void)arg;
	for (unsigned i = 0; i < COROUTINES; i++)
		pthread_create(&thread, NULL, spin_on_a_coroutine, arena + i * STACK_BYTES);
	while (shared->waiting < COROUTINES)
		sched_yield();
	child_ready(0);
	child_wait();
}

/* heaptap cannot tell where such a stack ends in its mapping, and reads the mapping to its end; but
 * no other thread waits for that. */
HT_TEST(stacks_in_large_mappings_are_read_one_at_a_time)
{
	struct quiesce_report report;
	setup();
	arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(arena, MAP_FAILED);
	struct child child = child_fork(with_coroutines, NULL);
	struct quiesce *quiesce = start(&child, false, real_of);
	do
		ck_no_err(quiesce_pass(quiesce, &report));
	while (report.left);
	ck_assert_uint_eq(shared->held, 0);
	ck_assert_uint_ge(shared->read, COROUTINES * (ARENA_BYTES - COROUTINES * STACK_BYTES));
	ck_assert_uint_le(shared->read_while_many, COROUTINES * SMALL_BYTES);
	ck_assert_uint_lt(shared->reads, shared->read / (STACK_BYTES / 2));
	finish(quiesce, &child);
}

#define DOUBTFUL    9u
#define JUDGED_MOST 4u

static void *wait_with_a_word(void *arg)
{
	volatile uint64_t word = TEXT + 0x100;
	(void)arg;
	shared->waiting++;
	pause();
	return (void *)(uintptr_t)word;
}

static void with_words(const void *arg)
{
	pthread_t thread;
	(void)arg;
	for (unsigned i = 0; i < DOUBTFUL; i++)
		pthread_create(&thread, NULL, wait_with_a_word, NULL);
	while (shared->waiting < DOUBTFUL)
		sched_yield();
	child_ready(0);
	child_wait();
}

/* Each unwind takes some 10 ms, and the threads held meanwhile wait for all of them. */
HT_TEST(few_wait_for_the_unwinds_of_others)
{
	struct quiesce_report report;
	setup();
	struct child child = child_fork(with_words, NULL);
	struct quiesce *quiesce = start(&child, false, real_of);
	ck_no_err(quiesce_pass(quiesce, &report));
	ck_assert_uint_ge(report.left, DOUBTFUL);
	while (report.left)
		ck_no_err(quiesce_pass(quiesce, &report));
	ck_assert_uint_ge(report.stopped, DOUBTFUL);
	ck_assert_uint_le(shared->held_most, JUDGED_MOST);
	finish(quiesce, &child);
}

static pid_t signalled;

static raddr_t real_and_signal(void *context, raddr_t entry)
{
	kill(signalled, SIGUSR1);
	return real_of(context, entry);
}

static void count_turn(int sig)
{
	(void)sig;
	shared->turns++;
}

/* pause(2) with an entry in r12. */
static void pause_with_entry(const void *arg)
{
	long result = SYS_pause;
	(void)arg;
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = count_turn}, NULL);
	child_ready(0);
	__asm__ volatile("mov %2, %%r12\n"
			 "syscall\n"
			 "mov %%r12, %1\n"
			 : "+a"(result), "=m"(shared->r12)
			 : "r"(ENTRY)
			 : "r12", "rcx", "r11", "memory");
	shared->interrupted = result == -EINTR;
	child_wait();
}

/* The signal comes while the thread's registers are rewritten: the call must not be made again. */
HT_TEST(a_call_is_interrupted_while_its_registers_are_rewritten)
{
	setup();
	struct child child = child_fork(pause_with_entry, NULL);
	struct quiesce_report report;
	child_sleeping(&child);
	signalled = child.pid;
	struct quiesce *quiesce = start(&child, true, real_and_signal);
	do
		ck_no_err(quiesce_pass(quiesce, &report));
	while (report.stopped == 0);
	ck_assert_uint_ge(report.rewritten, 1);
	while (!shared->turns)
		sched_yield();
	child_sleeping(&child);
	ck_assert_uint_eq(shared->r12, REAL);
	ck_assert_uint_eq(shared->interrupted, 1);
	finish(quiesce, &child);
}

/* Loads each register except rsp with `entry`, and stores all of them in each turn. */
#define REGISTERS 15u
void spin_with_all(uint64_t entry);
extern volatile uint64_t all_registers[REGISTERS + 1]; /* and the turns */

__asm__(".pushsection .bss\n"
	".balign 8\n"
	"all_registers: .skip 128\n"
	".popsection\n"
	"spin_with_all:\n"
	".irp reg, rax, rbx, rcx, rdx, rsi, rbp, r8, r9, r10, r11, r12, r13, r14, r15\n"
	"	mov %rdi, %\\reg\n"
	".endr\n"
	"1:\n"
	".set at, 0\n"
	".irp reg, rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15\n"
	"	mov %\\reg, all_registers + at(%rip)\n"
	"	.set at, at + 8\n"
	".endr\n"
	"	incq all_registers + at(%rip)\n"
	"	jmp 1b\n");

static void spin_all(const void *arg)
{
	child_ready(0);
	spin_with_all(*(const uint64_t *)arg);
}

static void check_registers(uint64_t expected)
{
	uint64_t word[REGISTERS + 1], turns = 0;
	for (unsigned looks = 0; looks<3; looks += word[REGISTERS]> turns) {
		turns = looks ? word[REGISTERS] : 0;
		ck_no_err(
			memory_read(&proc, (raddr_t)(uintptr_t)all_registers, word, sizeof(word)));
	}
	for (unsigned i = 0; i < REGISTERS; i++)
		ck_assert_msg(word[i] == expected, "register %u: %lx", i, (long)word[i]);
}

HT_TEST(function_pointers_in_all_registers_are_rewritten)
{
	static const uint64_t entry = ENTRY;
	setup();
	struct child child = child_fork(spin_all, &entry);
	struct quiesce_report report;
	struct quiesce *quiesce = start(&child, true, real_of);
	check_registers(ENTRY);
	do
		ck_no_err(quiesce_pass(quiesce, &report));
	while (report.stopped == 0);
	ck_assert_uint_eq(report.left, 0);
	ck_assert_uint_eq(report.rewritten, REGISTERS);
	check_registers(REAL);
	finish(quiesce, &child);
}

static int gate[2];
static struct child waiter;

static void wait_at_the_gate(const void *arg)
{
	char byte;
	(void)arg;
	child_ready(0);
	if (read(gate[0], &byte, 1) == 1)
		child_wait();
}

static void open_the_gate(void)
{
	ck_assert_int_eq(write(gate[1], "x", 1), 1);
	while (child_call(waiter.pid) != SYS_pause)
		sched_yield();
}

/* The stack may have been read partly before and partly after the move. */
HT_TEST(a_thread_that_has_moved_meanwhile_was_not_seen)
{
	setup();
	ck_assert_int_eq(pipe2(gate, O_CLOEXEC), 0);
	waiter = child_fork(wait_at_the_gate, NULL);
	struct quiesce_report report;
	child_sleeping(&waiter);
	struct quiesce *quiesce = start(&waiter, false, real_of);
	while_looked_at = open_the_gate;
	ck_no_err(quiesce_pass(quiesce, &report));
	ck_assert_ptr_null((void *)(uintptr_t)while_looked_at);
	ck_assert_uint_eq(report.asleep, 0);
	while (report.left)
		ck_no_err(quiesce_pass(quiesce, &report));
	finish(quiesce, &waiter);
}

static void compute(const void *arg)
{
	(void)arg;
	child_ready(0);
	for (;;)
		shared->turns++;
}

/* While it holds a thread, quiesce compares the process with the one that was opened. */
HT_TEST(a_thread_of_another_program_is_not_judged)
{
	setup();
	struct child child = child_fork(compute, NULL);
	struct quiesce_report report = {0};
	struct quiesce *quiesce = start(&child, false, real_of);
	struct ht_err *err;
	proc.exe_ino++;
	do
		err = quiesce_pass(quiesce, &report);
	while (!err && report.left);
	ck_err(err, HT_ERR_TARGET_GONE);
	finish(quiesce, &child);
}

HT_SUITE("attach/proof/quiesce, held")
