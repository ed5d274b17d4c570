/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads and unloads libplug.so: "open", "work N" (the library allocates N blocks), "close".
 * "churn N" opens, works and closes N times. "replace" closes the library and maps memory with the
 * bytes of its writable part in the place of that part; "check" fails if these bytes have changed.
 * Answers "done".
 */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

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

/* The part of the library that can be written, in whole pages. */
static struct {
	char *at;
	size_t bytes;
	uint64_t hash;
} data;

static int find_data(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	if (!strstr(info->dlpi_name, "/libplug.so"))
		return 0;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_W))
			continue;
		uintptr_t lo = (info->dlpi_addr + phdr->p_vaddr) & -4096ul;
		uintptr_t hi = (info->dlpi_addr + phdr->p_vaddr + phdr->p_memsz + 4095) & -4096ul;
		data.at = (char *)lo;
		data.bytes = hi - lo;
	}
	return arg == NULL;
}

static uint64_t hash_of_data(void)
{
	uint64_t hash = 0;
	for (size_t i = 0; i < data.bytes; i++)
		hash = hash * 31 + (uint8_t)data.at[i];
	return hash;
}

static void *map_at(char *at)
{
	void *memory = mmap(at, data.bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
	if (memory == MAP_FAILED)
		speak_fail("mmap: errno %d", errno);
	return memory;
}

static void replace_plug(void)
{
	dl_iterate_phdr(find_data, NULL);
	char *copy = map_at(NULL);
	memcpy(copy, data.at, data.bytes);
	close_plug();
	memcpy(map_at(data.at), copy, data.bytes);
	munmap(copy, data.bytes);
	data.hash = hash_of_data();
}

static void check_data(void)
{
	if (hash_of_data() != data.hash)
		speak_fail("what is in the library's place was written to");
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
		} else if (!strcmp(command, "replace")) {
			replace_plug();
		} else if (!strcmp(command, "check")) {
			check_data();
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
