/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds processes by what users know of them: a name, a systemd unit, a container. Reads only the
 * files of a /proc, whose texts are hostile.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

/* All fields that are not NULL must match. */
struct find_query {
	/* The name of the process (comm), or the last part of its program's path. */
	const char *name;
	/* A systemd unit; without a suffix that of a service. One of its control groups has this
	 * name. */
	const char *unit;
	/* The ID of a container of docker, podman, containerd or CRI-O, or how it begins. */
	const char *container;
};

#define FIND_CONTAINER_MIN 4u  /* digits that a query gives */
#define FIND_CONTAINER_MAX 64u /* digits of a whole ID */

struct found {
	pid_t pid, parent;
	uid_t user;
	uint64_t start_ticks; /* field 22 of stat */
	uint64_t rss_bytes;
	bool is_ns_first;  /* process 1 of a PID namespace below that of /proc */
	char comm[64];	   /* hostile, as `command` is */
	char command[256]; /* its arguments with blanks between them, cut; "": unknown */
	char container[FIND_CONTAINER_MAX + 1]; /* "": the query names none */
};

struct found_list {
	struct found *process; /* owned; by PID */
	size_t count, capacity;
};

/*
 * Finds the processes of `root` (a /proc) that match, except zombies, kernel threads and this
 * process. A query without a name, by unit or container, finds main processes only: process 1 of
 * the container's PID namespace, or else processes whose parent does not match. The caller decides
 * what to do with several. HT_ERR_SYS: `root` cannot be read.
 */
HT_MUST_CHECK
struct ht_err *find_processes(
	const char *root, const struct find_query *query, struct found_list *ret);
void found_list_deinit(struct found_list *list);

/* Does a cgroup file ("ID:CONTROLLERS:PATH" lines) name the unit, in a part of a path? */
bool find_unit_matches(const char *groups, const char *unit);
/* Finds the container whose ID begins with `start`; `ret` gets the whole ID. Processes that the
 * container's engine runs beside it (conmon) are not in it. */
bool find_container_matches(
	const char *groups, const char *start, char ret[FIND_CONTAINER_MAX + 1]);

/* How long to wait before the next look, when the last one took `look_ns`: thirty times as long,
 * but at least 10 ms and at most 1 s. */
uint64_t find_pause_ns(uint64_t look_ns);
