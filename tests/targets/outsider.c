/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with a seccomp filter that allows every system call of the code that was mapped from
 * files, or in the vDSO, when the command began, and traps the calls of all other code. The program
 * counts trapped calls, which fail.
 *
 *      enter HOW       installs the filter for all threads: "trap": by seccomp(2); "unseen": the
 *                      same by a system call instruction of its own. Answers "entered"
 *      work N          N rounds in each of four threads, one of them on a stack of its own making.
 *                      All get signals whose handlers map and unmap; every 2000 rounds a thread
 *                      makes another one that lives for a few rounds. Answers {"rounds", "handled",
 *                      "outside"}; "outside" is the number of calls that were trapped meanwhile
 *      work N HOW      the same, and installs the filter in the middle of it; also "each": every
 *                      thread for itself, with prctl(2)
 *      outside         makes one call from code in anonymous memory; answers "outside N", the
 *                      number of calls that were trapped meanwhile
 *
 * The program catches SIGSYS only during "work" and "outside". Otherwise a trapped call ends the
 * process. heaptap treats a program that catches SIGSYS when a capture begins as one that may use
 * Syscall User Dispatch.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "tests/targets/forget.h"
#include "tests/targets/speak.h"

#define THREADS	     4
#define SHORT_ROUNDS 50
#define SHORT_EVERY  2000 /* rounds */
#define SIGNAL_EVERY 100
#define SPANS_MAX    24
#define SPAN_CODE    6 /* filter instructions for each span */
#define STACK_BYTES  (256 << 10)
#define PAGE	     4096

/* --- the filter --- */

static struct span {
	uint64_t lo, hi;
} spans[SPANS_MAX];
static size_t span_count;
static long (*stranger)(void);
static volatile unsigned long outside;

static void add_span(uint64_t lo, uint64_t hi)
{
	if (span_count == SPANS_MAX || lo >> 32 != hi >> 32)
		speak_fail("%zu spans, the next one %lx-%lx", span_count, lo, hi);
	spans[span_count++] = (struct span){lo, hi};
}

/* Finds executable mappings of files, and the vDSO. Not those of memfds, which are heaptap's if the
 * filter is entered during a capture. */
static void find_spans(void)
{
	static char text[60000];
	speak_read("/proc/self/maps", text, sizeof(text));
	span_count = 0;
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n"));) {
		unsigned long lo, hi;
		char perms[5], path[8];
		if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %7s", &lo, &hi, perms, path) == 4 &&
			perms[2] == 'x' && !strstr(line, "memfd:") && strcmp(path, "[vsysca"))
			add_span(lo, hi);
	}
}

enum how { BY_SECCOMP, BY_PRCTL, UNSEEN };

static long call_unseen(long number, long a, long b, const void *c)
{
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	long ret;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return ret;
}

/* Installs the filter. The kernel gives the filter the address behind the system call
 * instruction. */
static int enter(enum how how)
{
	const uint32_t at = offsetof(struct seccomp_data, instruction_pointer);
	struct sock_filter code[SPANS_MAX * SPAN_CODE + 1];
	size_t count = 0;
	for (size_t i = 0; i < span_count; i++) {
		const struct sock_filter span[SPAN_CODE] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at + 4),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(spans[i].lo >> 32), 0, 4),
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
			BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)spans[i].lo, 0, 2),
			BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)spans[i].hi, 1, 0),
			BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW)};
		memcpy(code + count, span, sizeof(span));
		count += SPAN_CODE;
	}
	code[count++] = (struct sock_filter)BPF_STMT(BPF_RET, SECCOMP_RET_TRAP);
	struct sock_fprog program = {(unsigned short)count, code};
	const long all = SECCOMP_FILTER_FLAG_TSYNC;
	if (how == UNSEEN)
		return call_unseen(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, NULL) ||
		       call_unseen(SYS_seccomp, SECCOMP_SET_MODE_FILTER, all, &program);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	if (how == BY_PRCTL)
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, all, &program) ? -1 : 0;
}

static void enter_all(const char *how)
{
	if (enter(strcmp(how, "unseen") ? BY_SECCOMP : UNSEEN))
		speak_fail("no filter: errno %d", errno);
}

static void on_outside(int signal, siginfo_t *info, void *context)
{
	ucontext_t *at = context;
	(void)signal;
	(void)info;
	__atomic_fetch_add(&outside, 1, __ATOMIC_RELAXED);
	at->uc_mcontext.gregs[REG_RAX] = -EPERM;
}

/* SA_NODEFER: also catches calls made in a handler that interrupts this one. */
static void catch_calls(void)
{
	struct sigaction action = {.sa_sigaction = on_outside, .sa_flags = SA_SIGINFO | SA_NODEFER};
	sigaction(SIGSYS, &action, NULL);
}

/* Makes a function outside of any file. */
static void make_stranger(void)
{
	static const unsigned char code[] = {
		0xb8, SYS_getppid, 0, 0, 0, 0x0f, 0x05, 0xc3}; /* mov $N,%eax; syscall; ret */
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(page, code, sizeof(code));
	if (mprotect(page, PAGE, PROT_READ | PROT_EXEC))
		speak_fail("no code: errno %d", errno);
	*(void **)&stranger = page;
}

/* --- the work --- */

static struct worker {
	pthread_t thread;
	volatile unsigned long wanted, done; /* rounds */
	volatile unsigned long rests;	     /* rounds of its loop that waits for work */
	volatile bool enters, hit;	     /* hit: by a signal, since its work began */
	bool own_stack;
	ucontext_t outside, inside;
	char stack[STACK_BYTES];
} workers[THREADS];

