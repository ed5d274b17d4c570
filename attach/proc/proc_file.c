/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proc/proc_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/fd.h"
#include "format/bytes.h"

#define READ_STEP_BYTES (1u << 16)
#define READ_FEW_BYTES	(1u << 13)
#define LOOKS		2u /* looks without result before a file counts as absent */

struct ht_err *proc_file_failed(const struct proc *proc, const char *name, int sys)
{
	if (sys == ESRCH || proc_has_exited(proc))
		return proc_gone(proc);
	return ht_err_sys(sys, "cannot read /proc/%d/%s", proc->pid, name);
}

struct ht_err *proc_file_exists(const struct proc *proc, int dir_fd, const char *path, bool *ret)
{
	*ret = true;
	for (unsigned look = 0; look < LOOKS; look++) {
		if (faccessat(dir_fd, path, F_OK, 0) == 0)
			return NULL;
		if (errno != ENOENT && errno != ESRCH)
			return ht_err_sys(errno, "cannot look at /proc/%d/%s", proc->pid, path);
	}
	*ret = false;
	return NULL;
}

struct ht_err *proc_file_read(
	const struct proc *proc, const char *path, size_t max, char **ret, size_t *ret_length)
{
	/* A large buffer costs malloc a mapping, which a few lines are not worth. */
	const size_t step = max > READ_STEP_BYTES ? READ_STEP_BYTES : READ_FEW_BYTES;
	HT_CLEANUP(bytes_out_deinit) struct bytes_out text = {0};
	FD_GUARD int fd = openat(proc->dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return proc_file_failed(proc, path, errno);
	for (;;) {
		if (ht_err_drop(bytes_out_reserve(&text, step)))
			return ht_err_new(
				HT_ERR_NOMEM, "no memory for /proc/%d/%s", proc->pid, path);
		ssize_t got = read(fd, text.data + text.length, text.capacity - text.length - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return proc_file_failed(proc, path, errno);
		if (got == 0)
			break;
		text.length += (size_t)got;
		if (text.length > max)
			return ht_err_new(HT_ERR_FORMAT, "/proc/%d/%s is longer than %zu bytes",
				proc->pid, path, max);
	}
	text.data[text.length] = '\0';
	*ret = (char *)text.data;
	text.data = NULL;
	if (ret_length)
		*ret_length = text.length;
	return NULL;
}

/* One read: the kernel returns the whole text to the first read and nothing to the second. */
ssize_t proc_file_short(int dir_fd, const char *path, char *ret, size_t bytes)
{
	FD_GUARD int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, ret, bytes - 1);
	ret[length > 0 ? length : 0] = '\0';
	return length;
}

bool proc_file_comm(int dir_fd, const char *path, char ret[64])
{
	ssize_t length = proc_file_short(dir_fd, path, ret, 64);
	/* The kernel's newline is the last byte; a name may hold others. */
	if (length > 0 && ret[length - 1] == '\n')
		ret[length - 1] = '\0';
	return length > 0;
}

uint64_t proc_file_number(const char *text, const char *key, int base, uint64_t missing)
{
	const char *at = strstr(text, key);
	char *end = NULL;
	const uint64_t number = at ? strtoull(at + strlen(key), &end, base) : 0;
	return at && end != at + strlen(key) ? number : missing;
}
