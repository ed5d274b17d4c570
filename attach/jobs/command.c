/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/jobs/command.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/hold/shebang.h"
#include "attach/proc/fd.h"

#define SHELL	    "/bin/sh"
#define SHELL_PATH  "/bin:/usr/bin" /* where PATH is not set */
#define LOOK_BYTES  80u		    /* of a file's first line, as bash does */
#define WORDS_MAX   (1u << 20)	    /* more than the kernel takes */
#define HEADERS_MAX 64u
#define SCRIPTS_MAX 8u /* more than the kernel goes through */

/* --- the file
 * ------------------------------------------------------------------------------------------ */

/* Sets `ret` to the next directory of `*path` with `name` appended; false: none is left. */
static bool next_candidate(const char **path, const char *name, char ret[PATH_MAX])
{
	while (*path) {
		size_t length = strcspn(*path, ":");
		/* An empty part of PATH is the current directory. */
		int written = snprintf(
			ret, PATH_MAX, "%.*s%s%s", (int)length, *path, length ? "/" : "", name);
		*path = (*path)[length] ? *path + length + 1 : NULL;
		if (written > 0 && written < PATH_MAX)
			return true;
	}
	return false;
}

static const char *search_path(const char *name)
{
	const char *path = getenv("PATH");
	return strchr(name, '/') ? NULL : path ? path : SHELL_PATH;
}

/* Is the file a program of some kind, and not a text for a shell? */
static bool is_binary(const char *file)
{
	char line[LOOK_BYTES];
	FD_GUARD int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t got = fd < 0 ? 0 : read(fd, line, sizeof(line));
	if (got <= 0)
		return false;
	const char *end = memchr(line, '\n', (size_t)got);
	return (got >= SELFMAG && !memcmp(line, ELFMAG, SELFMAG)) ||
	       memchr(line, '\0', end ? (size_t)(end - line) : (size_t)got);
}

/* --- to run it
 * ------------------------------------------------------------------------------------------ */

static int exec_by_shell(const char *file, char *const argv[])
{
	size_t count = 0;
	while (argv[count] && count < WORDS_MAX)
		count++;
	char **words = calloc(count + 2, sizeof(words[0]));
	if (!words)
		return ENOMEM;
	words[0] = (char *)SHELL;
	words[1] = (char *)file;
	for (size_t i = 1; i < count; i++)
		words[i + 1] = argv[i];
	execv(SHELL, words);
	int sys = errno;
	free(words);
	return sys;
}

static int exec_file(const char *file, char *const argv[])
{
	execv(file, argv);
	return errno != ENOEXEC || is_binary(file) ? errno : exec_by_shell(file, argv);
}

/* Is this an error of one directory of PATH? Then the next one may have the command. */
static bool is_elsewhere(int sys)
{
	return sys == ENOENT || sys == ENOTDIR || sys == ESTALE || sys == ENODEV ||
	       sys == ETIMEDOUT || sys == EACCES;
}

int command_exec(char *const argv[])
{
	const char *path = search_path(argv[0]);
	char file[PATH_MAX];
	int sys = ENOENT;
	bool denied = false;
	if (!path)
		return exec_file(argv[0], argv);
	while (argv[0][0] && next_candidate(&path, argv[0], file)) {
		sys = exec_file(file, argv);
		if (!is_elsewhere(sys))
			return sys;
		denied |= sys == EACCES;
	}
	return denied ? EACCES : sys;
}

/* --- why it does not run
 * ------------------------------------------------------------------------------------------ */

/* Finds the first file of that name on which access(2) allows `mode`. Returns 0, or an error of
 * errno.h. */
static int find_file(const char *name, int mode, char ret[PATH_MAX])
{
	const char *path = search_path(name);
	bool denied = false;
	snprintf(ret, PATH_MAX, "%s", name);
	if (!path)
		return access(name, mode) == 0 ? 0 : errno;
	while (*name && next_candidate(&path, name, ret)) {
		if (access(ret, mode) == 0)
			return 0;
		denied |= errno == EACCES;
	}
	return denied ? EACCES : ENOENT;
}

