/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that compute the same checksums over and over, in integers, SSE and x87, keep canaries in
 * the red zone and the AVX registers, allocate in between, and stop with "WRONG" at the first
 * different result, or at the end if anything that tests/targets/registered.h reads has changed.
 *
 * usage: busy [-t THREADS] [-s] [-f] [-l]
 *
 * -s: a thread queues 10,000 real-time signals a second, every second one to the main thread, which
 * waits for commands, the rest to the workers; at the end as many must have been handled as were
 * queued, by the main thread and by the workers. -f: a thread forks a child that allocates, or
 * spawns /bin/true, one after the other; each must exit with 0. -l: two threads load libplug.so,
 * let it allocate, and unload it. "count" answers {"rounds":N,"sent":N,"handled":N,"main_sent":N,
 * "main_handled":N,"children":N,"loads":N}; sent and handled include those of the main thread.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/targets/registered.h"
#include "tests/targets/speak.h"

#define THREADS_MAX	64
#define LIVE		64
#define STORMS_MAX	8
#define STORM_PERIOD_NS 100000

struct sums {
	uint64_t integer;
	double sse;
	long double x87;
};

static pthread_t main_thread, worker[THREADS_MAX];
static unsigned threads = 8;
static atomic_bool calm, stopping;
static atomic_uint running;
static atomic_ullong rounds, sent, handled, main_sent, main_handled, children, loads;
static char plug_path[4096];

static void on_signal(int signal)
{
	(void)signal;
	atomic_fetch_add(&handled, 1);
	if (pthread_equal(pthread_self(), main_thread))
		atomic_fetch_add(&main_handled, 1);
}

__attribute__((noinline)) static struct sums compute(void)
{
	struct sums sums = {.integer = 1, .sse = 1, .x87 = 1};
	for (unsigned i = 1; i < 20000; i++) {
		sums.integer = sums.integer * 6364136223846793005u + i;
		sums.sse = sums.sse * 0.999 + 1.0 / i;
		sums.x87 = sums.x87 * 0.998L + 1.0L / i;
	}
	return sums;
}

/* Keeps words in the red zone, below the stack pointer, which no signal handler and no debugger may
 * change. */
__attribute__((noinline)) static bool red_zone_keeps(uint64_t word)
{
	uint64_t differs = 0;
	__asm__ volatile("lea	-256(%%rsp), %%rsp\n\t"
			 "mov	$16, %%ecx\n"
			 "1:	mov	%[word], -136(%%rsp, %%rcx, 8)\n\t"
			 "loop	1b\n\t"
			 "mov	$20000, %%ecx\n"
			 "2:	loop	2b\n\t"
			 "mov	$16, %%ecx\n"
			 "3:	mov	-136(%%rsp, %%rcx, 8), %%rax\n\t"
			 "xor	%[word], %%rax\n\t"
			 "or	%%rax, %[differs]\n\t"
			 "loop	3b\n\t"
			 "lea	256(%%rsp), %%rsp"
			 : [differs] "+r"(differs)
			 : [word] "r"(word)
			 : "rax", "rcx", "cc", "memory");
	return differs == 0;
}

#define EACH_OF_15 "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"

