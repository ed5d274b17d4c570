/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that handle signals which usually kill a process:
 *
 * reflexes faults: the only thread writes to a read-only page, and runs int3, ud2 and a division by
 * 0, again and again. Its handler checks code and address of the signal, allocates, and lets the
 * thread go on. "count" answers {"faults":N}.
 *
 * reflexes pending: a second thread does the same. SIGTRAP and a real-time signal, both blocked,
 * are pending for the main thread until the end, which checks them. "count" answers {"faults":N}.
 *
 * reflexes dives: "dive N": a thread allocates in a recursion until its stack is used up and its
 * handler jumps out of the recursion; then it allocates a block of 333 bytes; N times. Answers
 * "dived".
 *
 * reflexes profile: a thread allocates, and a handler unwinds it 1,000 times in each second of its
 * CPU time; "count" answers {"profiles":N}.
 *
 * reflexes scanned: the only thread has a value in registers alone. A signal handler looks for the
 * value there, like that of a garbage collector which stops threads by signals; "count" answers
 * {"scans":N}.
 *
 * reflexes ends N: "end": N threads allocate 444 bytes in the last destructors that the C library
 * runs for them; answers "ended".
 */
#include <execinfo.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#include "tests/targets/speak.h"

#define PAGE	      4096
#define FAULTS_A_LOOK 16
#define VALUE	      4711
#define DIVE_STACK    (256 << 10)
#define CALM_BYTES    333
#define LAST_BYTES    444
#define PROFILE_US    1000
#define FRAMES	      64
#define ENDING_MAX    256
#define SCAN_US	      100
#define SCAN_TURNS    1000000

static atomic_bool stopping;
static atomic_ullong faults, profiles, scans;

static void start(pthread_t *thread, void *(*run)(void *arg), void *arg, pthread_attr_t *attr)
{
	if (pthread_create(thread, attr, run, arg))
		speak_fail("no thread");
}

static void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
	sigaction(signal, &action, NULL);
}

/* --- faults --- */

static __thread struct expected {
	int signal, code;
	const char *pc;		  /* address of the instruction */
	const void *addr;	  /* expected si_addr */
	unsigned pc_behind, skip; /* bytes from `pc` to the signal's RIP, and bytes to skip */
	char *page;
	bool met;
} expected;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	greg_t *pc = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	const struct expected *e = &expected;
	if (signal != e->signal || info->si_code != e->code || info->si_addr != e->addr ||
		*pc != (greg_t)(e->pc + e->pc_behind))
		speak_fail("signal %d, code %d, of %p at %llx instead of %d, %d, %p, %p", signal,
			info->si_code, info->si_addr, *pc, e->signal, e->code, e->addr,
			(const void *)e->pc);
	expected.met = true;
	if (e->page && mprotect(e->page, PAGE, PROT_READ | PROT_WRITE))
		speak_fail("mprotect: errno %d", errno);
	*pc += e->skip;
	free(malloc(50));
}

static void expect(struct expected what, void (*run)(char *page))
{
	expected = what;
	run(what.page);
	if (!expected.met)
		speak_fail("signal %d did not come", what.signal);
	atomic_fetch_add(&faults, 1);
	free(malloc(100));
}

void reflexes_store(char *page), reflexes_trap(char *page), reflexes_undefined(char *page),
	reflexes_divide(char *page);
extern const char reflexes_idiv[];
__asm__("reflexes_store:	movb $1, (%rdi)\n	ret\n"
	"reflexes_trap:		int3\n			ret\n"
	"reflexes_undefined:	ud2\n			ret\n"
	"reflexes_divide:	xor %ecx, %ecx\n	xor %edx, %edx\n	mov $1, %eax\n"
	"reflexes_idiv:		idiv %ecx\n		ret\n");

static void fault_once(char *page)
{
	const char *store = (const char *)reflexes_store, *trap = (const char *)reflexes_trap,
		   *undefined = (const char *)reflexes_undefined;
	expect((struct expected){SIGSEGV, SEGV_ACCERR, store, page, .page = page}, reflexes_store);
	mprotect(page, PAGE, PROT_READ);
	expect((struct expected){SIGTRAP, SI_KERNEL, trap, NULL, .pc_behind = 1}, reflexes_trap);
	expect((struct expected){SIGILL, ILL_ILLOPN, undefined, undefined, .skip = 2},
		reflexes_undefined);
	expect((struct expected){SIGFPE, FPE_INTDIV, reflexes_idiv, reflexes_idiv, .skip = 2},
		reflexes_divide);
}

