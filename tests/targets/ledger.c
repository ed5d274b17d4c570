/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps a ledger: the counts of its allocator calls and their bytes, to the last call. `go` runs
 * one phase: every worker performs a seeded mix of all functions of the malloc family, in every
 * form, and checks results, alignment, contents and errno; the answer is the ledger, one JSON line.
 * It lists frees of blocks from earlier phases as "before". Counting itself never allocates.
 *
 * usage: ledger [-t THREADS] [-n OPERATIONS] [-s SEED] [-l] [-m steady|storm|signals|nested|forks]
 *
 *      steady   THREADS live from the start of the program
 *      storm    workers live for 50 operations, then new ones take over
 *      signals  a 10 kHz timer's handler allocates too; workers block it within the allocator
 *      nested   the same unblocked: only for an allocator that allows that (ownalloc.c)
 *      forks    children are forked all the time and use the allocator until they end; one stays
 *
 * -l relies on nothing that only glibc's allocator does: no pvalloc, no errno from failures.
 */
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tests/targets/freed.h"
#include "tests/targets/phases.h"
#include "tests/targets/random.h"
#include "tests/targets/speak.h"

#define THREADS_MAX 64
#define TABLE	    128 /* blocks that a worker holds at a time */
#define MAILBOXES   64
#define STORM_LIFE  50 /* operations of a short-lived worker */
#define FORKS	    40
#define MARK	    4711 /* errno before every call */

enum function {
	MALLOC,
	CALLOC,
	REALLOC,
	POSIX_MEMALIGN,
	ALIGNED_ALLOC,
	MEMALIGN,
	VALLOC,
	PVALLOC,
	REALLOCARRAY,
	FUNCTIONS
};

static const char *const function_name[FUNCTIONS] = {"malloc", "calloc", "realloc",
	"posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc", "reallocarray"};

struct block {
	unsigned char *ptr; /* NULL: none */
	size_t size;
	unsigned phase; /* in which it was allocated */
	unsigned char tag;
};

struct tally {
	uint64_t calls[FUNCTIONS], bytes[FUNCTIONS], failures[FUNCTIONS];
	struct freed freed;
	uint64_t peak_bytes;
};

struct worker {
	pthread_t thread;
	pid_t tid;
	uint64_t seed;
	uint64_t operations;
	struct tally tally;
	struct block storage[TABLE];
	struct block *table[TABLE]; /* points into any worker's storage: workers exchange blocks */
};

enum mode { STEADY, STORM, SIGNALS, NESTED, FORKS_MODE };

static enum mode mode;
static bool lax; /* -l */
static unsigned threads = 1;
static uint64_t operations = 100000;
static struct worker worker[THREADS_MAX];
static struct block mailbox_storage[MAILBOXES];
static _Atomic(struct block *) mailbox[MAILBOXES];
static atomic_llong live_bytes, live_blocks; /* of this phase */
static atomic_uint started;

/* The handler's own counts. */
static atomic_bool armed;
static atomic_ullong entered, left, handler_calls, handler_bytes;

static void block_signal(int how)
{
	if (mode != SIGNALS)
		return;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(how, &set, NULL);
}

static void call_begin(void)
{
	block_signal(SIG_BLOCK);
	errno = MARK;
}

static void call_end(int expected_errno, const char *what)
{
	if (errno != expected_errno)
		speak_fail("%s: errno is %d, not %d", what, errno, expected_errno);
	block_signal(SIG_UNBLOCK);
}

static void book_new(struct tally *tally, enum function function, struct block *block, void *ptr,
	size_t size, size_t alignment)
{
	if (!ptr || (uintptr_t)ptr % alignment)
		speak_fail("%s(%zu) gave %p", function_name[function], size, ptr);
	tally->calls[function]++;
	tally->bytes[function] += size;
	*block = (struct block){
		.ptr = ptr, .size = size, .phase = phase, .tag = (unsigned char)(size ^ phase)};
	if (size)
		block->ptr[0] = block->ptr[size - 1] = block->tag;
	atomic_fetch_add(&live_blocks, 1);
	uint64_t live = (uint64_t)atomic_fetch_add(&live_bytes, (long long)size) + size;
	if (live > tally->peak_bytes)
		tally->peak_bytes = live;
}

/* Counts the free of a block; `usable`: the block's malloc_usable_size before its free. */
static void book_gone(struct tally *tally, struct block *block, size_t usable)
{
	if (block->phase == phase) {
		tally->freed.frees++;
		tally->freed.bytes += block->size;
		atomic_fetch_sub(&live_blocks, 1);
		atomic_fetch_sub(&live_bytes, (long long)block->size);
	} else {
		tally->freed.before_frees++;
		tally->freed.before_bytes += usable;
	}
	block->ptr = NULL;
}

