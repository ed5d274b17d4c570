/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocates at the end of call chains of every kind that C can make, and records each chain
 * (chain.h). Commands: "go" performs all kinds, "save PATH" writes the record, "names" allocates at
 * the end of three chains, which it does not record, and prints their function names:
 *
 *      {"chains":[{"size":N,"count":N,"frames":[innermost first]}, ...]}
 */
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#include "tests/targets/chain.h"

#define TREE_DEPTH  40u
#define TREE_EVENTS 20000u
#define DEEP	    10000u
#define THREADS	    4
#define SPINS	    300u

/* --- a random walk through functions with frames of every shape --- */

struct walk {
	unsigned depth;
	unsigned events; /* left */
};

typedef void tree_fn(struct walk *walk);
static tree_fn *const tree[];

__attribute__((always_inline)) static inline void tree_grow(struct walk *walk)
{
	tree[chain_random() % 16](walk);
}

/* The body of each function of the tree. A macro, so that it runs in that function's frame. */
#define TREE_BODY(walk)                                                                            \
	do {                                                                                       \
		unsigned rounds = 1 + chain_random() % 3;                                          \
		walk->depth++;                                                                     \
		while (rounds-- && walk->events) {                                                 \
			if (walk->depth < TREE_DEPTH && chain_random() % 8 < 5) {                  \
				tree_grow(walk);                                                   \
			} else {                                                                   \
				walk->events--;                                                    \
				CHAIN_ALLOC();                                                     \
			}                                                                          \
		}                                                                                  \
		walk->depth--;                                                                     \
	} while (0)

#define TREE_PLAIN(n, room)                                                                        \
	CHAIN_FUNCTION void tree_##n(struct walk *walk)                                            \
	{                                                                                          \
		CHAIN_ENTER();                                                                     \
		volatile char local[room];                                                         \
		local[0] = local[room - 1] = (char)walk->depth;                                    \
		TREE_BODY(walk);                                                                   \
		if (local[0] != (char)walk->depth)                                                 \
			speak_fail("frame overwritten");                                           \
		CHAIN_LEAVE();                                                                     \
	}

TREE_PLAIN(0, 1)
TREE_PLAIN(1, 8)
TREE_PLAIN(2, 16)
TREE_PLAIN(3, 24)
TREE_PLAIN(4, 129)
TREE_PLAIN(5, 1000)
TREE_PLAIN(6, 5000)
TREE_PLAIN(7, 40)

/* Many values alive across calls: every callee-saved register is in use, rbp too unless it is the
 * frame pointer. */
#define TREE_CROWDED(n)                                                                            \
	CHAIN_FUNCTION void tree_##n(struct walk *walk)                                            \
	{                                                                                          \
		CHAIN_ENTER();                                                                     \
		uint64_t a = chain_random(), b = chain_random(), c = a * b, d = a ^ b, e = a + c,  \
			 f = b - d, g = c | e;                                                     \
		TREE_BODY(walk);                                                                   \
		if (c != a * b || d != (a ^ b) || e != a + c || f != b - d || g != (c | e))        \
			speak_fail("registers overwritten");                                       \
		CHAIN_LEAVE();                                                                     \
	}

TREE_CROWDED(8)
TREE_CROWDED(9)

CHAIN_FUNCTION void tree_10(struct walk *walk)
{
	CHAIN_ENTER();
	volatile char *room = alloca(1 + chain_random() % 700);
	room[0] = 1;
	TREE_BODY(walk);
	CHAIN_LEAVE();
}

CHAIN_FUNCTION void tree_11(struct walk *walk)
{
	CHAIN_ENTER();
	size_t size = 1 + chain_random() % 300;
	volatile char room[size];
	room[size - 1] = 1;
	TREE_BODY(walk);
	if (!room[size - 1])
		speak_fail("frame overwritten");
	CHAIN_LEAVE();
}

/* The compiler realigns the stack for these. */
CHAIN_FUNCTION void tree_12(struct walk *walk)
{
	CHAIN_ENTER();
	volatile double lane[8] __attribute__((aligned(64)));
	lane[0] = walk->depth;
	TREE_BODY(walk);
	if ((uintptr_t)lane % 64 || lane[0] != walk->depth)
		speak_fail("aligned frame overwritten");
	CHAIN_LEAVE();
}

CHAIN_FUNCTION void tree_13(struct walk *walk)
{
	CHAIN_ENTER();
	volatile double lane[4] __attribute__((aligned(32)));
	lane[0] = walk->depth;
	volatile char *room = alloca(1 + chain_random() % 200);
	room[0] = 1;
	TREE_BODY(walk);
	if ((uintptr_t)lane % 32 || lane[0] != walk->depth)
		speak_fail("aligned frame overwritten");
	CHAIN_LEAVE();
}

