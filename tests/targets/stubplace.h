/* SPDX-License-Identifier: Apache-2.0
 *
 * The place behind the program's code where heaptap writes its stub, found and changed by the
 * program itself.
 */
#pragma once

#include <stdint.h>
#include <sys/mman.h>

#include "tests/targets/speak.h"

#define STUBPLACE_BYTES 4096u

/* Finds the page of program text that is a private copy: heaptap has written to it. */
static inline unsigned char *stubplace_find(void)
{
	unsigned long lo, hi;
	char perms[5], line[512];
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	FILE *maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		uint64_t entry = 0;
		if (sscanf(line, "%lx-%lx %4s", &lo, &hi, perms) != 3 || strcmp(perms, "r-xp") ||
			!strchr(line, '/') || strstr(line, "memfd:"))
			continue;
		off_t last = (off_t)((hi / STUBPLACE_BYTES - 1) * sizeof(entry));
		if (pread(fd, &entry, sizeof(entry), last) == sizeof(entry) && entry >> 63 &&
			!(entry >> 61 & 1))
			break;
		hi = 0;
	}
	if (!maps || feof(maps) || fd < 0)
		speak_fail("no stub found, errno %d", errno);
	fclose(maps);
	close(fd);
	return (unsigned char *)hi - STUBPLACE_BYTES;
}

static unsigned char *stubplace;

static inline void stubplace_protect(int prot)
{
	if (!stubplace)
		stubplace = stubplace_find();
	if (mprotect(stubplace, STUBPLACE_BYTES, prot))
		speak_fail("mprotect: errno %d", errno);
}