static void check_contents(const struct block *block, size_t size)
{
	if (size && (block->ptr[0] != block->tag ||
			    (size == block->size && block->ptr[size - 1] != block->tag)))
		speak_fail(
			"block %p of %zu bytes was overwritten", (void *)block->ptr, block->size);
}

static void give_back(struct tally *tally, struct block *block)
{
	check_contents(block, block->size);
	void *ptr = block->ptr;
	book_gone(tally, block, malloc_usable_size(ptr));
	call_begin();
	free(ptr);
	call_end(MARK, "free");
}

static size_t random_size(uint64_t random)
{
	switch (random % 16) {
	case 0:
		return 0;
	case 1:
		return random >> 8 & 0x3ffff; /* past the mmap threshold */
	case 2:
	case 3:
		return random >> 8 & 0x1fff;
	default:
		return random >> 8 & 0xff;
	}
}

static void acquire(struct tally *tally, struct block *block, uint64_t random)
{
	size_t size = random_size(random >> 8);
	size_t alignment = 16u << (random >> 40) % 8;
	enum function function = random % FUNCTIONS;
	if (lax && function == PVALLOC)
		function = VALLOC;
	void *ptr = NULL;
	call_begin();
	switch (function) {
	case MALLOC:
		ptr = malloc(size);
		break;
	case CALLOC:
		size = size / 3 * 3;
		ptr = calloc(3, size / 3);
		break;
	case REALLOC:
		ptr = realloc(NULL, size);
		break;
	case POSIX_MEMALIGN:
		if (posix_memalign(&ptr, alignment, size))
			ptr = NULL;
		break;
	case ALIGNED_ALLOC:
		ptr = aligned_alloc(alignment, size);
		break;
	case MEMALIGN:
		ptr = memalign(alignment, size);
		break;
	case VALLOC:
		ptr = valloc(size);
		break;
	case PVALLOC:
		ptr = pvalloc(size);
		break;
	case REALLOCARRAY:
		size = size / 5 * 5;
		ptr = reallocarray(NULL, 5, size / 5);
		break;
	case FUNCTIONS:
		break;
	}
	if (lax && function == POSIX_MEMALIGN)
		errno = MARK; /* mimalloc's changes errno */
	call_end(MARK, function_name[function]);
	bool aligned = function >= POSIX_MEMALIGN && function <= MEMALIGN;
	bool paged = function == VALLOC || function == PVALLOC;
	if (function == CALLOC && ptr)
		for (size_t i = 0; i < size; i += 61)
			if (((unsigned char *)ptr)[i])
				speak_fail("calloc gave dirty memory");
	size_t promised = paged ? 4096 : aligned ? alignment : 8;
	book_new(tally, function, block, ptr, size, size ? promised : 1);
}

/* realloc or reallocarray: grows, shrinks, or frees with size 0. */
static void resize(struct tally *tally, struct block *block, uint64_t random)
{
	bool array = random & 1;
	size_t size = random_size(random >> 8);
	if (array)
		size = size / 7 * 7;
	struct block old = *block;
	size_t usable = malloc_usable_size(old.ptr);
	call_begin();
	void *ptr = array ? reallocarray(old.ptr, 7, size / 7) : realloc(old.ptr, size);
	call_end(MARK, "realloc");
	book_gone(tally, block, usable);
	if (!ptr && size)
		speak_fail("realloc(%p, %zu) gave NULL", (void *)old.ptr, size);
	if (!ptr)
		return;
	old.ptr = ptr;
	if (size && old.size)
		check_contents(&old, size < old.size ? size : old.size);
	book_new(tally, array ? REALLOCARRAY : REALLOC, block, ptr, size, size ? 8 : 1);
}

/* Calls that must fail, and leave the given block unchanged. */
static void fail_on_purpose(struct tally *tally, struct block *block, uint64_t random)
{
	static volatile size_t huge = SIZE_MAX / 2 + 4711;
	enum function function;
	void *ptr = NULL;
	int expected = ENOMEM;
	call_begin();
	switch (random % 5) {
	case 0:
		function = MALLOC;
		ptr = malloc(huge);
		break;
	case 1:
		function = CALLOC;
		ptr = calloc(huge, 16);
		break;
	case 2:
		function = REALLOC;
		ptr = realloc(block->ptr, huge);
		break;
	case 3:
		function = REALLOCARRAY;
		ptr = reallocarray(block->ptr, huge, 16);
		break;
	default:
		function = POSIX_MEMALIGN;
		expected = MARK; /* it returns its error and leaves errno alone */
		volatile size_t odd = 24;
		if (posix_memalign(&ptr, odd, 100) != EINVAL)
			speak_fail("posix_memalign took alignment 24");
	}
	if (lax)
		errno = expected;
	call_end(expected, function_name[function]);
	if (ptr)
		speak_fail("%s of a huge size gave %p", function_name[function], ptr);
	tally->failures[function]++;
	if (block->ptr)
		check_contents(block, block->size);
}

