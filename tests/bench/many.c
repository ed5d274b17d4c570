/* SPDX-License-Identifier: Apache-2.0
 *
 * A process of many threads and modules: one thread calls the modules, all others wait.
 *
 * usage: many THREADS MODULE...      commands on stdin: quit
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODULES_MAX 1000

static void (*pairs[MODULES_MAX])(size_t bytes);
static size_t pair_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void *wait_for_ever(void *arg)
{
	pthread_mutex_lock(&lock);
	for (;;)
		pthread_cond_wait(&never, &lock);
	return arg;
}

static void *work(void *arg)
{
	for (size_t i = 0;; i++)
		pairs[i % pair_count](16 + i % 512);
	return arg;
}

static void load(const char *path)
{
	void *module = dlopen(path, RTLD_NOW);
	if (!module) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	void *function = dlsym(module, "module_pair");
	memcpy(&pairs[pair_count++], &function, sizeof(function));
}

int main(int argc, char **argv)
{
	char line[64];
	pthread_t thread;
	if (argc < 3 || argc - 2 > MODULES_MAX)
		return 2;
	for (int i = 2; i < argc; i++)
		load(argv[i]);
	pthread_create(&thread, NULL, work, NULL);
	for (unsigned long i = strtoul(argv[1], NULL, 10); i > 2; i--)
		pthread_create(&thread, NULL, wait_for_ever, NULL);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n") != 0)
		;
	_exit(0);
}
