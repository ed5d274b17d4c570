/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/looks.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOKS_MAX 256

struct look {
	const void *snap;
	pid_t pid;
	bool is_compared;
};

static struct look looks[LOOKS_MAX];
static size_t count;
static pid_t owner;
static pid_t forgotten; /* process of a snapshot that was removed without a comparison; 0: none */

static void check_none_forgotten(void)
{
	if (owner != getpid())
		return;
	while (count)
		looks_remove(looks[0].snap);
	if (!forgotten)
		return;
	fprintf(stderr, "a snapshot of process %d was compared with nothing\n", forgotten);
	_exit(EXIT_FAILURE);
}

/* A forked child starts with an empty list: the snapshots that it inherits belong to its parent. */
static void own(void)
{
	if (owner == getpid())
		return;
	owner = getpid();
	count = 0;
	forgotten = 0;
	atexit(check_none_forgotten);
}

static struct look *find(const void *snap)
{
	for (size_t i = 0; owner == getpid() && i < count; i++)
		if (looks[i].snap == snap)
			return &looks[i];
	return NULL;
}

void looks_add(const void *snap, pid_t pid)
{
	own();
	ck_assert_uint_lt(count, LOOKS_MAX);
	looks[count++] = (struct look){snap, pid, false};
}

void looks_remove(const void *snap)
{
	struct look *look = find(snap);
	if (!look)
		return;
	if (!look->is_compared)
		forgotten = look->pid;
	*look = looks[--count];
}

void looks_compared(const void *snap)
{
	struct look *look = find(snap);
	if (look)
		look->is_compared = true;
}

bool looks_has(pid_t pid)
{
	for (size_t i = 0; owner == getpid() && i < count; i++)
		if (looks[i].pid == pid)
			return true;
	return false;
}
