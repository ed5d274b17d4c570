/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads libplug.so and lets it go again: "open", "work N" (allocations made by the library),
 * "close". "churn N" opens, works and closes N times. Answers "done".
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/targets/speak.h"

static void *plug;
static void (*plug_work)(unsigned long count);
static char path[4096];

static void open_plug(void)
{
	plug = dlopen(path, RTLD_NOW);
	if (!plug)
		speak_fail("%s", dlerror());
	*(void **)&plug_work = dlsym(plug, "plug_work");
}

static void close_plug(void)
{
	if (dlclose(plug))
		speak_fail("%s", dlerror());
	plug = NULL;
}

int main(int argc, char **argv)
{
	(void)argc;
	snprintf(path, sizeof(path), "%.*s/libplug.so", (int)(strrchr(argv[0], '/') - argv[0]),
		argv[0]);
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		unsigned long count =
			strchr(command, ' ') ? strtoul(strchr(command, ' ') + 1, NULL, 10) : 0;
		if (!strcmp(command, "open")) {
			open_plug();
		} else if (!strncmp(command, "work ", 5)) {
			plug_work(count);
		} else if (!strcmp(command, "close")) {
			close_plug();
		} else if (!strncmp(command, "churn ", 6)) {
			for (unsigned long i = 0; i < count; i++) {
				open_plug();
				plug_work(20);
				close_plug();
			}
		}
		speak_add("done");
		speak_send();
	}
	_exit(0);
}
