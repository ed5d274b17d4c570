/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that changes its identity. It answers most commands with one line:
 *
 *	exit N		ends with status N
 *	exec		becomes this program again, which says "ready" again
 *	exec-thread	the same from another thread
 *	fork		a child goes on by itself; answers its PID
 *	hide		like fork, with a child that only root may inspect
 *	forker		a second thread forks a child as `hide` does at each SIGUSR1
 *	daemon		a child goes on without any descriptor, this process ends; answers its PID
 *	spawn		starts a program by posix_spawn and waits for its end; answers "done"
 *	vfork		the same by vfork
 *	storm WHAT	two threads fork, vfork, spawn or system() without end
 *	share		a process in the same memory does nothing but free(NULL); answers its PID
 *	share-on	the same, which goes on when this one has ended, as long as the test does
 *
 * At the end it checks that its canaries and its program text are unchanged. A new image checks, at
 * its start and at its end, that nothing of heaptap is mapped and that as many descriptors are open
 * as in the first image. A child shows its rounds, or what went wrong, in its name
 * (/proc/PID/comm).
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/targets/speak.h"

#define CANARY_BYTES (64 * 4096)
#define STACK_BYTES  (64 * 1024)

extern char **environ;
static unsigned char canary[CANARY_BYTES];
static unsigned descriptors; /* open when the first image began */
static volatile int storm_ended;

static unsigned char canary_at(size_t i)
{
	return (unsigned char)(i * 7 + i / 251);
}

static void check_canaries(void)
{
	for (size_t i = 0; i < CANARY_BYTES; i++)
		if (canary[i] != canary_at(i))
			speak_fail("byte %zu of the canaries", i);
}

/* Hashes all program text up to the end of its last page, where the stub is written. */
static uint64_t hash_of_text(void)
{
	uint64_t hash = 0;
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");
	if (!maps)
		speak_fail("no maps");
	while (fgets(line, sizeof(line), maps)) {
		uintptr_t at, hi;
		char perms[8];
		if (sscanf(line, "%lx-%lx %7s", &at, &hi, perms) != 3 || strcmp(perms, "r-xp") ||
			strchr(line, '['))
			continue;
		for (; at < hi; at += sizeof(uint64_t))
			hash = (hash ^ *(const uint64_t *)at) * 0x9e3779b97f4a7c15ull;
	}
	fclose(maps);
	return hash;
}

static unsigned open_descriptors(void)
{
	unsigned count = 0;
	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* In a new image none of heaptap's mappings or descriptors may remain. */
static void check_new_image(void)
{
	static char text[1 << 20];
	if (!speak_read("/proc/self/maps", text, sizeof(text)) || strstr(text, "heaptap-"))
		speak_fail("maps of a new image: %.3000s", text);
	if (open_descriptors() != descriptors)
		speak_fail("%u descriptors, not %u", open_descriptors(), descriptors);
}

static void become(void)
{
	char given[16];
	snprintf(given, sizeof(given), "%u", descriptors);
	execl("/proc/self/exe", "changer", given, NULL);
	speak_fail("exec: errno %d", errno);
}

static void *become_in_thread(void *arg)
{
	become();
	return arg;
}

/* --- children --------------------------------------------------------------------------------- */

static _Noreturn void child_wrong(const char *what)
{
	prctl(PR_SET_NAME, what);
	for (;;)
		pause();
}

/* Allocates as a program does, and looks whether it got what it asked for. */
static void allocate(unsigned round)
{
	size_t bytes = 16 + round % 1000;
	unsigned char *block = malloc(bytes), *zero = calloc(3, bytes);
	if (!block || !zero)
		child_wrong("WRONG malloc");
	memset(block, 0x5a, bytes);
	block = realloc(block, 2 * bytes);
	for (size_t i = 0; i < bytes; i++)
		if (block[i] != 0x5a || zero[2 * bytes + i])
			child_wrong("WRONG bytes");
	free(zero);
	free(block);
}

/* Makes a child that ends (`kind` 0), becomes another program (1), or crashes (2); waits for it. */
static void have_child(unsigned kind)
{
	static const int expected[] = {7 << 8, 0, SIGSEGV};
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		allocate(kind);
		if (kind == 0)
			_exit(7);
		if (kind == 1)
			execl("/bin/true", "true", NULL);
		raise(SIGSEGV);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != expected[kind])
		child_wrong("WRONG child");
}

/* Works until the parent, or later the process that adopts this one, ends. Ends if that is init. */
static _Noreturn void live(pid_t parent)
{
	char name[16];
	for (unsigned round = 0;; round++) {
		allocate(round);
		if (round % 16)
			continue;
		if (round % 128 == 0)
			have_child(round / 128 % 3);
		snprintf(name, sizeof(name), "round %u", round);
		prctl(PR_SET_NAME, name);
		usleep(1000);
		if (parent && getppid() != parent) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			parent = 0;
			if (getppid() == 1)
				_exit(0);
		}
	}
}

