/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/process/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/proc/proc_living.h"

static bool has_word(const char *list, size_t length, const char *word)
{
	size_t wanted = strlen(word);
	for (size_t at = 0; at <= length;) {
		size_t here = strcspn(list + at, ",\n");
		if (here > length - at)
			here = length - at;
		if (here == wanted && !memcmp(list + at, word, wanted))
			return true;
		at += here + 1;
	}
	return false;
}

bool cgroup_parse_mount(const char *line, const char *controller, struct cgroup_hierarchy *ret)
{
	char type[32], options[256];
	const char *rest = strstr(line, " - ");
	if (!rest || sscanf(rest, " - %31s %*s %255s", type, options) != 2 ||
		sscanf(line, "%*s %*s %*s %4095s %4095s", ret->root, ret->point) != 2)
		return false;
	ret->unified = !strcmp(type, "cgroup2");
	return ret->unified ||
	       (!strcmp(type, "cgroup") && has_word(options, strlen(options), controller));
}

const char *cgroup_parse_path(const struct cgroup_hierarchy *hierarchy, const char *groups,
	const char *controller, size_t *ret_length)
{
	for (const char *line = groups; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		size_t length = strcspn(line, "\n");
		const char *list = memchr(line, ':', length);
		const char *path =
			list ? memchr(list + 1, ':', length - (size_t)(list + 1 - line)) : NULL;
		if (!path)
			continue;
		size_t words = (size_t)(path - list - 1);
		if (hierarchy->unified ? words != 0 : !has_word(list + 1, words, controller))
			continue;
		*ret_length = length - (size_t)(path + 1 - line);
		return path + 1;
	}
	return NULL;
}

uint64_t cgroup_number(const char *directory, const char *file, const char *key, uint64_t missing)
{
	char path[2 * 4096 + 64], text[8192];
	snprintf(path, sizeof(path), "%s/%s", directory, file);
	FILE *stream = fopen(path, "re");
	size_t got = stream ? fread(text, 1, sizeof(text) - 1, stream) : 0;
	if (stream)
		fclose(stream);
	text[got] = '\0';
	return proc_file_number(text, key ? key : "", 10, missing);
}

static void visit_up_from(const struct cgroup_hierarchy *h, const char *path, size_t length,
	void (*visit)(void *context, bool unified, const char *directory), void *context)
{
	char directory[2 * 4096];
	size_t root_length = strcmp(h->root, "/") == 0 ? 0 : strlen(h->root);
	if (length < root_length || strncmp(path, h->root, root_length) != 0 ||
		!strncmp(path, "/..", 3))
		return;
	snprintf(directory, sizeof(directory), "%s%.*s", h->point, (int)(length - root_length),
		path + root_length);
	for (;;) {
		visit(context, h->unified, directory);
		char *slash = strrchr(directory, '/');
		if (!slash || slash < directory + strlen(h->point))
			return;
		*slash = '\0';
	}
}

void cgroup_each(const struct proc *proc, const char *controller,
	void (*visit)(void *context, bool unified, const char *directory), void *context)
{
	static struct cgroup_hierarchy hierarchy;
	char *groups = NULL, *line = NULL;
	size_t capacity = 0, length;
	FILE *mounts = ht_err_drop(proc_text(proc, "cgroup", &groups))
			       ? NULL
			       : fopen("/proc/self/mountinfo", "re");

	while (mounts && getline(&line, &capacity, mounts) > 0) {
		if (!cgroup_parse_mount(line, controller, &hierarchy))
			continue;
		const char *path = cgroup_parse_path(&hierarchy, groups, controller, &length);
		if (path)
			visit_up_from(&hierarchy, path, length, visit, context);
	}
	if (mounts)
		fclose(mounts);
	free(line);
	free(groups);
}

/* A group below a frozen one reports itself as frozen, too. */
static void look_at_group(void *context, bool unified, const char *directory)
{
	bool *frozen = context;
	if (unified)
		*frozen |= cgroup_number(directory, "cgroup.events", "frozen ", 0) == 1;
	else
		*frozen |= cgroup_number(directory, "freezer.self_freezing", NULL, 0) == 1;
}

bool cgroup_is_frozen(const struct proc *proc)
{
	bool frozen = false;
	cgroup_each(proc, "freezer", look_at_group, &frozen);
	return frozen;
}