static volatile unsigned long handled;
static __thread struct worker *self;

/* May interrupt any code, also the agent: the handler's system calls are the program's own and must
 * not be trapped. */
static void on_signal(int signal)
{
	int saved = errno;
	(void)signal;
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || munmap(page, PAGE))
		speak_fail("no memory in a handler: errno %d", errno);
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
	if (self)
		self->hit = true;
	errno = saved;
}

static void pair(unsigned long round)
{
	size_t size = 16 + round % 3000;
	unsigned char *a = malloc(size), *b = malloc(20 + round % 500);
	if (!a || !b)
		speak_fail("no memory");
	memset(a, (int)size, size);
	b[0] = 1;
	for (size_t i = 0; i < size; i += 16)
		if (a[i] != (unsigned char)size)
			speak_fail("a block changed");
	free(b);
	free(a);
}

static void *live_shortly(void *arg)
{
	for (unsigned long i = 0; i < SHORT_ROUNDS; i++)
		pair(i);
	return arg;
}

static void rounds(struct worker *worker)
{
	for (unsigned long i = 0; i < worker->wanted || !worker->hit; i++) {
		pthread_t brief;
		if (worker->enters) {
			worker->enters = false;
			if (enter(BY_PRCTL))
				speak_fail("prctl: errno %d", errno);
		}
		pair(i);
		if (i % SHORT_EVERY == 0 && (pthread_create(&brief, NULL, live_shortly, NULL) ||
						    pthread_join(brief, NULL)))
			speak_fail("no thread");
		__atomic_store_n(&worker->done, i + 1, __ATOMIC_RELEASE);
	}
	forget_frames();
}

static void on_own_stack(void)
{
	struct worker *worker = &workers[0];
	for (;;) {
		rounds(worker);
		swapcontext(&worker->inside, &worker->outside);
	}
}

static void *work(void *arg)
{
	struct worker *worker = self = arg;
	for (;;) {
		while (!__atomic_load_n(&worker->wanted, __ATOMIC_ACQUIRE)) {
			usleep(1000);
			worker->rests++;
		}
		if (worker->own_stack)
			swapcontext(&worker->outside, &worker->inside);
		else
			rounds(worker);
		__atomic_store_n(&worker->wanted, 0, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void start_workers(void)
{
	struct worker *first = &workers[0];
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &action, NULL);
	first->own_stack = true;
	getcontext(&first->inside);
	first->inside.uc_stack = (stack_t){.ss_sp = first->stack, .ss_size = sizeof(first->stack)};
	makecontext(&first->inside, on_own_stack, 0);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			speak_fail("no thread");
}

static unsigned long done(void)
{
	unsigned long sum = 0;
	for (int i = 0; i < THREADS; i++)
		sum += __atomic_load_n(&workers[i].done, __ATOMIC_ACQUIRE);
	return sum;
}

static bool are_working(void)
{
	for (int i = 0; i < THREADS; i++)
		if (__atomic_load_n(&workers[i].wanted, __ATOMIC_ACQUIRE))
			return true;
	return false;
}

/* Waits until each thread has made two rounds of its waiting loop: then it has handled all signals
 * that were sent to it. */
static void settle(void)
{
	for (int i = 0; i < THREADS; i++) {
		unsigned long rests = workers[i].rests;
		while (workers[i].rests - rests < 2)
			usleep(1000);
	}
}

static void enter_meanwhile(const char *how)
{
	if (strcmp(how, "each") != 0)
		enter_all(how);
	else
		for (int i = 0; i < THREADS; i++)
			workers[i].enters = true;
}

/* "N" or "N HOW" */
static void tell_work(const char *what)
{
	char *then;
	unsigned long count = strtoul(what, &then, 10), told = 0, outside_before = outside;
	unsigned long handled_before = handled;
	bool entered = !*then;
	for (int i = 0; i < THREADS; i++) {
		workers[i].done = 0;
		workers[i].hit = false;
		__atomic_store_n(&workers[i].wanted, count, __ATOMIC_RELEASE);
	}
	while (are_working()) {
		unsigned long now = done();
		if (!entered && now > THREADS * count / 2) {
			enter_meanwhile(then + 1);
			entered = true;
		}
		bool due = now - told > SIGNAL_EVERY;
		for (int i = 0; i < THREADS; i++)
			if (due || !workers[i].hit)
				pthread_kill(workers[i].thread, SIGUSR1);
		told = due ? now : told;
		sched_yield();
	}
	settle();
	if (!entered)
		enter_meanwhile(then + 1);
	speak_add("{\"rounds\": %lu, \"handled\": %lu, \"outside\": %lu}", done(),
		handled - handled_before, outside - outside_before);
}

int main(void)
{
	make_stranger();
	start_workers();
	free(malloc(1));
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strncmp(command, "enter ", 6)) {
			find_spans();
			enter_all(command + 6);
			speak_add("entered");
		} else if (!strncmp(command, "work ", 5)) {
			find_spans();
			catch_calls();
			tell_work(command + 5);
			signal(SIGSYS, SIG_DFL);
		} else if (!strcmp(command, "outside")) {
			unsigned long before = outside;
			catch_calls();
			stranger();
			signal(SIGSYS, SIG_DFL);
			speak_add("outside %lu", outside - before);
		}
		speak_send();
	}
	_exit(0);
}