static void fork_child(int dumpable)
{
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		speak_fail("no child");
	if (pid == 0) {
		prctl(PR_SET_DUMPABLE, dumpable);
		live(parent);
	}
	speak_add("%d", pid);
	speak_send();
}

static void *fork_at_signals(void *arg)
{
	sigset_t *set = arg;
	pid_t parent = getpid();
	for (int signal; !sigwait(set, &signal);)
		if (fork() == 0)
			live(parent);
	return arg;
}

static void start_forker(void)
{
	static sigset_t set;
	pthread_t thread;
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pthread_create(&thread, NULL, fork_at_signals, &set))
		speak_fail("no thread");
	speak_add("forking");
	speak_send();
}

static void become_daemon(void)
{
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		speak_fail("no child");
	if (pid > 0) {
		speak_add("%d", pid);
		speak_send();
		_exit(0);
	}
	setsid();
	closefrom(0);
	live(parent);
}

/* --- storms ----------------------------------------------------------------------------------- */

static void spawn_one(void)
{
	char *const argv[] = {"true", NULL};
	pid_t pid;
	int status = -1;
	if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ))
		speak_fail("no spawn");
	waitpid(pid, &status, 0);
	if (status)
		speak_fail("a spawned program ended with %d", status);
}

/* Between vfork and exec the child runs in this process's memory and on this stack. */
static void vfork_one(void)
{
	int status = -1;
	pid_t pid = vfork();
	if (pid == 0) {
		free(malloc(100));
		execl("/bin/true", "true", NULL);
		_exit(9);
	}
	waitpid(pid, &status, 0);
	if (status)
		speak_fail("a child of vfork ended with %d", status);
}

static void start_one(void (*start)(void))
{
	start();
	speak_add("done");
	speak_send();
}

static void *storm(void *arg)
{
	const char *what = arg;
	for (unsigned i = 0; !storm_ended; i++) {
		allocate(i);
		if (!strcmp(what, "fork"))
			have_child(i % 3);
		else if (!strcmp(what, "vfork"))
			vfork_one();
		else if (!strcmp(what, "spawn"))
			spawn_one();
		else if (system("true"))
			speak_fail("system");
	}
	return NULL;
}

static pthread_t storming[2];

static void start_storm(const char *what)
{
	static char kind[32];
	snprintf(kind, sizeof(kind), "%s", what);
	for (size_t i = 0; i < 2; i++)
		if (pthread_create(&storming[i], NULL, storm, kind))
			speak_fail("no thread");
	speak_add("storming");
	speak_send();
}

static void end_storm(void)
{
	storm_ended = 1;
	for (size_t i = 0; i < 2; i++)
		if (storming[i])
			pthread_join(storming[i], NULL);
}

static pid_t tester;

static int share(void *arg)
{
	void *volatile null = arg;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		free(null);
	return 0;
}

static int share_on(void *arg)
{
	void *volatile null = arg;
	while (kill(tester, 0) == 0)
		for (int i = 0; i < 1000; i++)
			free(null);
	return 0;
}

static void start_sharer(int (*body)(void *))
{
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	int pid = clone(body, stack + STACK_BYTES, CLONE_VM | SIGCHLD, NULL);
	if (pid < 0)
		speak_fail("no clone");
	speak_add("%d", pid);
	speak_send();
}

int main(int argc, char **argv)
{
	pthread_t thread;
	setrlimit(RLIMIT_CORE, &(struct rlimit){0});
	for (size_t i = 0; i < CANARY_BYTES; i++)
		canary[i] = canary_at(i);
	uint64_t text = hash_of_text();
	tester = getppid();
	descriptors = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : open_descriptors();
	if (argc > 1)
		check_new_image();
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		allocate(1);
		if (!strncmp(command, "exit ", 5))
			exit((int)strtoul(command + 5, NULL, 10));
		else if (!strcmp(command, "exec"))
			become();
		else if (!strcmp(command, "exec-thread"))
			pthread_create(&thread, NULL, become_in_thread, NULL);
		else if (!strcmp(command, "fork"))
			fork_child(1);
		else if (!strcmp(command, "hide"))
			fork_child(0);
		else if (!strcmp(command, "forker"))
			start_forker();
		else if (!strcmp(command, "daemon"))
			become_daemon();
		else if (!strcmp(command, "spawn"))
			start_one(spawn_one);
		else if (!strcmp(command, "vfork"))
			start_one(vfork_one);
		else if (!strncmp(command, "storm ", 6))
			start_storm(command + 6);
		else if (!strcmp(command, "share"))
			start_sharer(share);
		else if (!strcmp(command, "share-on"))
			start_sharer(share_on);
	}
	end_storm();
	check_canaries();
	if (argc > 1)
		check_new_image();
	if (hash_of_text() != text)
		speak_fail("the program's text has changed");
	_exit(0);
}
