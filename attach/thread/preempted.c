/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread/preempted.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/proc_file.h"

#define STACK_BYTES 8192u

/* Entries of the kernel for interrupts only; those for system calls have other names. */
static const char *const interrupts[] = {"asm_sysvec_", "asm_common_interrupt"};

/* Reads the kernel functions on the thread's stack, the entry last: "[<0>] name+0x16/0x20". Empty
 * for a running thread. */
static bool read_stack(const struct proc *proc, pid_t tid, char *ret, size_t bytes)
{
	char path[32];
	snprintf(path, sizeof(path), "task/%d/stack", tid);
	ssize_t length = proc_file_short(proc->dir_fd, path, ret, bytes);
	/* A text that was cut lacks the entry. */
	return length > 0 && (size_t)length < bytes - 1 && ret[length - 1] == '\n';
}

bool preempted_is(const struct proc *proc, pid_t tid)
{
	char text[STACK_BYTES];
	if (!read_stack(proc, tid, text, sizeof(text)))
		return false;
	text[strlen(text) - 1] = '\0';
	const char *line = strrchr(text, '\n');
	const char *name = strstr(line ? line : text, "] ");
	for (size_t i = 0; name && i < HT_ARRAY_SIZE(interrupts); i++)
		if (strncmp(name + 2, interrupts[i], strlen(interrupts[i])) == 0)
			return true;
	return false;
}
