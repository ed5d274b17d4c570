/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks its own functions, and loads other libraries that hook; answers each command with a number:
 *
 *      patch         replaces free in its own GOT by a function that counts and calls what was
 *                    there the first time
 *      unpatch       puts that back
 *      use N         N calls each of malloc and free; answers how many frees were counted so far
 *      load PATH     loads a library; "deep PATH": one that looks for functions in itself and its
 *                    own libraries first; "space PATH": into a namespace, with a C library of its
 *                    own
 *      call NAME[ TEXT]  calls a function of that library, or of the program and its libraries
 *      work N        calls burst_work of that library
 *      unload        unloads that library
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/targets/speak.h"

typedef void free_function(void *ptr);

/* Volatile: the GOT may lead to another function than the compiler assumes. */
static free_function *volatile before;
static volatile unsigned long counted;
static void *loaded;

static void count_free(void *ptr)
{
	counted++;
	before(ptr);
}

static void **slot_of(const char *name)
{
	const Elf64_Rela *rela = NULL;
	const Elf64_Sym *symbols = NULL;
	const char *names = NULL;
	size_t bytes = 0;
	for (const Elf64_Dyn *dyn = _r_debug.r_map->l_ld; dyn->d_tag != DT_NULL; dyn++) {
		if (dyn->d_tag == DT_JMPREL)
			rela = (const Elf64_Rela *)dyn->d_un.d_ptr;
		else if (dyn->d_tag == DT_PLTRELSZ)
			bytes = dyn->d_un.d_val;
		else if (dyn->d_tag == DT_SYMTAB)
			symbols = (const Elf64_Sym *)dyn->d_un.d_ptr;
		else if (dyn->d_tag == DT_STRTAB)
			names = (const char *)dyn->d_un.d_ptr;
	}
	for (size_t i = 0; i < bytes / sizeof(*rela); i++)
		if (!strcmp(names + symbols[ELF64_R_SYM(rela[i].r_info)].st_name, name))
			return (void **)(_r_debug.r_map->l_addr + rela[i].r_offset);
	speak_fail("no slot of %s", name);
}

static void use(unsigned long number)
{
	for (unsigned long i = 0; i < number; i++) {
		void *volatile ptr = malloc(111);
		free(ptr);
	}
}

static void patch(void)
{
	free_function *volatile *slot = (free_function *volatile *)slot_of("free");
	if (!before)
		before = *slot;
	*slot = count_free;
}

static void unpatch(void)
{
	*(free_function *volatile *)slot_of("free") = before;
}

static void load(void *handle)
{
	if (!handle)
		speak_fail("%s", dlerror());
	loaded = handle;
}

static void *function(const char *name)
{
	void *found = loaded ? dlsym(loaded, name) : NULL;
	if (!found)
		found = dlsym(RTLD_DEFAULT, name);
	if (!found)
		speak_fail("%s", dlerror());
	return found;
}

static long work(unsigned long number)
{
	long (*burst_work)(unsigned long count);
	*(void **)&burst_work = function("burst_work");
	return burst_work(number);
}

static long call(const char *name, const char *text)
{
	long (*called)(const char *text);
	*(void **)&called = function(name);
	return called(text);
}

static void unload(void)
{
	if (dlclose(loaded))
		speak_fail("%s", dlerror());
	loaded = NULL;
}

static long obey(const char *command)
{
	unsigned long number = 0;
	char name[200], text[200] = "";
	if (!strcmp(command, "patch"))
		patch();
	else if (!strcmp(command, "unpatch"))
		unpatch();
	else if (!strcmp(command, "unload"))
		unload();
	else if (sscanf(command, "use %lu", &number) == 1)
		use(number);
	else if (sscanf(command, "load %199s", name) == 1)
		load(dlopen(name, RTLD_NOW));
	else if (sscanf(command, "deep %199s", name) == 1)
		load(dlopen(name, RTLD_NOW | RTLD_DEEPBIND));
	else if (sscanf(command, "space %199s", name) == 1)
		load(dlmopen(LM_ID_NEWLM, name, RTLD_LAZY));
	else if (sscanf(command, "work %lu", &number) == 1)
		return work(number);
	else if (sscanf(command, "call %199s %199s", name, text) >= 1)
		return call(name, text);
	else
		speak_fail("no command %s", command);
	return (long)counted;
}

int main(void)
{
	use(1);
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		speak_add("%ld", obey(command));
		speak_send();
	}
	_exit(0);
}