/* Reads the name of the dynamic linker that a program asks for; "": none. */
static void read_linker(const char *file, char ret[SHEBANG_BYTES])
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	FD_GUARD int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	bool known = fd >= 0 && pread(fd, &header, sizeof(header), 0) == sizeof(header) &&
		     !memcmp(header.e_ident, ELFMAG, SELFMAG) &&
		     header.e_ident[EI_CLASS] == ELFCLASS64;
	ret[0] = '\0';
	for (unsigned i = 0; known && i < header.e_phnum && i < HEADERS_MAX; i++) {
		off_t at = (off_t)(header.e_phoff + i * sizeof(segment));
		if (pread(fd, &segment, sizeof(segment), at) != sizeof(segment))
			break;
		if (segment.p_type != PT_INTERP)
			continue;
		ssize_t got = pread(fd, ret, SHEBANG_BYTES - 1, (off_t)segment.p_offset);
		ret[got > 0 ? got : 0] = '\0';
		break;
	}
}

/* Follows a script to its interpreter, while that is a script, too, up to a script whose
 * interpreter is missing or cannot be run: its path replaces `file`. False: there is no such
 * script. */
static bool find_script(char file[PATH_MAX], char interpreter[SHEBANG_BYTES])
{
	for (unsigned i = 0; i < SCRIPTS_MAX; i++) {
		if (!shebang_read(file, interpreter) || !interpreter[0])
			return false;
		if (access(interpreter, X_OK) != 0)
			return true;
		snprintf(file, PATH_MAX, "%s", interpreter);
	}
	return false;
}

static struct ht_err *explain_interpreter(
	const char *file, char interpreter[SHEBANG_BYTES], int sys)
{
	size_t length = strlen(interpreter);
	if (length && interpreter[length - 1] == '\r') {
		interpreter[length - 1] = '\0';
		return ht_err_new(HT_ERR_USAGE,
			"its lines end as on Windows (CRLF), so that the interpreter is \"%s\" and "
			"a carriage return: %s; convert it: sed -i 's/\\r$//' %s",
			interpreter, strerror(sys), file);
	}
	return ht_err_new(HT_ERR_USAGE, "its interpreter %s: %s; correct the first line of %s",
		interpreter, strerror(sys), file);
}

/* The caller has found the file. */
static struct ht_err *explain_file(char file[PATH_MAX], int sys)
{
	char interpreter[SHEBANG_BYTES], linker[SHEBANG_BYTES];
	struct stat stat_of;
	bool may_run = access(file, X_OK) == 0;
	bool is_file = stat(file, &stat_of) == 0 && S_ISREG(stat_of.st_mode);
	if (sys == EACCES && !is_file)
		return ht_err_new(HT_ERR_USAGE, "%s: it is not a regular file", strerror(sys));
	if (sys == EACCES && !may_run)
		return ht_err_new(
			HT_ERR_USAGE, "%s; make it executable: chmod +x %s", strerror(sys), file);
	if (sys == ENOEXEC)
		return ht_err_new(HT_ERR_USAGE,
			"%s: this system runs no programs of its kind (for another processor, "
			"32-bit, or damaged); see: file %s",
			strerror(sys), file);
	if ((sys == ENOENT || sys == EACCES) && find_script(file, interpreter))
		return explain_interpreter(file, interpreter, sys);
	read_linker(file, linker);
	if (sys == ENOENT && linker[0])
		return ht_err_new(HT_ERR_USAGE,
			"its dynamic linker %s: %s; install the C library that it was built for",
			linker, strerror(sys));
	return ht_err_new(HT_ERR_USAGE, "%s", strerror(sys));
}

int command_check(const char *name)
{
	char file[PATH_MAX];
	return find_file(name, X_OK, file);
}

struct ht_err *command_explain(const char *name, int sys)
{
	char file[PATH_MAX];
	bool is_sought = sys == ENOENT && *name && !strchr(name, '/');
	struct ht_err *err = find_file(name, F_OK, file) == 0
				     ? explain_file(file, sys)
				     : ht_err_new(HT_ERR_USAGE, "%s%s", strerror(sys),
					       is_sought ? ": no directory of PATH has it" : "");
	return ht_err_wrap(err, "cannot run %s", name);
}
