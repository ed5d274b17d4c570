/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that does to a profiler what programs do. Commands:
 *
 *      fork       a child goes on, allocates without end, and ends with this process; answers its
 * PID take       closes every descriptor from 3 on and opens its own in their place check "fine"
 * when all of these are still open, and nothing but its own byte is in them null N     N threads
 * that do nothing but free(NULL)
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <signal.h>

#include "tests/targets/speak.h"

#define FD_LO 3
#define FD_HI 1010

static void work(void)
{
	for (unsigned i = 0; i < 50; i++)
		free(malloc(16 + i));
	usleep(100);
}

static void fork_child(void)
{
	pid_t parent = getpid(), child = fork();
	if (child < 0)
		speak_fail("no child");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			work();
		_exit(0);
	}
	speak_add("%d", child);
}

static void take_descriptors(void)
{
	closefrom(FD_LO);
	int file = memfd_create("own", 0);
	if (write(file, "x", 1) != 1)
		speak_fail("no file");
	for (int fd = FD_LO; fd < FD_HI; fd++)
		if (fd != file && dup2(file, fd) != fd)
			speak_fail("no descriptor %d", fd);
	speak_add("taken");
}

static void check_descriptors(void)
{
	struct stat stat;
	for (int fd = FD_LO; fd < FD_HI; fd++)
		if (fstat(fd, &stat) || stat.st_size != 1)
			speak_fail("descriptor %d is not what it was", fd);
	speak_add("fine");
}

static void *free_null(void *arg)
{
	void *volatile null = arg;
	free(malloc(1));
	for (;;)
		free(null);
	return NULL;
}

int main(void)
{
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		for (unsigned i = 0; i < 100; i++)
			work();
		if (!strcmp(command, "fork"))
			fork_child();
		else if (!strcmp(command, "take"))
			take_descriptors();
		else if (!strcmp(command, "check"))
			check_descriptors();
		else if (!strncmp(command, "null ", 5))
			for (unsigned long i = strtoul(command + 5, NULL, 10); i > 0; i--)
				pthread_create(&(pthread_t){0}, NULL, free_null, NULL);
		speak_send();
	}
	_exit(0);
}