/* Arguments on the stack. */
CHAIN_FUNCTION void tree_many(
	long a, long b, long c, long d, long e, long f, long g, long h, struct walk *walk)
{
	CHAIN_ENTER();
	TREE_BODY(walk);
	if (a + b + c + d + e + f + g + h != 36)
		speak_fail("arguments overwritten");
	CHAIN_LEAVE();
}

CHAIN_FUNCTION void tree_14(struct walk *walk)
{
	CHAIN_ENTER();
	tree_many(1, 2, 3, 4, 5, 6, 7, 8, walk);
	CHAIN_LEAVE();
}

CHAIN_FUNCTION void tree_15(struct walk *walk)
{
	CHAIN_ENTER();
	if (walk->depth % 2)
		tree_8(walk);
	else
		tree_12(walk);
	CHAIN_LEAVE();
}

static tree_fn *const tree[] = {tree_0, tree_1, tree_2, tree_3, tree_4, tree_5, tree_6, tree_7,
	tree_8, tree_9, tree_10, tree_11, tree_12, tree_13, tree_14, tree_15};

CHAIN_FUNCTION void walk_tree(unsigned events)
{
	CHAIN_ENTER();
	struct walk walk = {.events = events};
	while (walk.events)
		tree_grow(&walk);
	CHAIN_LEAVE();
}

/* --- recursion --- */

CHAIN_FUNCTION unsigned deep_down(unsigned left)
{
	CHAIN_ENTER();
	unsigned below = left ? deep_down(left - 1) : 0;
	if (left % 1000 == 0)
		CHAIN_ALLOC();
	CHAIN_LEAVE();
	return below + 1;
}

/* --- callbacks --- */

CHAIN_FUNCTION int compare(const void *a, const void *b)
{
	CHAIN_ENTER();
	CHAIN_ALLOC();
	int order = *(const int *)a - *(const int *)b;
	CHAIN_LEAVE();
	return order;
}

CHAIN_FUNCTION void sort_numbers(void)
{
	CHAIN_ENTER();
	int number[100];
	for (int i = 0; i < 100; i++)
		number[i] = (int)(chain_random() % 1000);
	unsigned mark = chain_push(CHAIN_GAP);
	qsort(number, 100, sizeof(number[0]), compare);
	chain_now->depth = mark;
	CHAIN_LEAVE();
}

/* --- signals: on the normal and on an alternate stack, at a call and anywhere in a loop --- */

static volatile bool spinning;
static volatile unsigned spins;

CHAIN_FUNCTION void handler_inner(void)
{
	CHAIN_ENTER();
	CHAIN_ALLOC();
	CHAIN_LEAVE();
}

CHAIN_FUNCTION void on_signal(int signal)
{
	CHAIN_ENTER();
	if (signal != SIGALRM || spinning) {
		CHAIN_ALLOC();
		handler_inner();
		spins++;
	}
	CHAIN_LEAVE();
}

CHAIN_FUNCTION void raise_here(int signal)
{
	CHAIN_ENTER();
	unsigned mark = chain_push(CHAIN_GAP);
	raise(signal);
	chain_now->depth = mark;
	CHAIN_LEAVE();
}

CHAIN_FUNCTION uint64_t spin(void)
{
	CHAIN_ENTER();
	volatile uint64_t sum = 0;
	unsigned mark = chain_push(CHAIN_GAP);
	spinning = true;
	while (spins < SPINS)
		for (unsigned i = 0; i < 100; i++)
			sum += i * sum + 1;
	spinning = false;
	chain_now->depth = mark;
	CHAIN_LEAVE();
	return sum;
}

static void *do_nothing(void *arg)
{
	return arg;
}

/* Runs before "ready", so that the set of caught signals never changes later. Starts a thread,
 * because glibc installs its handlers with the first one. */
static void catch_signals(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, do_nothing, NULL) || pthread_join(thread, NULL))
		speak_fail("no thread");
	static char other_stack[65536];
	stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof(other_stack)};
	sigaltstack(&stack, NULL);
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	action.sa_flags |= SA_ONSTACK;
	sigaction(SIGUSR2, &action, NULL);
}

CHAIN_FUNCTION void take_signals(void)
{
	CHAIN_ENTER();
	for (int i = 0; i < 20; i++)
		raise_here(i % 2 ? SIGUSR1 : SIGUSR2);
	for (int on_other = 0; on_other < 2; on_other++) {
		struct sigaction action = {.sa_handler = on_signal,
			.sa_flags = SA_RESTART | (on_other ? SA_ONSTACK : 0)};
		sigaction(SIGALRM, &action, NULL);
		struct itimerval timer = {
			.it_interval = {.tv_usec = 200}, .it_value = {.tv_usec = 200}};
		spins = 0;
		setitimer(ITIMER_REAL, &timer, NULL);
		spin();
		setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
	}
	CHAIN_LEAVE();
}

/* --- coroutines: other stacks, which are left and entered in the middle of a chain --- */

static struct chain_shadow co_shadow[2];
static ucontext_t co_context[2], co_back;

