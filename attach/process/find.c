/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/find.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/proc_status_text.h"
#include "attach/proc/proc_tids.h"
#include "format/array.h"

#define GROUPS_BYTES	8192u
#define STATUS_BYTES	8192u
#define PF_KTHREAD	0x00200000u
#define PAUSE_MIN_NS	(10 * CLOCK_NS_PER_MS)
#define PAUSE_MAX_NS	CLOCK_NS_PER_S
#define PAUSES_PER_LOOK 30u
#define DELETED		" (deleted)"

/* --- groups ---------------------------------------------------------------------------------- */

/* Calls `visit` with each part of each path, until it returns true. */
static bool any_part(const char *groups,
	bool (*visit)(const char *part, size_t length, const void *wanted, char *ret),
	const void *wanted, char *ret)
{
	for (const char *line = groups; *line;) {
		const char *end = strchrnul(line, '\n');
		const char *at = memchr(line, ':', (size_t)(end - line));
		at = at ? memchr(at + 1, ':', (size_t)(end - at - 1)) : NULL;
		while (at && at < end) {
			at += strspn(at, ":/");
			size_t length = strcspn(at, "/\n");
			if (at < end && visit(at, length, wanted, ret))
				return true;
			at += length;
		}
		line = *end ? end + 1 : end;
	}
	return false;
}

static bool is_unit(const char *part, size_t length, const void *wanted, char *ret)
{
	(void)ret;
	return strlen(wanted) == length && memcmp(part, wanted, length) == 0;
}

bool find_unit_matches(const char *groups, const char *unit)
{
	char service[NAME_MAX + 1];
	if (strchr(unit, '.'))
		return any_part(groups, is_unit, unit, NULL);
	int length = snprintf(service, sizeof(service), "%s.service", unit);
	return length < (int)sizeof(service) && any_part(groups, is_unit, service, NULL);
}

/* "ID", "docker-ID.scope", "libpod-ID.scope", "cri-containerd-ID.scope", "crio-ID.scope", and with
 * a colon before the ID. */
static bool is_container(const char *part, size_t length, const void *wanted, char *ret)
{
	static const char scope[] = ".scope", helper[] = "conmon";
	const size_t end = sizeof(scope) - 1;
	if (length > end && memcmp(part + length - end, scope, end) == 0)
		length -= end;
	if (length < FIND_CONTAINER_MAX || memmem(part, length, helper, sizeof(helper) - 1))
		return false;
	const char *id = part + length - FIND_CONTAINER_MAX;
	if (id > part && id[-1] != '-' && id[-1] != ':')
		return false;
	for (size_t i = 0; i < FIND_CONTAINER_MAX; i++)
		if (!isxdigit((unsigned char)id[i]))
			return false;
	if (strncmp(id, wanted, strlen(wanted)) != 0)
		return false;
	memcpy(ret, id, FIND_CONTAINER_MAX);
	ret[FIND_CONTAINER_MAX] = '\0';
	return true;
}

bool find_container_matches(const char *groups, const char *start, char ret[FIND_CONTAINER_MAX + 1])
{
	return strlen(start) <= FIND_CONTAINER_MAX && any_part(groups, is_container, start, ret);
}

/* --- one process ----------------------------------------------------------------------------- */

/* A path that cannot be read, as another user's, names no program. */
static bool has_program(int fd, const char *name)
{
	char path[PATH_MAX];
	ssize_t length = readlinkat(fd, "exe", path, sizeof(path) - 1);
	if (length <= 0)
		return false;
	path[length] = '\0';
	const size_t cut = sizeof(DELETED) - 1;
	if ((size_t)length > cut && strcmp(path + length - cut, DELETED) == 0)
		path[(size_t)length - cut] = '\0';
	const char *base = strrchr(path, '/');
	return strcmp(base ? base + 1 : path, name) == 0;
}

/* Arguments may hold anything; the end of one is a zero byte. */
static void read_command(int fd, char *ret, size_t bytes)
{
	ssize_t length = proc_file_short(fd, "cmdline", ret, bytes);
	while (length > 0 && ret[length - 1] == '\0')
		length--;
	for (ssize_t i = 0; i < length; i++)
		if (ret[i] == '\0' || ret[i] == '\n')
			ret[i] = ' ';
}

/* False for a zombie, a kernel thread, and a process that has ended. */
static bool read_stat(int fd, struct found *ret)
{
	const struct proc proc = {.dir_fd = fd};
	struct proc_stat stat;
	bool there;
	if (ht_err_drop(proc_stat_read(&proc, "stat", &stat, &there)) || !there ||
		strchr("ZX", stat.state))
		return false;
	ret->parent = stat.parent;
	ret->start_ticks = stat.start_ticks;
	return !(stat.flags & PF_KTHREAD);
}