static char *make_page(void)
{
	static const int caught[] = {SIGSEGV, SIGTRAP, SIGILL, SIGFPE};
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		handle(caught[i], on_fault, 0);
	return mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void answer_faults(void)
{
	speak_add("{\"faults\":%llu}", atomic_load(&faults));
	speak_send();
}

static int be_faulting(void)
{
	struct pollfd command = {.fd = STDIN_FILENO, .events = POLLIN};
	char *page = make_page();
	speak_ready();
	for (;;) {
		for (unsigned i = 0; i < FAULTS_A_LOOK; i++)
			fault_once(page);
		if (!poll(&command, 1, 0))
			continue;
		if (!strcmp(speak_hear(), "stop"))
			_exit(0);
		answer_faults();
	}
}

/* --- signals that wait --- */

static void *fault_on(void *arg)
{
	char *page = make_page();
	while (!atomic_load(&stopping))
		fault_once(page);
	return arg;
}

static void take_pending(int signal, int code, int value)
{
	sigset_t set;
	siginfo_t info;
	struct timespec none = {0};
	sigemptyset(&set);
	sigaddset(&set, signal);
	if (sigtimedwait(&set, &info, &none) != signal || info.si_code != code ||
		info.si_value.sival_int != value)
		speak_fail("signal %d is not what was pending", signal);
	if (sigtimedwait(&set, &info, &none) != -1)
		speak_fail("another signal %d, code %d", signal, info.si_code);
}

static int be_waited_for(void)
{
	pthread_t thread;
	sigset_t blocked;
	start(&thread, fault_on, NULL, NULL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTRAP);
	sigaddset(&blocked, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	if (pthread_sigqueue(pthread_self(), SIGTRAP, (union sigval){.sival_int = VALUE}) ||
		pthread_sigqueue(pthread_self(), SIGRTMIN, (union sigval){.sival_int = VALUE + 1}))
		speak_fail("sigqueue: errno %d", errno);
	while (!atomic_load(&faults))
		usleep(1000);
	speak_ready();
	while (strcmp(speak_hear(), "stop"))
		answer_faults();
	atomic_store(&stopping, true);
	pthread_join(thread, NULL);
	take_pending(SIGTRAP, SI_QUEUE, VALUE);
	take_pending(SIGRTMIN, SI_QUEUE, VALUE + 1);
	_exit(0);
}

/* --- a stack that is used up --- */

static sigjmp_buf surface;
static atomic_uint dives;

static void on_overflow(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	if (info->si_code != SEGV_ACCERR)
		speak_fail("code %d at %p", info->si_code, info->si_addr);
	siglongjmp(surface, 1);
}

__attribute__((noinline)) static unsigned dive(unsigned depth)
{
	volatile char breath[48];
	breath[depth % sizeof(breath)] = 1;
	free(malloc(1 + depth % 300));
	return depth < UINT_MAX ? dive(depth + 1) + (unsigned)breath[0] : 0;
}

static void *dive_when_told(void *arg)
{
	static char stack[1 << 16];
	stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
	sigaltstack(&other, NULL);
	for (;; usleep(1000))
		for (; atomic_load(&dives); atomic_fetch_sub(&dives, 1)) {
			if (!sigsetjmp(surface, 1))
				dive(0);
			free(malloc(CALM_BYTES));
		}
	return arg;
}

static int be_diving(void)
{
	pthread_t thread;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, DIVE_STACK);
	handle(SIGSEGV, on_overflow, SA_ONSTACK);
	start(&thread, dive_when_told, NULL, &attr);
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		atomic_store(&dives, (unsigned)strtoul(command + 5, NULL, 10));
		while (atomic_load(&dives))
			usleep(1000);
		speak_add("dived");
		speak_send();
	}
	_exit(0);
}

/* --- a profiler within --- */

static void on_tick(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info, (void)context;
	void *frame[FRAMES];
	if (backtrace(frame, FRAMES) < 2)
		speak_fail("no frames");
	atomic_fetch_add(&profiles, 1);
}

static void *allocate(void *arg)
{
	while (!atomic_load(&stopping))
		free(malloc(100));
	return arg;
}

