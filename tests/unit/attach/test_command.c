/* SPDX-License-Identifier: Apache-2.0
 *
 * A command is found and run as by execvp(3), and a failure names the file at fault.
 */
#include "attach/jobs/command.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

static char *write_bytes(const char *name, mode_t mode, const void *data, size_t bytes)
{
	char *path = tmpdir_path(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, data, bytes), (ssize_t)bytes);
	close(fd);
	return path;
}

static char *write_text(const char *name, mode_t mode, const char *text)
{
	return write_bytes(name, mode, text, strlen(text));
}

/* Runs the command; returns its exit status, or 200 + errno if it could not be run. */
static int run(const char *name)
{
	int status;
	pid_t pid = fork();
	if (pid == 0)
		_exit(200 + command_exec((char *[]){(char *)name, (char *)"7", NULL}));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void check_why(const char *name, int sys, const char *says)
{
	ck_assert_msg(run(name) == 200 + sys, "%s: %d", name, run(name) - 200);
	ck_err_says(command_explain(name, sys), HT_ERR_USAGE, says);
}

/* --- found, and run --- */

HT_TEST(found_in_path)
{
	char path[4 * PATH_MAX];
	char *first = tmpdir_path("first"), *second = tmpdir_path("second");
	ck_assert_int_eq(mkdir(first, 0755) | mkdir(second, 0755), 0);
	free(write_text("first/tool", 0644, "#!/bin/sh\nexit 1\n"));
	snprintf(path, sizeof(path), "/no/such:/etc/passwd:%s", first);
	ck_assert_int_eq(setenv("PATH", path, 1), 0);
	check_why("tool", EACCES, "chmod +x");
	check_why("other", ENOENT, "no directory of PATH");
	check_why("", ENOENT, "No such file");
	/* A file that must not be executed is skipped. */
	free(write_text("second/tool", 0755, "#!/bin/sh\nexit $1\n"));
	snprintf(path, sizeof(path), "/no/such:%s:%s", first, second);
	ck_assert_int_eq(setenv("PATH", path, 1), 0);
	ck_assert_int_eq(run("tool"), 7);
	/* An empty directory is the current one. */
	ck_assert_int_eq(chdir(second), 0);
	ck_assert_int_eq(setenv("PATH", "/no/such:", 1), 0);
	ck_assert_int_eq(run("tool"), 7);
	ck_assert_int_eq(unsetenv("PATH"), 0);
	ck_assert_int_eq(run("tool"), 200 + ENOENT);
	ck_assert_int_eq(run("true"), 0);
	free(first);
	free(second);
}

HT_TEST(text_is_for_the_shell)
{
	static const char zeros[] = "exit 3\0\0", late[] = "exit 3\n\0";
	char *text = write_text("text", 0755, "exit $1\n"), *empty = write_text("empty", 0755, "");
	HT_FREED char *binary = write_bytes("binary", 0755, zeros, sizeof(zeros));
	HT_FREED char *packed = write_bytes("packed", 0755, late, sizeof(late));
	ck_assert_int_eq(run(text), 7);
	ck_assert_int_eq(run(empty), 0);
	ck_assert_int_eq(run(packed), 3);
	check_why(binary, ENOEXEC, "no programs of its kind");
	free(text);
	free(empty);
}

/* --- why not --- */

HT_TEST(scripts)
{
	char text[PATH_MAX + 8];
	char *lost = write_text("lost", 0755, "#! /no/such/interpreter -x\necho\n");
	check_why(lost, ENOENT, "its interpreter /no/such/interpreter: No such file");
	/* The message names the script at fault, also when another script leads to it. */
	snprintf(text, sizeof(text), "#!%s\n", lost);
	char *outer = write_text("outer", 0755, text);
	check_why(outer, ENOENT, "its interpreter /no/such/interpreter: No such file");
	check_why(outer, ENOENT, "correct the first line of");
	char *windows = write_text("windows", 0755, "#!/bin/sh\r\nexit 7\r\n");
	check_why(windows, ENOENT, "CRLF");
	char *plain = write_text("plain", 0644, "#!/bin/sh\nexit 7\n");
	check_why(plain, EACCES, "chmod +x");
	snprintf(text, sizeof(text), "#!%s\n", plain);
	char *denied = write_text("denied", 0755, text);
	check_why(denied, EACCES, "plain: Permission denied");
	snprintf(text, sizeof(text), "#!%s\n", outer);
	char *circle = write_text("outer", 0755, text);
	check_why(circle, ELOOP, "cannot run");
	check_why("/etc", EACCES, "not a regular file");
	char *files[] = {lost, outer, windows, plain, denied, circle};
	for (size_t i = 0; i < HT_ARRAY_SIZE(files); i++)
		free(files[i]);
}

/* The first bytes of a program's file: headers, and the name of its dynamic linker. */
struct program {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	char name[32];
};

static struct program program_make(const char *linker)
{
	struct program program = {.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3,
						     ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
					  .e_type = ET_DYN,
					  .e_machine = EM_X86_64,
					  .e_version = EV_CURRENT,
					  .e_phoff = offsetof(struct program, segment),
					  .e_ehsize = sizeof(Elf64_Ehdr),
					  .e_phentsize = sizeof(Elf64_Phdr),
					  .e_phnum = 1},
		.segment = {.p_type = PT_INTERP, .p_offset = offsetof(struct program, name)}};
	snprintf(program.name, sizeof(program.name), "%s", linker);
	program.segment.p_filesz = strlen(linker) + 1;
	return program;
}

HT_TEST(programs)
{
	struct program program = program_make("/lib/ld-none.so.1");
	HT_FREED char *lost = write_bytes("lost", 0755, &program, sizeof(program));
	check_why(lost, ENOENT, "its dynamic linker /lib/ld-none.so.1: No such file");
	program.header.e_machine = EM_AARCH64;
	HT_FREED char *foreign = write_bytes("foreign", 0755, &program, sizeof(program));
	check_why(foreign, ENOEXEC, "another processor");
	/* A file that ends anywhere is read without harm. */
	for (size_t bytes = 0; bytes < sizeof(program); bytes++) {
		free(write_bytes("foreign", 0755, &program, bytes));
		ht_err_free(command_explain(foreign, ENOENT));
	}
	program.header.e_phoff = UINT64_MAX - 8;
	program.header.e_phnum = UINT16_MAX;
	free(write_bytes("foreign", 0755, &program, sizeof(program)));
	ck_err_says(command_explain(foreign, ENOENT), HT_ERR_USAGE, "cannot run");
}

HT_SUITE("attach/command")