static void read_status(int fd, struct found *ret)
{
	char text[STATUS_BYTES];
	const struct proc proc = {.pid = ret->pid};
	struct proc_status status;
	pid_t tgid;
	(void)proc_file_short(fd, "status", text, sizeof(text));
	/* A text without all lines gives those that it has. */
	ht_err_free(proc_status_parse(&proc, text, &status, &tgid));
	ret->user = status.euid;
	ret->rss_bytes = status.rss_bytes;
	ret->is_ns_first = !status.ns_alone && status.ns_tid == 1;
}

static bool is_in(int fd, const struct find_query *query, struct found *ret)
{
	char groups[GROUPS_BYTES];
	if (!query->unit && !query->container)
		return true;
	(void)proc_file_short(fd, "cgroup", groups, sizeof(groups));
	return (!query->unit || find_unit_matches(groups, query->unit)) &&
	       (!query->container ||
		       find_container_matches(groups, query->container, ret->container));
}

/* Makes the cheap tests first: most processes do not match. */
static bool look(int fd, const struct find_query *query, struct found *ret)
{
	(void)proc_file_comm(fd, "comm", ret->comm);
	if (query->name && strcmp(ret->comm, query->name) != 0 && !has_program(fd, query->name))
		return false;
	if (!is_in(fd, query, ret) || !read_stat(fd, ret))
		return false;
	read_status(fd, ret);
	read_command(fd, ret->command, sizeof(ret->command));
	return true;
}

/* --- all ------------------------------------------------------------------------------------- */

static struct ht_err *add(struct found_list *list, const struct found *found)
{
	if (!ARRAY_HAS_ROOM(list->process, list->count, list->capacity, 64))
		return ht_err_new(HT_ERR_NOMEM, "no memory for a list of processes");
	list->process[list->count++] = *found;
	return NULL;
}

static struct ht_err *look_at(
	int root, const char *name, const struct find_query *query, struct found_list *ret)
{
	struct found found = {0};
	char *end;
	long pid = strtol(name, &end, 10);
	if (*end || pid <= 0 || pid > INT32_MAX || pid == getpid())
		return NULL;
	found.pid = (pid_t)pid;
	FD_GUARD int fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 && look(fd, query, &found) ? add(ret, &found) : NULL;
}

static bool has_pid(const struct found_list *list, pid_t pid, const char *container)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->process[i].pid == pid &&
			strcmp(list->process[i].container, container) == 0)
			return true;
	return false;
}

static bool has_first(const struct found_list *list, const char *container)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->process[i].is_ns_first &&
			strcmp(list->process[i].container, container) == 0)
			return true;
	return false;
}

/* Is it a main process? In a container: process 1 of its PID namespace. Elsewhere, or if the
 * container has no process 1: a process whose parent is outside. A container within a container has
 * a process 1 of its own, whose parent is in the outer container. */
static bool is_main(const struct found_list *list, const struct found *found, bool in_container)
{
	if (has_pid(list, found->parent, found->container))
		return false;
	return !in_container || found->is_ns_first || !has_first(list, found->container);
}

static void keep_main(struct found_list *list, bool in_container)
{
	struct found_list all = *list;
	bool *keep = calloc(all.count + 1, sizeof(*keep));
	for (size_t i = 0; keep && i < all.count; i++)
		keep[i] = is_main(&all, &all.process[i], in_container);
	list->count = 0;
	for (size_t i = 0; i < all.count; i++)
		if (!keep || keep[i])
			list->process[list->count++] = all.process[i];
	free(keep);
}

static int by_pid(const void *a, const void *b)
{
	const struct found *first = a, *second = b;
	return (first->pid > second->pid) - (first->pid < second->pid);
}

struct ht_err *find_processes(
	const char *root, const struct find_query *query, struct found_list *ret)
{
	struct ht_err *err = NULL;
	*ret = (struct found_list){0};
	DIR *directory = opendir(root);
	if (!directory)
		return ht_err_sys(errno, "cannot read %s", root);
	const struct dirent *entry;
	while (!err && (entry = readdir(directory)) != NULL)
		err = look_at(dirfd(directory), entry->d_name, query, ret);
	closedir(directory);
	if (err)
		found_list_deinit(ret);
	else if (ret->count)
		qsort(ret->process, ret->count, sizeof(*ret->process), by_pid);
	if (!err && !query->name)
		keep_main(ret, query->container != NULL);
	return err;
}

void found_list_deinit(struct found_list *list)
{
	free(list->process);
	*list = (struct found_list){0};
}

uint64_t find_pause_ns(uint64_t look_ns)
{
	uint64_t pause_ns = look_ns < PAUSE_MAX_NS ? look_ns * PAUSES_PER_LOOK : PAUSE_MAX_NS;
	return pause_ns < PAUSE_MIN_NS	 ? PAUSE_MIN_NS
	       : pause_ns > PAUSE_MAX_NS ? PAUSE_MAX_NS
					 : pause_ns;
}