static int be_profiled(void)
{
	pthread_t thread;
	sigset_t set;
	void *frame[2];
	struct itimerval every = {{0, PROFILE_US}, {0, PROFILE_US}};
	backtrace(frame, 2); /* its first call loads a library: make it here */
	handle(SIGPROF, on_tick, SA_RESTART);
	start(&thread, allocate, NULL, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGPROF);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	setitimer(ITIMER_PROF, &every, NULL);
	speak_ready();
	while (strcmp(speak_hear(), "stop")) {
		speak_add("{\"profiles\":%llu}", atomic_load(&profiles));
		speak_send();
	}
	_exit(0);
}

/* --- a collector --- */

void reflexes_keep(const sigset_t mask[2], uint64_t turns, uint64_t value);
/* Sets mask[0] while `value` is in all six callee-saved registers and nowhere else, mask[1]
 * afterwards. */
__asm__("reflexes_keep:	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n"
	"	push %r14\n	push %r15\n	mov %rdi, %r9\n	mov %rsi, %r8\n"
	"	mov %rdx, %rbx\n	mov %rdx, %rbp\n	mov %rdx, %r12\n	mov %rdx, "
	"%r13\n"
	"	mov %rdx, %r14\n	mov %rdx, %r15\n	mov %r9, %rsi\n	call 2f\n"
	"1:	dec %r8\n	jnz 1b\n	lea 128(%r9), %rsi\n	call 2f\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n"
	"	pop %rbp\n	pop %rbx\n	ret\n"
	"2:	mov $14, %eax\n	mov $2, %edi\n	xor %edx, %edx\n	mov $8, %r10d\n"
	"	syscall\n		ret\n");
_Static_assert(sizeof(sigset_t) == 128, "reflexes_keep");

static void on_scan(int signal, siginfo_t *info, void *context)
{
	static const int kept[] = {REG_RBX, REG_RBP, REG_R12, REG_R13, REG_R14, REG_R15};
	const greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
	(void)signal, (void)info;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (reg[kept[i]] != VALUE)
			speak_fail(
				"register %d is %llx at %llx", kept[i], reg[kept[i]], reg[REG_RIP]);
	atomic_fetch_add(&scans, 1);
}

static int be_scanned(void)
{
	struct pollfd command = {.fd = STDIN_FILENO, .events = POLLIN};
	struct itimerval every = {{0, SCAN_US}, {0, SCAN_US}};
	sigset_t mask[2];
	sigemptyset(&mask[0]);
	sigemptyset(&mask[1]);
	sigaddset(&mask[1], SIGALRM);
	sigprocmask(SIG_SETMASK, &mask[1], NULL);
	handle(SIGALRM, on_scan, SA_RESTART);
	setitimer(ITIMER_REAL, &every, NULL);
	speak_ready();
	for (;;) {
		reflexes_keep(mask, SCAN_TURNS, VALUE);
		free(malloc(100));
		if (!poll(&command, 1, 0))
			continue;
		if (!strcmp(speak_hear(), "stop"))
			_exit(0);
		speak_add("{\"scans\":%llu}", atomic_load(&scans));
		speak_send();
	}
}

/* --- the last that a thread does --- */

static pthread_key_t key;

/* Sets the value again, so that the C library runs the destructor in each of its iterations. */
static void destroy(void *value)
{
	uintptr_t round = (uintptr_t)value;
	free(malloc(LAST_BYTES));
	if (round < PTHREAD_DESTRUCTOR_ITERATIONS)
		pthread_setspecific(key, (void *)(round + 1));
}

static void *end(void *arg)
{
	pthread_setspecific(key, (void *)1);
	return arg;
}

static int be_ending(unsigned count)
{
	static pthread_t thread[ENDING_MAX];
	if (count > ENDING_MAX || pthread_key_create(&key, destroy))
		speak_fail("no %u threads", count);
	speak_ready();
	while (strcmp(speak_hear(), "stop")) {
		for (unsigned i = 0; i < count; i++)
			start(&thread[i], end, NULL, NULL);
		for (unsigned i = 0; i < count; i++)
			pthread_join(thread[i], NULL);
		speak_add("ended");
		speak_send();
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	if (!strcmp(mode, "faults"))
		return be_faulting();
	if (!strcmp(mode, "pending"))
		return be_waited_for();
	if (!strcmp(mode, "dives"))
		return be_diving();
	if (!strcmp(mode, "profile"))
		return be_profiled();
	if (!strcmp(mode, "ends") && argc > 2)
		return be_ending((unsigned)strtoul(argv[2], NULL, 10));
	if (!strcmp(mode, "scanned"))
		return be_scanned();
	speak_fail("usage: reflexes faults | pending | dives | profile | ends N | scanned");
}
