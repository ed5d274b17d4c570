/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proc/proc_living.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/proc_tids.h"
#include "format/bytes.h"

#define TEXT_MAX_BYTES (1u << 20)
#define LINK_MAX_BYTES 8192u /* the kernel writes less than PATH_MAX */

struct ht_err *proc_file_path(const struct proc *proc, const char *name, char ret[PROC_PATH_BYTES])
{
	pid_t tid;
	HT_TRY(proc_living_tid(proc, &tid));
	if (!tid)
		return proc_gone(proc);
	int length = tid == proc->pid ? snprintf(ret, PROC_PATH_BYTES, "%s", name)
				      : snprintf(ret, PROC_PATH_BYTES, "task/%d/%s", tid, name);
	if (length < 0 || length >= (int)PROC_PATH_BYTES)
		return ht_err_new(HT_ERR_INTERNAL, "name in /proc too long: %s", name);
	return NULL;
}

bool proc_file_moved(const struct proc *proc, const char *name, const char *path)
{
	char now[PROC_PATH_BYTES];
	return !ht_err_drop(proc_file_path(proc, name, now)) && strcmp(path, now) != 0;
}

struct ht_err *proc_file_read_living(
	const struct proc *proc, const char *name, size_t max, char **ret, size_t *ret_length)
{
	char path[PROC_PATH_BYTES];
	for (;;) {
		*ret = NULL;
		HT_TRY(proc_file_path(proc, name, path));
		struct ht_err *err = proc_file_read(proc, path, max, ret, ret_length);
		if (!proc_file_moved(proc, name, path))
			return err;
		free(*ret);
		ht_err_free(err);
	}
}

struct ht_err *proc_text(const struct proc *proc, const char *name, char **ret)
{
	return proc_file_read_living(proc, name, TEXT_MAX_BYTES, ret, NULL);
}

uint64_t proc_limit(const struct proc *proc, const char *name)
{
	char *text = NULL;
	const uint64_t soft = ht_err_drop(proc_text(proc, "limits", &text))
				      ? UINT64_MAX
				      : proc_file_number(text, name, 10, UINT64_MAX);
	free(text);
	return soft;
}

struct ht_err *proc_auxv_read(const struct proc *proc, struct proc_auxv *ret)
{
	*ret = (struct proc_auxv){0};
	char *data;
	size_t length;
	HT_TRY(proc_file_read_living(proc, "auxv", TEXT_MAX_BYTES, &data, &length));
	struct bytes in = bytes_of(data, length);
	for (uint64_t type, value; bytes_u64(&in, &type) && bytes_u64(&in, &value);) {
		if (type == AT_PHDR)
			ret->phdr = value;
		else if (type == AT_ENTRY)
			ret->entry = value;
		else if (type == AT_BASE)
			ret->base = value;
		else if (type == AT_SYSINFO_EHDR)
			ret->vdso = value;
		else if (type == AT_RANDOM)
			ret->random = value;
	}
	free(data);
	return NULL;
}

struct ht_err *proc_link(const struct proc *proc, const char *name, char **ret)
{
	char path[PROC_PATH_BYTES], target[LINK_MAX_BYTES];
	ssize_t length;
	int sys;
	*ret = NULL;
	do {
		HT_TRY(proc_file_path(proc, name, path));
		length = readlinkat(proc->dir_fd, path, target, sizeof(target));
		sys = errno;
	} while (length < 0 && proc_file_moved(proc, name, path));
	if (length < 0)
		return proc_file_failed(proc, path, sys);
	if (length == (ssize_t)sizeof(target))
		return ht_err_new(
			HT_ERR_FORMAT, "the link /proc/%d/%s is too long", proc->pid, path);
	*ret = strndup(target, (size_t)length);
	return *ret ? NULL : ht_err_new(HT_ERR_NOMEM, "no memory for a link of /proc");
}