static void step(struct worker *self)
{
	uint64_t random = next_random(&self->seed);
	struct block **at = &self->table[random % TABLE];
	unsigned what = (random >> 8) % 100;
	random = next_random(&self->seed);
	if (what < 2) {
		fail_on_purpose(&self->tally, *at, random);
	} else if (what < 12) {
		*at = atomic_exchange(&mailbox[random % MAILBOXES], *at);
	} else if (what < 13) {
		call_begin();
		free(NULL);
		call_end(MARK, "free(NULL)");
	} else if (!(*at)->ptr) {
		acquire(&self->tally, *at, random);
	} else if (what < 40) {
		resize(&self->tally, *at, random);
	} else {
		give_back(&self->tally, *at);
	}
}

static void work(struct worker *self, uint64_t count)
{
	self->tid = gettid();
	for (uint64_t i = 0; i < count; i++)
		step(self);
}

static void *run_short(void *arg)
{
	work(arg, STORM_LIFE);
	return NULL;
}

static void *run_long(void *arg)
{
	atomic_fetch_add(&started, 1);
	for (;;) {
		phases_begin();
		work(arg, operations);
		phases_end();
	}
	return NULL;
}

static void on_alarm(int signal)
{
	(void)signal;
	int saved = errno;
	atomic_fetch_add(&entered, 1);
	if (atomic_load(&armed)) {
		size_t size = 1 + atomic_fetch_add(&handler_calls, 1) % 500;
		atomic_fetch_add(&handler_bytes, size);
		void *ptr = malloc(size);
		if (!ptr)
			speak_fail("malloc in the handler failed");
		free(ptr);
	}
	atomic_fetch_add(&left, 1);
	errno = saved;
}

/* Starts the timer. `interval_us` 0: stops it, and waits until no handler runs. */
static void alarms(long interval_us)
{
	struct itimerval timer = {
		.it_interval = {.tv_usec = interval_us}, .it_value = {.tv_usec = interval_us}};
	atomic_store(&armed, interval_us != 0);
	setitimer(ITIMER_REAL, &timer, NULL);
	/* Load `left` first: otherwise a handler that runs between the two loads could hide another
	 * one that is still running. */
	for (unsigned long long done; !interval_us;) {
		done = atomic_load(&left);
		if (done == atomic_load(&entered))
			break;
		sched_yield();
	}
}

/* Runs in a child forked during a phase: uses the allocator, without counting. */
static void live_as_child(int end_fd)
{
	char byte;
	do {
		for (size_t i = 0; i < 2000; i++) {
			void *volatile ptr = malloc(i);
			free(ptr);
		}
	} while (end_fd >= 0 && read(end_fd, &byte, 1) < 0);
	_exit(0);
}

static pid_t stayer;
static int stayer_pipe[2];

static void reap(pid_t child)
{
	int status;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		speak_fail("a forked child ended with status %#x", status);
}

static void fork_children(void)
{
	if (!stayer) {
		if (pipe2(stayer_pipe, O_CLOEXEC | O_NONBLOCK))
			speak_fail("pipe: errno %d", errno);
		stayer = fork();
		if (!stayer) {
			close(stayer_pipe[1]);
			live_as_child(stayer_pipe[0]);
		}
	}
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();
		if (!child)
			live_as_child(-1);
		reap(child);
	}
}

static void run_storm(void)
{
	for (uint64_t done = 0; done < operations; done += STORM_LIFE) {
		for (unsigned i = 0; i < threads; i++)
			if (pthread_create(&worker[i].thread, NULL, run_short, &worker[i]))
				speak_fail("pthread_create: errno %d", errno);
		for (unsigned i = 0; i < threads; i++)
			pthread_join(worker[i].thread, NULL);
	}
}

static void run_phase(void)
{
	phase++;
	atomic_store(&live_bytes, 0);
	atomic_store(&live_blocks, 0);
	atomic_store(&handler_calls, 0);
	atomic_store(&handler_bytes, 0);
	for (unsigned i = 0; i < threads; i++)
		worker[i].tally = (struct tally){0};
	if (mode == STORM) {
		run_storm();
		return;
	}
	if (mode == SIGNALS || mode == NESTED)
		alarms(100);
	phases_begin();
	if (mode == FORKS_MODE)
		fork_children();
	phases_end();
	if (mode == SIGNALS || mode == NESTED)
		alarms(0);
}

