/* SPDX-License-Identifier: Apache-2.0
 *
 * A static program that maps a library by itself, as an emulator does for its guest: "open" maps
 * libplug.so but never runs it. Answers "done".
 */
#include <elf.h>
#include <stdint.h>
#include <sys/mman.h>

#include "tests/targets/speak.h"

#define PAGE 4096ul

static char path[4096];

static void read_at(int fd, void *ret, size_t bytes, uint64_t offset)
{
	if (pread(fd, ret, bytes, (off_t)offset) != (ssize_t)bytes)
		speak_fail("pread: errno %d", errno);
}

static int protection(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
	       (flags & PF_X ? PROT_EXEC : 0);
}

static void map_segment(int fd, char *base, const Elf64_Phdr *phdr)
{
	uint64_t skipped = phdr->p_vaddr % PAGE;
	void *at = base + phdr->p_vaddr - skipped;
	if (phdr->p_type == PT_LOAD &&
		mmap(at, phdr->p_filesz + skipped, protection(phdr->p_flags),
			MAP_PRIVATE | MAP_FIXED, fd, (off_t)(phdr->p_offset - skipped)) != at)
		speak_fail("mmap: errno %d", errno);
}

static void open_library(void)
{
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *base = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (fd < 0 || base == MAP_FAILED)
		speak_fail("%s: errno %d", path, errno);
	read_at(fd, &ehdr, sizeof(ehdr), 0);
	for (unsigned i = 0; i < ehdr.e_phnum; i++) {
		read_at(fd, &phdr, sizeof(phdr), ehdr.e_phoff + i * sizeof(phdr));
		map_segment(fd, base, &phdr);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	(void)argc;
	snprintf(path, sizeof(path), "%.*s/libplug.so", (int)(strrchr(argv[0], '/') - argv[0]),
		argv[0]);
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strcmp(command, "open"))
			open_library();
		speak_add("done");
		speak_send();
	}
	_exit(0);
}
