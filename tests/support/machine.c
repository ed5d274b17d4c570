/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/machine.h"

#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/ht_check.h"

#define BASE 0x10000

/* exit(0): mov $1, %eax; xor %ebx, %ebx; int $0x80 */
struct smallest {
	Elf32_Ehdr ehdr;
	Elf32_Phdr phdr;
	unsigned char code[9];
};

static const struct smallest smallest = {
	.ehdr = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32, ELFDATA2LSB,
			 EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_386,
		.e_version = EV_CURRENT,
		.e_entry = BASE + offsetof(struct smallest, code),
		.e_phoff = offsetof(struct smallest, phdr),
		.e_ehsize = sizeof(Elf32_Ehdr),
		.e_phentsize = sizeof(Elf32_Phdr),
		.e_phnum = 1},
	.phdr = {.p_type = PT_LOAD,
		.p_vaddr = BASE,
		.p_filesz = sizeof(struct smallest),
		.p_memsz = sizeof(struct smallest),
		.p_flags = PF_R | PF_X,
		.p_align = 4096},
	.code = {0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80},
};

bool machine_runs_32_bits(const char *name)
{
	int status = -1, fd = memfd_create("smallest", MFD_CLOEXEC);
	ck_need(fd >= 0);
	ck_need(write(fd, &smallest, sizeof(smallest)) == sizeof(smallest));
	pid_t pid = fork();
	if (!pid) {
		char *const argv[] = {(char[]){"smallest"}, NULL}, *const none[] = {NULL};
		execveat(fd, "", argv, none, AT_EMPTY_PATH);
		_exit(1);
	}
	ck_need(pid > 0 && waitpid(pid, &status, 0) == pid);
	close(fd);
	if (status)
		printf("skipped: %s: the kernel runs no 32-bit programs\n", name);
	return !status;
}
