/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocates before main, and first thing in main. Built with -DLIBRARY it is the program's library,
 * which allocates when it is loaded, and after main has returned.
 *
 * usage: early [state|count]
 *
 *      state   prints the state that it inherited (signals, descriptors, limits, environment and
 *              others), and ends
 *      count   says "ready PID", then "interrupt" for the first SIGINT, and ends at SIGTERM; its
 *              exit status is the number of SIGINT until then
 */
#include <stdlib.h>

/* Each caller has its own count and size, by which the test finds its blocks in the trace. */
static void take(unsigned count, size_t size)
{
	for (unsigned i = 0; i < count; i++) {
		char *volatile block = malloc(size);
		block[0] = 1;
	}
}

#ifdef LIBRARY

__attribute__((constructor)) static void begin(void)
{
	take(3, 1009);
}

__attribute__((destructor)) static void end(void)
{
	take(13, 16001);
}

void early_use(void)
{
}

#else

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void early_use(void);

static void before_all(void)
{
	take(11, 8009);
}

/* Runs before the constructors of libraries; only glibc's dynamic linker supports it. */
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_all;

__attribute__((constructor)) static void begin(void)
{
	take(5, 2003);
}

static void say_signals(void)
{
	sigset_t mask;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		struct sigaction action;
		if (sigaction(sig, NULL, &action) == 0)
			printf("signal %d: handler %p, flags %x, blocked %d\n", sig,
				(void *)action.sa_handler, (unsigned)action.sa_flags,
				sigismember(&mask, sig));
	}
}

static void say_descriptors(void)
{
	for (int fd = 0; fd < 300; fd++) {
		char link[64], path[4096] = "";
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, path, sizeof(path) - 1) > 0 && strncmp(path, "socket:", 7) != 0)
			printf("descriptor %d: %s\n", fd, path);
	}
}

static void say_file(const char *path)
{
	char text[4096] = "";
	FILE *file = fopen(path, "r");
	size_t got = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	printf("%s: %.*s\n", path, (int)got, text);
	if (file)
		fclose(file);
}

static void say_state(char **env)
{
	int death = -1;
	char cwd[4096] = "";
	prctl(PR_GET_PDEATHSIG, &death);
	say_signals();
	say_descriptors();
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit limit;
		getrlimit(i, &limit);
		printf("limit %d: %lx %lx\n", i, limit.rlim_cur, limit.rlim_max);
	}
	for (; *env; env++)
		printf("env %s\n", *env);
	printf("death signal %d\n", death);
	printf("slack %d, dumpable %d, bits %d, privileges %d\n", prctl(PR_GET_TIMERSLACK),
		prctl(PR_GET_DUMPABLE), prctl(PR_GET_SECUREBITS),
		prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	mode_t mask = umask(0);
	printf("nice %d, umask %o, cwd %s, group %d, session %d, traps %d\n",
		getpriority(PRIO_PROCESS, 0), mask, getcwd(cwd, sizeof(cwd)), getpgrp(), getsid(0),
		prctl(PR_GET_TSC, &death));
	say_file("/proc/self/oom_score_adj");
	say_file("/proc/self/personality");
	say_file("/proc/self/cgroup");
	say_file("/proc/self/loginuid");
}

static volatile sig_atomic_t interrupts, ending;

static void on_interrupt(int signal)
{
	(void)signal;
	if (interrupts++ == 0)
		(void)!write(STDOUT_FILENO, "interrupt\n", 10);
}

static void on_end(int signal)
{
	(void)signal;
	ending = 1;
}

/* sigsuspend runs the handlers of all pending signals before it returns, so a SIGINT that came with
 * SIGTERM is counted. */
static int count_interrupts(void)
{
	sigset_t mask, none;
	sigemptyset(&none);
	sigfillset(&mask);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	signal(SIGINT, on_interrupt);
	signal(SIGTERM, on_end);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (!ending)
		sigsuspend(&none);
	return interrupts;
}

int main(int argc, char **argv, char **env)
{
	take(7, 4001);
	early_use();
	if (argc > 1 && !strcmp(argv[1], "state"))
		say_state(env);
	if (argc > 1 && !strcmp(argv[1], "count"))
		return count_interrupts();
	return 0;
}

#endif