/* Not inlined into main, whose frame would keep the sums: in a program at fixed addresses about one
 * sum in a hundred looks like an address in heaptap's stub, and heaptap looks for such addresses on
 * the stack. */
__attribute__((noinline)) static void say_books(void)
{
	struct tally sum = {0};
	uint64_t calls = 0, bytes = 0, failures = 0;
	for (unsigned i = 0; i < threads; i++) {
		const struct tally *tally = &worker[i].tally;
		for (int f = 0; f < FUNCTIONS; f++) {
			sum.calls[f] += tally->calls[f];
			sum.bytes[f] += tally->bytes[f];
			sum.failures[f] += tally->failures[f];
		}
		freed_add(&sum.freed, &tally->freed);
	}
	sum.calls[MALLOC] += handler_calls;
	sum.bytes[MALLOC] += handler_bytes;
	sum.freed.frees += handler_calls;
	sum.freed.bytes += handler_bytes;
	speak_add("{\"functions\":{");
	for (int f = 0; f < FUNCTIONS; f++) {
		speak_add("%s\"%s\":{\"calls\":%lu,\"bytes\":%lu}", f ? "," : "", function_name[f],
			sum.calls[f], sum.bytes[f]);
		calls += sum.calls[f];
		bytes += sum.bytes[f];
		failures += sum.failures[f];
	}
	speak_add("},\"allocations\":%lu,\"allocated_bytes\":%lu,\"failures\":%lu", calls, bytes,
		failures);
	freed_say(&sum.freed);
	speak_add(",\"outstanding_blocks\":%lld,\"outstanding_bytes\":%lld",
		atomic_load(&live_blocks), atomic_load(&live_bytes));
	speak_add(",\"peak_bytes\":%lu,\"handler_calls\":%llu,\"threads\":[",
		worker[0].tally.peak_bytes, atomic_load(&handler_calls));
	for (unsigned i = 0; i < threads; i++) {
		calls = bytes = 0;
		for (int f = 0; f < FUNCTIONS; f++) {
			calls += worker[i].tally.calls[f];
			bytes += worker[i].tally.bytes[f];
		}
		freed_say_thread(i == 0, worker[i].tid, calls, bytes,
			worker[i].tally.freed.frees + worker[i].tally.freed.before_frees);
	}
	speak_add("]}");
	speak_send();
}

static void read_options(int argc, char **argv, uint64_t *seed)
{
	static const char *const mode_name[] = {"steady", "storm", "signals", "nested", "forks"};
	for (int option; (option = getopt(argc, argv, "t:n:s:lm:")) != -1;) {
		switch (option) {
		case 't':
			threads = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'n':
			operations = strtoul(optarg, NULL, 10);
			break;
		case 's':
			*seed = strtoul(optarg, NULL, 10);
			break;
		case 'l':
			lax = true;
			break;
		case 'm':
			for (mode = STEADY; strcmp(optarg, mode_name[mode]);)
				if (++mode > FORKS_MODE)
					speak_fail("no mode %s", optarg);
			break;
		default:
			speak_fail("usage: see ledger.c");
		}
	}
	if (threads < 1 || threads > THREADS_MAX)
		speak_fail("1 to %d threads", THREADS_MAX);
}

static void set_up(uint64_t seed)
{
	for (unsigned i = 0; i < MAILBOXES; i++)
		mailbox[i] = &mailbox_storage[i];
	for (unsigned i = 0; i < threads; i++) {
		worker[i].seed = seed + i * 0x9e3779b97f4a7c15u;
		for (unsigned j = 0; j < TABLE; j++)
			worker[i].table[j] = &worker[i].storage[j];
		for (unsigned j = 0; j < TABLE; j += 4)
			acquire(&worker[i].tally, worker[i].table[j], next_random(&worker[i].seed));
	}
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	phases_init(threads);
	for (unsigned i = 0; mode != STORM && i < threads; i++)
		if (pthread_create(&worker[i].thread, NULL, run_long, &worker[i]))
			speak_fail("pthread_create: errno %d", errno);
	while (mode != STORM && atomic_load(&started) < threads)
		sched_yield();
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	sigaction(SIGALRM, &action, NULL);
	pthread_sigmask(SIG_BLOCK, &set, NULL); /* workers take the signal */
}

int main(int argc, char **argv)
{
	uint64_t seed = 20260101;
	read_options(argc, argv, &seed);
	set_up(seed);
	phases_obey(run_phase, say_books);
	if (stayer) {
		close(stayer_pipe[1]);
		reap(stayer);
	}
	for (unsigned i = 0; i < threads; i++)
		for (unsigned j = 0; j < TABLE; j++)
			if (worker[i].table[j]->ptr)
				check_contents(worker[i].table[j], worker[i].table[j]->size);
	_exit(0);
}
