/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/procsaid.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/base.h"

/* Appends to `text`, which has `used` bytes. Returns the new number of bytes. */
static HT_PRINTF(4, 5) size_t add(char *text, size_t bytes, size_t used, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int length = vsnprintf(text + used, bytes - used, fmt, args);
	va_end(args);
	return length < 0 || (size_t)length >= bytes - used ? bytes - 1 : used + (size_t)length;
}

/* Reads the line of the thread's /proc `file` that begins with `start`. */
static void line_of(pid_t tid, const char *file, const char *start, char *line, size_t bytes)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, file);
	FILE *in = fopen(path, "re");
	line[0] = '\0';
	while (in && fgets(line, (int)bytes, in) && strncmp(line, start, strlen(start)) != 0)
		line[0] = '\0';
	if (in)
		fclose(in);
	line[strcspn(line, "\n")] = '\0';
}

size_t procsaid(pid_t tid, char *text, size_t bytes)
{
	static const struct {
		const char *file, *line;
	} asked[] = {{"status", "Name:"}, {"status", "State:"}, {"status", "PPid:"},
		{"status", "TracerPid:"}, {"status", "SigPnd:"}, {"status", "ShdPnd:"},
		{"status", "SigBlk:"}, {"syscall", ""}, {"wchan", ""}, {"stack", ""}};
	char line[256];
	size_t used = 0;

	for (size_t i = 0; i < HT_ARRAY_SIZE(asked); i++) {
		line_of(tid, asked[i].file, asked[i].line, line, sizeof(line));
		used = add(text, bytes, used, ", %s", line);
	}
	return used;
}

size_t procsaid_all(pid_t pid, char *text, size_t bytes)
{
	char path[64];
	size_t used = 0;

	text[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *task = opendir(path);
	for (struct dirent *entry; task && used < bytes - 1 && (entry = readdir(task));) {
		if (entry->d_name[0] == '.')
			continue;
		used = add(text, bytes, used, "; thread %s", entry->d_name);
		used += procsaid((pid_t)strtol(entry->d_name, NULL, 10), text + used, bytes - used);
	}
	if (task)
		closedir(task);
	return used;
}
