/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes children, and checks how they end.
 *
 * usage: brood WAY PROGRAM     one child that becomes PROGRAM, by fork vfork posix_spawn
 *                              posix_spawnp system popen forkpty clone; exits with its status.
 *                              "winch": by fork, with signals that it ignores while it waits
 *        brood keep            says "ready PID", then "child PID" of a forked child. The child
 *                              allocates and frees 8 blocks of 5000 + N bytes in round N until a
 *                              command comes, and for 20 rounds more; then says "rounds N".
 *                              Exits with the child's status
 *        brood storm N         says "ready PID", makes N children, which end or exec /bin/true, by
 *                              fork and vfork in turn; says "made I" of each, and "wrong COUNT",
 *                              the number of children with an unexpected end
 *        brood ends N          makes N children, which end, are killed, or fail to exec; waits for
 *                              each with WNOHANG when its pidfd becomes readable. Says
 *                              "wrong COUNT" likewise
 */
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAILED	    99
#define ROUND_BYTES 5000
#define BLOCKS	    8

extern char **environ;

static int end_of(pid_t child)
{
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child)
		return FAILED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
}

static void become(char *program)
{
	char *const words[] = {program, "x", NULL};
	execv(program, words);
	_exit(FAILED);
}

static pid_t spawn(
	char *program, int (*how)(pid_t *, const char *, const posix_spawn_file_actions_t *,
			       const posix_spawnattr_t *, char *const[], char *const[]))
{
	char *const words[] = {program, "x", NULL};
	pid_t pid;
	return how(&pid, program, NULL, NULL, words, environ) ? -1 : pid;
}

static int by_shell(const char *program, int use_pipe)
{
	char line[4096];
	snprintf(line, sizeof(line), "exec %s x", program);
	int status = use_pipe ? pclose(popen(line, "r")) : system(line);
	return WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
}

/* --- signals --- */

static void await_word(int from)
{
	struct epoll_event event = {.events = EPOLLIN};
	int poll = epoll_create1(0);
	if (poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, from, &event) ||
		epoll_wait(poll, &event, 1, -1) != 1)
		_exit(FAILED);
}

static int is_in_wait(pid_t pid)
{
	char path[64], line[256] = "";
	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	FILE *file = fopen(path, "re");
	if (file && !fgets(line, sizeof(line), file))
		line[0] = '\0';
	if (file)
		fclose(file);
	return atoi(line) == SYS_epoll_wait;
}

static int make_signalled(char *program)
{
	int word[2];
	if (pipe(word))
		return FAILED;
	pid_t pid = fork();
	if (pid == 0) {
		await_word(word[0]);
		become(program);
	}
	while (!is_in_wait(pid))
		sched_yield();
	kill(pid, SIGWINCH);
	kill(pid, SIGCHLD);
	kill(pid, SIGURG);
	if (write(word[1], "x", 1) != 1)
		return FAILED;
	return end_of(pid);
}

static int make_one(const char *way, char *program)
{
	int terminal;
	pid_t pid = -1;
	if (!strcmp(way, "system") || !strcmp(way, "popen"))
		return by_shell(program, way[0] == 'p');
	if (!strcmp(way, "winch"))
		return make_signalled(program);
	if (!strcmp(way, "posix_spawn"))
		return end_of(spawn(program, posix_spawn));
	if (!strcmp(way, "posix_spawnp"))
		return end_of(spawn(program, posix_spawnp));
	if (!strcmp(way, "fork"))
		pid = fork();
	else if (!strcmp(way, "vfork"))
		pid = vfork();
	else if (!strcmp(way, "forkpty"))
		pid = forkpty(&terminal, NULL, NULL, NULL);
	else if (!strcmp(way, "clone"))
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		become(program);
	return end_of(pid);
}

/* --- keep --- */

static int is_told(void)
{
	struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
	return poll(&wait, 1, 1) == 1;
}

static int keep_books(void)
{
	unsigned rounds = 0;
	printf("child %d\n", getpid());
	fflush(stdout);
	/* 20 more rounds after the command. */
	for (unsigned left = 20; left; left -= is_told(), rounds++) {
		void *volatile block[BLOCKS];
		for (unsigned i = 0; i < BLOCKS; i++)
			block[i] = malloc(ROUND_BYTES + rounds);
		for (unsigned i = 0; i < BLOCKS; i++)
			free(block[i]);
	}
	printf("rounds %u\n", rounds);
	fflush(stdout);
	return 0;
}

static int keep(void)
{
	printf("ready %d\n", getpid());
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		_exit(keep_books());
	return end_of(pid);
}

/* --- storm --- */

static int is_wrong(unsigned number)
{
	int expected = number & 2 ? 0 : (int)(number & 63);
	pid_t pid = number & 1 ? vfork() : fork();
	if (pid == 0 && number & 2)
		execl("/bin/true", "true", (char *)NULL);
	if (pid == 0)
		_exit(number & 2 ? FAILED : expected);
	return end_of(pid) != expected;
}

static int storm(unsigned count)
{
	unsigned wrong = 0;
	printf("ready %d\n", getpid());
	for (unsigned i = 0; i < count; i++) {
		wrong += (unsigned)is_wrong(i);
		printf("made %u\n", i);
		fflush(stdout);
	}
	printf("wrong %u\n", wrong);
	fflush(stdout);
	return wrong != 0;
}

/* --- ends --- */

static void end_somehow(unsigned number)
{
	char *const words[] = {"x", NULL};
	if (number % 3 == 1)
		execv("/", words);
	if (number % 3 == 2)
		pause();
	_exit((int)(number & 63));
}

static int is_missed(unsigned number)
{
	pid_t pid = fork();
	if (pid == 0)
		end_somehow(number);
	struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	siginfo_t info = {0};
	if (number % 3 == 2)
		kill(pid, SIGKILL);
	int missed = poll(&end, 1, -1) != 1 ||
		     waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
		     info.si_pid != pid;
	close(end.fd);
	waitpid(pid, NULL, 0);
	return missed || info.si_status != (number % 3 == 2 ? SIGKILL : (int)(number & 63));
}

static int ends(unsigned count)
{
	unsigned wrong = 0;
	for (unsigned i = 0; i < count; i++)
		wrong += (unsigned)is_missed(i);
	printf("wrong %u\n", wrong);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "keep"))
		return keep();
	if (argc > 2 && !strcmp(argv[1], "storm"))
		return storm((unsigned)atoi(argv[2]));
	if (argc > 2 && !strcmp(argv[1], "ends"))
		return ends((unsigned)atoi(argv[2]));
	return argc > 2 ? make_one(argv[1], argv[2]) : FAILED;
}
