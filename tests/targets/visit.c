/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a library, uses it for a moment and unloads it: "visit N" does so N times with dlopen,
 * "visit-apart N" in a namespace of its own (dlmopen), "visit-threads N" in two threads at once,
 * "absent N" asks for a library that is not there, "present N" for one that is loaded
 * (RTLD_NOLOAD), "convert N" has the C library load a character set. Answers the longest dlopen or
 * dlmopen of the command in microseconds.
 *
 * usage: visit LIBRARY
 */
#include <dlfcn.h>
#include <iconv.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "tests/targets/guest.h"
#include "tests/targets/speak.h"

static const char *library;
static unsigned long longest_us;

static unsigned long now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long)now.tv_sec * 1000000 + (unsigned long)now.tv_nsec / 1000;
}

static void note(unsigned long began_us)
{
	unsigned long took_us = now_us() - began_us;
	longest_us = took_us > longest_us ? took_us : longest_us;
}

static void visit(int apart)
{
	unsigned long began_us = now_us();
	void *guest = apart ? dlmopen(LM_ID_NEWLM, library, RTLD_NOW) : dlopen(library, RTLD_NOW);
	note(began_us);
	void (*run)(int count);
	if (!guest)
		speak_fail("%s", dlerror());
	*(void **)&run = dlsym(guest, "guest_run");
	run(GUEST_RUN);
	dlclose(guest);
}

static void look_for(const char *name, int flags, int is_there)
{
	unsigned long began_us = now_us();
	void *found = dlopen(name, RTLD_NOW | flags);
	note(began_us);
	if (!found != !is_there)
		speak_fail("%s is %s", name, found ? "there" : "not there");
	if (found)
		dlclose(found);
}

static void convert(void)
{
	iconv_t converter = iconv_open("ISO-8859-15", "UTF-8");
	if (converter == (iconv_t)-1)
		speak_fail("no converter");
	iconv_close(converter);
}

static void *visit_often(void *count)
{
	for (long i = 0; i < (long)(intptr_t)count; i++)
		visit(0);
	return NULL;
}

static void visit_threads(long count)
{
	pthread_t other;
	if (pthread_create(&other, NULL, visit_often, (void *)(intptr_t)(count / 2)))
		speak_fail("no thread");
	visit_often((void *)(intptr_t)(count - count / 2));
	pthread_join(other, NULL);
}

static void obey(const char *what, long count)
{
	if (!strcmp(what, "visit-threads")) {
		visit_threads(count);
		return;
	}
	for (long i = 0; i < count; i++) {
		if (!strcmp(what, "visit"))
			visit(0);
		else if (!strcmp(what, "visit-apart"))
			visit(1);
		else if (!strcmp(what, "absent"))
			look_for("libof-nothing.so", 0, 0);
		else if (!strcmp(what, "present"))
			look_for("libc.so.6", RTLD_NOLOAD, 1);
		else if (!strcmp(what, "convert"))
			convert();
	}
}

int main(int argc, char *argv[])
{
	(void)argc;
	library = argv[1];
	visit_threads(0); /* glibc installs its signal handlers with the first thread */
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		char what[32] = "";
		long count = 1;
		sscanf(command, "%31s %ld", what, &count);
		longest_us = 0;
		obey(what, count);
		speak_add("%lu", longest_us);
		speak_send();
	}
	return 0;
}