CHAIN_FUNCTION void co_yield (int self)
{
	CHAIN_ENTER();
	chain_now = &chain_main_shadow;
	swapcontext(&co_context[self], &co_back);
	chain_now = &co_shadow[self];
	CHAIN_LEAVE();
}

CHAIN_FUNCTION void co_descend(int self, int left)
{
	CHAIN_ENTER();
	CHAIN_ALLOC();
	co_yield (self);
	CHAIN_ALLOC();
	if (left)
		co_descend(self, left - 1);
	CHAIN_ALLOC();
	co_yield (self);
	CHAIN_LEAVE();
}

CHAIN_FUNCTION void co_main(int self)
{
	chain_now = &co_shadow[self];
	CHAIN_ENTER();
	co_descend(self, 10);
	CHAIN_LEAVE();
	chain_now = &chain_main_shadow;
}

CHAIN_FUNCTION void run_coroutines(void)
{
	CHAIN_ENTER();
	for (int i = 0; i < 2; i++) {
		co_shadow[i].depth = 0;
		getcontext(&co_context[i]);
		co_context[i].uc_stack.ss_size = 65536;
		co_context[i].uc_stack.ss_sp = mmap(
			NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		co_context[i].uc_link = &co_back;
		makecontext(&co_context[i], (void (*)(void))co_main, 1, i);
	}
	for (int turn = 0; turn < 2 * 23; turn++) {
		swapcontext(&co_back, &co_context[turn % 2]);
		CHAIN_ALLOC();
	}
	for (int i = 0; i < 2; i++)
		munmap(co_context[i].uc_stack.ss_sp, 65536);
	CHAIN_LEAVE();
}

/* --- threads, one of them with the smallest stack --- */

static struct chain_shadow thread_shadow[THREADS];

CHAIN_FUNCTION void *thread_main(void *arg)
{
	chain_now = arg;
	chain_now->depth = 0;
	CHAIN_ENTER();
	if (arg == &thread_shadow[0])
		deep_down(20);
	else
		walk_tree(2000);
	CHAIN_LEAVE();
	return NULL;
}

CHAIN_FUNCTION void run_threads(void)
{
	CHAIN_ENTER();
	pthread_t thread[THREADS];
	for (int i = 0; i < THREADS; i++) {
		pthread_attr_t attr;
		pthread_attr_init(&attr);
		if (i == 0)
			pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN);
		if (pthread_create(&thread[i], &attr, thread_main, &thread_shadow[i]))
			speak_fail("pthread_create: errno %d", errno);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	CHAIN_LEAVE();
}

/* --- chains by name --- */

#define NAMES_COUNT 25u
#define NAMES_SIZE  1000003u

CHAIN_FUNCTION void names_leaf(size_t size)
{
	void *volatile ptr = malloc(size);
	free(ptr);
}

CHAIN_FUNCTION void names_middle(size_t size)
{
	names_leaf(size);
	__asm__ volatile("");
}

CHAIN_FUNCTION void names_left(void)
{
	names_middle(NAMES_SIZE);
	__asm__ volatile("");
}

CHAIN_FUNCTION void names_right(void)
{
	names_middle(NAMES_SIZE + 2);
	names_leaf(NAMES_SIZE + 4);
	__asm__ volatile("");
}

CHAIN_FUNCTION void run_names(void)
{
	for (unsigned i = 0; i < NAMES_COUNT; i++) {
		names_left();
		names_right();
	}
	static const char *const frames[] = {"\"names_leaf\",\"names_middle\",\"names_left\"",
		"\"names_leaf\",\"names_middle\",\"names_right\"",
		"\"names_leaf\",\"names_right\""};
	speak_add("{\"chains\":[");
	for (unsigned i = 0; i < 3; i++)
		speak_add("%s{\"size\":%u,\"count\":%u,\"frames\":[%s,\"run_names\",\"main\"]}",
			i ? "," : "", NAMES_SIZE + 2 * i, NAMES_COUNT, frames[i]);
	speak_add("]}");
	speak_send();
}

CHAIN_FUNCTION void run_all(void)
{
	CHAIN_ENTER();
	walk_tree(TREE_EVENTS);
	deep_down(DEEP);
	for (int i = 0; i < 5; i++)
		sort_numbers();
	take_signals();
	run_coroutines();
	run_threads();
	walk_tree(TREE_EVENTS / 10);
	CHAIN_LEAVE();
}

int main(void)
{
	chain_now = &chain_main_shadow;
	CHAIN_ENTER();
	catch_signals();
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strcmp(command, "go")) {
			chain_size_next = CHAIN_SIZE_LO;
			run_all();
			speak_add("done %lu", chain_size_next - CHAIN_SIZE_LO);
			speak_send();
		} else if (!strncmp(command, "save ", 5)) {
			chain_save(command + 5);
			speak_add("saved");
			speak_send();
		} else if (!strcmp(command, "names")) {
			run_names();
		}
	}
	CHAIN_LEAVE();
	return 0;
}