__attribute__((noinline, target("avx2"))) static bool vectors_keep(uint64_t word)
{
	bool same;
	__asm__ volatile("vmovq	%[word], %%xmm0\n\t"
			 "vpbroadcastq	%%xmm0, %%ymm0\n\t"
			 ".irp r," EACH_OF_15 "\n\t"
			 "vmovdqa	%%ymm0, %%ymm\\r\n\t"
			 ".endr\n\t"
			 "mov	$20000, %%ecx\n"
			 "1:	loop	1b\n\t"
			 ".irp r," EACH_OF_15 "\n\t"
			 "vpxor	%%ymm0, %%ymm\\r, %%ymm\\r\n\t"
			 ".endr\n\t"
			 ".irp r,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
			 "vpor	%%ymm\\r, %%ymm1, %%ymm1\n\t"
			 ".endr\n\t"
			 "vmovq	%[word], %%xmm2\n\t"
			 "vpbroadcastq	%%xmm2, %%ymm2\n\t"
			 "vpxor	%%ymm0, %%ymm2, %%ymm2\n\t"
			 "vpor	%%ymm2, %%ymm1, %%ymm1\n\t"
			 "vptest	%%ymm1, %%ymm1\n\t"
			 "vzeroupper"
			 : "=@ccz"(same)
			 : [word] "r"(word)
			 : "rcx", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
			 "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
	return same;
}

static void check_canaries(uint64_t round)
{
	uint64_t word = round * 0x9e3779b97f4a7c15u + 1;
	if (!red_zone_keeps(word))
		speak_fail("the red zone changed");
	if (__builtin_cpu_supports("avx2") && !vectors_keep(word))
		speak_fail("vector registers changed");
}

static void churn(unsigned char *live[LIVE], uint64_t round)
{
	for (unsigned i = 0; i < 12; i++) {
		unsigned at = (unsigned)(round * 7 + i) % LIVE;
		size_t size = 16 + (round * 31 + i * 97) % 3000;
		if (live[at] && live[at][0] != at)
			speak_fail("block overwritten");
		if (i % 3 == 0) {
			live[at] = realloc(live[at], size);
		} else {
			free(live[at]);
			live[at] = i % 3 == 1 ? malloc(size) : calloc(size, 1);
		}
		if (!live[at])
			speak_fail("no memory");
		live[at][0] = (unsigned char)at;
	}
}

static void *run(void *arg)
{
	(void)arg;
	unsigned char *live[LIVE] = {0};
	struct sums first = compute();
	struct registered registered;
	registered_look(&registered);
	atomic_fetch_add(&running, 1);
	for (uint64_t round = 0; !atomic_load(&stopping); round++) {
		struct sums again = compute();
		if (again.integer != first.integer || again.sse != first.sse ||
			again.x87 != first.x87)
			speak_fail("checksums differ");
		check_canaries(round);
		churn(live, round);
		atomic_fetch_add(&rounds, 1);
	}
	for (unsigned i = 0; i < LIVE; i++)
		free(live[i]);
	registered_check(&registered);
	return NULL;
}

static void *signal_storm(void *arg)
{
	(void)arg;
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	for (unsigned turn = 0; !atomic_load(&calm); turn++) {
		union sigval value = {.sival_int = 1};
		bool to_main = turn % 2;
		pthread_t to = to_main ? main_thread : worker[turn / 2 % threads];
		if (!pthread_sigqueue(to, SIGRTMIN, value)) {
			atomic_fetch_add(&sent, 1);
			atomic_fetch_add(&main_sent, to_main);
		}
		at.tv_nsec += STORM_PERIOD_NS;
		if (at.tv_nsec >= 1000000000) {
			at.tv_nsec -= 1000000000;
			at.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
	return NULL;
}

/* A child of a threaded process may allocate, because glibc's fork makes the allocator's locks
 * usable in the child. */
static pid_t start_child(unsigned turn)
{
	static char *const argv[] = {"/bin/true", NULL}, *const env[] = {NULL};
	pid_t pid;
	if (turn % 4 == 0)
		return posix_spawn(&pid, argv[0], NULL, NULL, argv, env) ? -1 : pid;
	pid = fork();
	if (pid)
		return pid;
	for (unsigned i = 0; i < 20; i++) {
		unsigned char *ptr = malloc(16 + i * 50);
		ptr[i] = (unsigned char)i;
		free(ptr);
	}
	_exit(0);
}

static void *fork_storm(void *arg)
{
	(void)arg;
	for (unsigned turn = 0; !atomic_load(&calm); turn++) {
		int status;
		pid_t pid = start_child(turn);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			speak_fail("no child");
		if (status)
			speak_fail("a child ended with %x", (unsigned)status);
		atomic_fetch_add(&children, 1);
	}
	return NULL;
}

static void *load_storm(void *arg)
{
	(void)arg;
	while (!atomic_load(&calm)) {
		void *plug = dlopen(plug_path, RTLD_NOW);
		void (*work)(unsigned long count);
		if (!plug)
			speak_fail("%s", dlerror());
		*(void **)&work = dlsym(plug, "plug_work");
		work(20);
		if (dlclose(plug))
			speak_fail("%s", dlerror());
		atomic_fetch_add(&loads, 1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	void *(*storms[STORMS_MAX])(void *);
	pthread_t storm_thread[STORMS_MAX];
	unsigned storm_count = 0;
	for (int option; (option = getopt(argc, argv, "t:sfl")) != -1 && storm_count < 6;) {
		if (option == 't') {
			threads = (unsigned)strtoul(optarg, NULL, 10);
		} else if (option == 'l') {
			storms[storm_count++] = load_storm;
			storms[storm_count++] = load_storm;
		} else {
			storms[storm_count++] = option == 's' ? signal_storm : fork_storm;
		}
	}
	if (threads < 1 || threads > THREADS_MAX)
		speak_fail("1 to %d threads", THREADS_MAX);
	snprintf(plug_path, sizeof(plug_path), "%.*s/libplug.so",
		(int)(strrchr(argv[0], '/') - argv[0]), argv[0]);
	struct registered registered;
	registered_look(&registered);
	main_thread = pthread_self();
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigaction(SIGRTMIN, &action, NULL);
	for (unsigned i = 0; i < threads; i++)
		pthread_create(&worker[i], NULL, run, NULL);
	for (unsigned i = 0; i < storm_count; i++)
		pthread_create(&storm_thread[i], NULL, storms[i], NULL);
	/* Wait until all threads run: a new thread has its signals blocked at first. */
	while (atomic_load(&running) < threads)
		usleep(1000);
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		speak_add("{\"rounds\":%llu,\"sent\":%llu,\"handled\":%llu,\"main_sent\":%llu,"
			  "\"main_handled\":%llu,\"children\":%llu,\"loads\":%llu}",
			atomic_load(&rounds), atomic_load(&sent), atomic_load(&handled),
			atomic_load(&main_sent), atomic_load(&main_handled), atomic_load(&children),
			atomic_load(&loads));
		speak_send();
	}
	/* End the storm first: a signal that reaches a thread that is exiting is lost. */
	atomic_store(&calm, true);
	for (unsigned i = 0; i < storm_count; i++)
		pthread_join(storm_thread[i], NULL);
	atomic_store(&stopping, true);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(worker[i], NULL);
	if (atomic_load(&sent) != atomic_load(&handled) ||
		atomic_load(&main_sent) != atomic_load(&main_handled))
		speak_fail("%llu signals sent, %llu handled; by the main thread %llu, %llu",
			atomic_load(&sent), atomic_load(&handled), atomic_load(&main_sent),
			atomic_load(&main_handled));
	registered_check(&registered);
	_exit(0);
}
