/* SPDX-License-Identifier: Apache-2.0
 *
 * libauditor.so, for LD_AUDIT: before the program's start it does what AUDITOR says; if its child
 * fails, it exits with status 41.
 *
 *      fork     makes a child that loads a library
 *      vfork    makes a child that shares the program's memory, and ends
 *      thread   makes a thread
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void check_child(pid_t child)
{
	int status;
	if (child <= 0 || waitpid(child, &status, 0) != child || status != 0)
		_exit(41);
}

static void *run(void *context)
{
	return context;
}

unsigned int la_version(unsigned int version)
{
	const char *what = getenv("AUDITOR");
	pthread_t thread;
	pid_t child;

	if (what && !strcmp(what, "fork")) {
		child = fork();
		if (child == 0)
			_exit(dlopen("libm.so.6", RTLD_NOW) ? 0 : 1);
		check_child(child);
	}
	if (what && !strcmp(what, "vfork")) {
		child = vfork();
		if (child == 0)
			_exit(0);
		check_child(child);
	}
	if (what && !strcmp(what, "thread") && pthread_create(&thread, NULL, run, NULL) == 0)
		pthread_join(thread, NULL);
	return version;
}
