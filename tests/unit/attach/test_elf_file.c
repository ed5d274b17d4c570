/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/elf_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/compile.h"
#include "tests/support/ht_check.h"

static int open_program(void)
{
	char *path = compile((const char *[]){"gcc", "-w", "-Wl,--build-id=none", NULL},
		"int main(void) { return 0; }\n", NULL);
	ck_assert_ptr_nonnull(path);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	free(path);
	return fd;
}

/* A sparse file costs only the time to read it, so its sections may claim any size. */
HT_TEST(reads_of_a_file_are_limited)
{
	static const uint8_t no_id[1];
	int fd = open_program();
	struct elf_file file;
	struct elf_table table;
	char byte;
	ck_no_err(elf_file_open(fd, no_id, 0, NULL, &file));
	const Elf64_Shdr *symbols = elf_file_named(&file, ".symtab");
	uint64_t left = file.left;
	ck_assert_uint_lt(left, ELF_FILE_READ_MAX);
	ck_no_err(elf_file_read(&file, symbols, &table));
	ck_assert_uint_eq(left - file.left, table.bytes);
	elf_table_deinit(&table);
	file.left = symbols->sh_size;
	ck_assert_uint_eq(elf_file_bytes(&file, 0, &byte, 1), 1);
	ck_assert(!file.partial);
	ck_no_err(elf_file_read(&file, symbols, &table));
	ck_assert_uint_eq(table.bytes, 0);
	ck_assert(file.partial);
	elf_table_deinit(&table);
	file.left = 0;
	ck_assert_uint_eq(elf_file_bytes(&file, 0, &byte, 1), 0);
	elf_file_close(&file);
	close(fd);
}

/* One file may be mapped by a thousand modules. */
HT_TEST(reads_of_all_files_are_limited)
{
	static const uint8_t no_id[1];
	struct budget budget = {.bytes = 1u << 20};
	int fd = open_program();
	struct elf_file file;
	struct elf_table table;
	ck_no_err(elf_file_open(fd, no_id, 0, &budget, &file));
	const Elf64_Shdr *symbols = elf_file_named(&file, ".symtab");
	budget.bytes = 3 * symbols->sh_size / 2;
	ck_no_err(elf_file_read(&file, symbols, &table));
	ck_assert_uint_eq(table.bytes, symbols->sh_size);
	elf_table_deinit(&table);
	ck_assert(!budget.spent && !file.partial);
	ck_no_err(elf_file_read(&file, symbols, &table));
	ck_assert_uint_eq(table.bytes, 0);
	ck_assert(budget.spent && file.partial);
	elf_table_deinit(&table);
	elf_file_close(&file);
	budget.bytes = 100;
	ck_no_err(elf_file_open(fd, no_id, 0, &budget, &file));
	ck_assert_uint_eq(file.section_count, 0);
	ck_assert(file.partial);
	elf_file_close(&file);
	close(fd);
}

HT_SUITE("attach/elf/elf_file")
