/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocates, and becomes another program.
 *
 * usage: become WAY PROGRAM [ARGUMENT...]
 *
 *      NAME     by a function of the exec family: execve execv execvp execvpe execl execlp execle
 *               fexecve execveat, or syscall; execvp, execvpe and execlp search directories without
 *               PROGRAM first
 *      thread   by execv in another thread
 *      beside   by execv in another thread, from a directory of that thread alone
 *      filter   with a seccomp filter that kills callers of poll(2)
 *      inline   by a syscall instruction of its own
 *      vain     after a thousand calls that fail
 *      trapped  the same, with a signal and its handler after each of them
 *      vfork    after a child of vfork has become another program and ended
 *      handler  in a handler of SIGUSR1 that it sends itself
 *      again-N  by way of itself, N times
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAKES	5
#define SIZE	3011
#define IN_VAIN 1000
#define NO_EXEC 99

extern char **environ;
static char **words; /* PROGRAM and its arguments */

static void take(void)
{
	for (unsigned i = 0; i < TAKES; i++) {
		char *volatile block = malloc(SIZE);
		block[0] = 1;
	}
}

static void *run(void *arg)
{
	execv(words[0], words);
	_exit(NO_EXEC);
	return arg;
}

static void on_signal(int sig)
{
	(void)sig;
	run(NULL);
}

static void *run_from_own_directory(void *arg)
{
	char *slash = strrchr(words[0], '/');
	*slash = '\0';
	if (unshare(CLONE_FS) || chdir(words[0]))
		_exit(NO_EXEC);
	words[0] = slash + 1;
	return run(arg);
}

static long call(long number, long first, const void *second, const void *third)
{
	long ret;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(number), "D"(first), "S"(second), "d"(third)
			 : "rcx", "r11", "memory");
	return ret;
}

static void run_inline(void)
{
	call(SYS_execve, (long)words[0], words, environ);
}

static void run_with_filter(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_poll, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, NULL, &program))
		_exit(NO_EXEC);
	run(NULL);
}

static void run_in_thread(void *(*body)(void *arg))
{
	pthread_t thread;
	pthread_create(&thread, NULL, body, NULL);
	pthread_join(thread, NULL);
}

static void run_in_vain(void)
{
	for (unsigned i = 0; i < IN_VAIN; i++)
		if (execv("/no/such/program", words) != -1 || errno != ENOENT)
			_exit(NO_EXEC);
	run(NULL);
}

static void step_over_trap(int sig, siginfo_t *info, void *context)
{
	ucontext_t *at = context;
	(void)sig;
	(void)info;
	at->uc_mcontext.gregs[REG_RIP] += 2; /* ud2 */
}

static void run_trapped(void)
{
	const struct sigaction step = {.sa_sigaction = step_over_trap, .sa_flags = SA_SIGINFO};
	sigaction(SIGILL, &step, NULL);
	for (unsigned i = 0; i < IN_VAIN; i++) {
		if (execv("/no/such/program", words) != -1 || errno != ENOENT)
			_exit(NO_EXEC);
		__asm__ volatile("ud2");
	}
	run(NULL);
}

static void run_beside_child(void)
{
	int status = -1;
	pid_t child = vfork();
	if (child == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(NO_EXEC);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		_exit(NO_EXEC);
	run(NULL);
}

/* A PATH with the program's directory at the end. */
static const char *make_path(void)
{
	static char path[8192];
	char *slash = strrchr(words[0], '/');
	snprintf(path, sizeof(path), "/no/such/directory:/etc:%.*s", (int)(slash - words[0]),
		words[0]);
	setenv("PATH", path, 1);
	return slash + 1;
}

static void run_again(char **argv)
{
	char way[32];
	snprintf(way, sizeof(way), "again-%d", atoi(argv[1] + 6) - 1);
	argv[1] = way;
	if (strcmp(way, "again--1") != 0)
		execv("/proc/self/exe", argv);
	run(NULL);
}

static void run_by(const char *way)
{
	const char *argument = words[1];
	if (!strcmp(way, "execve"))
		execve(words[0], words, environ);
	else if (!strcmp(way, "execvp"))
		execvp(make_path(), words);
	else if (!strcmp(way, "execvpe"))
		execvpe(make_path(), words, environ);
	else if (!strcmp(way, "execl"))
		execl(words[0], words[0], argument, (char *)NULL);
	else if (!strcmp(way, "execlp"))
		execlp(make_path(), words[0], argument, (char *)NULL);
	else if (!strcmp(way, "execle"))
		execle(words[0], words[0], argument, (char *)NULL, environ);
	else if (!strcmp(way, "fexecve"))
		fexecve(open(words[0], O_RDONLY | O_CLOEXEC), words, environ);
	else if (!strcmp(way, "execveat"))
		execveat(AT_FDCWD, words[0], words, environ, 0);
	else if (!strcmp(way, "syscall"))
		syscall(SYS_execve, words[0], words, environ);
	else
		run(NULL);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return NO_EXEC;
	words = argv + 2;
	take();
	if (!strcmp(argv[1], "thread"))
		run_in_thread(run);
	else if (!strcmp(argv[1], "beside"))
		run_in_thread(run_from_own_directory);
	else if (!strcmp(argv[1], "filter"))
		run_with_filter();
	else if (!strcmp(argv[1], "inline"))
		run_inline();
	else if (!strcmp(argv[1], "vain"))
		run_in_vain();
	else if (!strcmp(argv[1], "trapped"))
		run_trapped();
	else if (!strcmp(argv[1], "vfork"))
		run_beside_child();
	else if (!strcmp(argv[1], "handler"))
		raise((signal(SIGUSR1, on_signal), SIGUSR1));
	else if (!strncmp(argv[1], "again-", 6))
		run_again(argv);
	else
		run_by(argv[1]);
	return NO_EXEC;
}
