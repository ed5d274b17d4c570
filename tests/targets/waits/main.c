/* SPDX-License-Identifier: Apache-2.0
 *
 * waits CASE MILLISECONDS [-t] [-h | -r]: makes one blocking call (waits.h) at the command "go",
 * in its only thread, or with -t in a second one. It says "waiting HELPER" before the call, and
 * "CASE: RESULT ERRNO, HANDLED BEGIN END" after it: how often the handler of SIGUSR2 ran (-r: with
 * SA_RESTART; otherwise, also with -h, it ends calls with EINTR), and the monotonic times before
 * and after the call in nanoseconds.
 * SIGUSR1 to the helper ends the wait. Without arguments it prints its cases, "timed NAME" or
 * "released NAME" each.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/prctl.h>

#include "tests/targets/waits/waits.h"

unsigned waits_ms;
pid_t waits_target, waits_helper;
int waits_fd[4] = {-1, -1, -1, -1};

static atomic_uint handled;

#ifdef WAITS_ESCAPE
/* With this variant the program takes free's address, so heaptap stops every thread in detach and
 * looks for the address. */
static void (*volatile give_back)(void *);
#else
#define give_back free
#endif

struct timespec waits_time(void)
{
	return (struct timespec){waits_ms / 1000, waits_ms % 1000 * 1000000l};
}

struct timespec waits_deadline(clockid_t clock)
{
	struct timespec at, time = waits_time();
	clock_gettime(clock, &at);
	at.tv_nsec += time.tv_nsec;
	at.tv_sec += time.tv_sec + at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return at;
}

void waits_check(int done, const char *what)
{
	if (!done)
		speak_fail("%s: %s", what, strerror(errno));
}

long waits_result(int error)
{
	errno = error;
	return error ? -1 : 0;
}

void waits_make_pipe(void)
{
	waits_check(pipe2(waits_fd, O_CLOEXEC) == 0, "pipe2");
	waits_check(fcntl(waits_fd[1], F_SETPIPE_SZ, 4096) >= 0, "F_SETPIPE_SZ");
}

void waits_fill(int fd)
{
	static char bytes[4096];
	int flags = fcntl(fd, F_GETFL);
	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while (write(fd, bytes, sizeof(bytes)) > 0)
		;
	waits_check(errno == EAGAIN, "filling a descriptor");
	fcntl(fd, F_SETFL, flags);
}

static const struct waits_case *const all[] = {waits_clock, waits_file, waits_socket, waits_ipc};

#define ALL (sizeof(all) / sizeof(all[0]))

static const struct waits_case *find_case(const char *name)
{
	for (size_t i = 0; i < ALL; i++)
		for (const struct waits_case *at = all[i]; at->name; at++)
			if (!strcmp(at->name, name))
				return at;
	speak_fail("no case %s", name);
}

static int list_cases(void)
{
	for (size_t i = 0; i < ALL; i++)
		for (const struct waits_case *at = all[i]; at->name; at++)
			printf("%s %s\n", at->release ? "released" : "timed", at->name);
	return 0;
}

/* The helper process: ends the target's wait at each SIGUSR1; cleans up when the target ends. */
static void help(const struct waits_case *mine, int ready_fd)
{
	sigset_t told;
	int sig;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (mine->hold)
		mine->hold();
	waits_check(write(ready_fd, "", 1) == 1, "write");
	sigemptyset(&told);
	sigaddset(&told, SIGUSR1);
	sigaddset(&told, SIGTERM);
	while (getppid() == waits_target && !sigwait(&told, &sig) && sig == SIGUSR1)
		if (mine->release)
			mine->release();
	if (mine->clean)
		mine->clean();
	_exit(0);
}

static void start_helper(const struct waits_case *mine)
{
	sigset_t told, before;
	int ready[2];
	char byte;

	waits_check(pipe2(ready, O_CLOEXEC) == 0, "pipe2");
	sigemptyset(&told);
	sigaddset(&told, SIGUSR1);
	sigaddset(&told, SIGTERM);
	sigprocmask(SIG_BLOCK, &told, &before);
	waits_helper = fork();
	waits_check(waits_helper >= 0, "fork");
	if (!waits_helper)
		help(mine, ready[1]);
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(ready[1]);
	waits_check(read(ready[0], &byte, 1) == 1, "the helper");
	close(ready[0]);
}

static void on_signal(int sig)
{
	(void)sig;
	atomic_fetch_add(&handled, 1);
}

static long long now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void *run(void *arg)
{
	const struct waits_case *mine = arg;
	free(malloc(100));
	long long begin = now_ns();
	errno = 0;
	long result = mine->wait();
	int error = errno;
	long long end = now_ns();
	give_back(malloc(100));
	speak_add("%s: %ld %s, %u %lld %lld", mine->name, result,
		result < 0 ? strerrorname_np(error) : "-", atomic_load(&handled), begin, end);
	speak_send();
	return NULL;
}

static void run_in_thread(const struct waits_case *mine)
{
	pthread_t thread;
	sigset_t all;

	waits_check(!pthread_create(&thread, NULL, run, (void *)mine), "pthread_create");
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
}

int main(int argc, char **argv)
{
	bool threaded = false;
	struct sigaction action = {.sa_handler = on_signal};

	if (argc == 1)
		return list_cases();
	if (argc < 3)
		speak_fail("usage: waits CASE MILLISECONDS [-t] [-h | -r]");
	const struct waits_case *mine = find_case(argv[1]);
	waits_ms = (unsigned)atoi(argv[2]);
	for (int i = 3; i < argc; i++) {
		threaded |= !strcmp(argv[i], "-t");
		if (!strcmp(argv[i], "-r"))
			action.sa_flags = SA_RESTART;
	}
	sigaction(SIGUSR2, &action, NULL);
#ifdef WAITS_ESCAPE
	give_back = free;
#endif
	waits_target = getpid();
	if (mine->prepare)
		mine->prepare();
	start_helper(mine);
	speak_ready();
	while (strcmp(speak_hear(), "stop")) {
		speak_add("waiting %d", waits_helper);
		speak_send();
		if (threaded)
			run_in_thread(mine);
		else
			run((void *)mine);
	}
	kill(waits_helper, SIGTERM);
	_exit(0);
}
