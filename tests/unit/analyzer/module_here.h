/* SPDX-License-Identifier: Apache-2.0
 *
 * A module of the test process, which stands for a module of a traced process.
 */
#pragma once

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <libelf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/tracebuild.h"

#define MODULE_HERE_ID 5u

struct module_here {
	const char *want; /* part of the module's path; "" is the program itself */
	char path[4096];
	uint64_t bias, lo, hi;
	uint8_t build_id[TRACE_BUILD_ID_MAX];
	size_t build_id_length;
};

static inline int module_here_see(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	struct module_here *here = context;
	bool is_program = info->dlpi_name[0] == 0;
	if (is_program != (here->want[0] == 0) || !strstr(info->dlpi_name, here->want))
		return 0;
	if (is_program)
		ck_assert_int_gt(readlink("/proc/self/exe", here->path, sizeof(here->path) - 1), 0);
	else
		strncpy(here->path, info->dlpi_name, sizeof(here->path) - 1);
	here->bias = info->dlpi_addr;
	here->lo = UINT64_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		uint64_t from = here->bias + phdr->p_vaddr, to = from + phdr->p_memsz;
		if (phdr->p_type != PT_LOAD)
			continue;
		here->lo = from < here->lo ? from : here->lo;
		here->hi = to > here->hi ? to : here->hi;
	}
	return 1;
}

static inline void module_here_read_build_id(struct module_here *here)
{
	elf_version(EV_CURRENT);
	int fd = open(here->path, O_RDONLY | O_CLOEXEC);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	const void *bytes;
	ssize_t length = dwelf_elf_gnu_build_id(elf, &bytes);
	ck_assert_int_gt(length, 0);
	memcpy(here->build_id, bytes, (size_t)length);
	here->build_id_length = (size_t)length;
	elf_end(elf);
	close(fd);
}

/* Returns the loaded module whose path contains `want`; "": the program itself. */
static inline struct module_here module_here_find(const char *want)
{
	struct module_here here = {.want = want};
	ck_assert_int_eq(dl_iterate_phdr(module_here_see, &here), 1);
	module_here_read_build_id(&here);
	return here;
}

static inline void module_here_put(const struct module_here *here, struct tracebuild *trace)
{
	const struct rec rec = {
		.kind = REC_MODULE,
		.module = {.id = MODULE_HERE_ID,
			.bias = here->bias,
			.lo = here->lo,
			.hi = here->hi,
			.path = {here->path, strlen(here->path)},
			.build_id = {(const char *)here->build_id, here->build_id_length}},
	};
	tracebuild_put(trace, &rec);
}
