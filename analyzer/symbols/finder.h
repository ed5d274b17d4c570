/* SPDX-License-Identifier: Apache-2.0
 *
 * The places where files with symbols are searched: below --sysroot, below the target's root
 * directory, on this machine, in --debug-dir; and the files that heaptap hands over. The caller
 * must check the identity of a file. Links never lead out of the target's root, and out of
 * --sysroot only if the kernel lacks or forbids openat2(2).
 */
#pragma once

#include "format/map.h"
#include "format/err.h"

#define FINDER_DEBUG_DIRS_MAX 16u

enum finder_place { FINDER_SYSROOT, FINDER_TARGET, FINDER_HOST, FINDER_PLACES };

/* A mapped file that heaptap handed over. */
struct finder_module {
	uint64_t inode; /* 0: unknown */
	int fd;		/* -1: not handed over */
};

/* Zero-initialised but for the descriptors: finder_init. */
struct finder {
	int sysroot; /* directories: --sysroot and the target's root; -1: none */
	int target;
	const char *sysroot_path; /* borrowed */
	const char *debug_dir[FINDER_DEBUG_DIRS_MAX];
	size_t debug_dir_count;
	struct map by_module; /* id -> index in `module` */
	struct finder_module *module;
	size_t count, capacity;
};

/* `sysroot`: "": none. A directory that cannot be opened is an error. */
HT_MUST_CHECK
struct ht_err *finder_init(struct finder *finder, const char *sysroot);
void finder_deinit(struct finder *finder);
/* Receives the files that wait in a socket (format/handover.h). */
HT_MUST_CHECK
struct ht_err *finder_take(struct finder *finder, int socket);
/* Whether the user named places to search (--sysroot, --debug-dir). */
static inline bool finder_is_named(const struct finder *finder)
{
	return finder->sysroot >= 0 || finder->debug_dir_count;
}
/* The file that heaptap handed over for a module; NULL: none. */
const struct finder_module *finder_module(const struct finder *finder, uint64_t id);
/* Opens the regular file at an absolute path for reading. Returns -1 with errno if it is missing or
 * not regular. Never blocks. */
int finder_open(const struct finder *finder, enum finder_place place, const char *path);
/* As finder_open, for a file that the target has written, by the path that the target used; refuses
 * a symbolic link as the last component. */
int finder_open_own(const struct finder *finder, const char *path);
/* As finder_open, for a file below a directory of this machine. */
int finder_open_below(const char *directory, const char *path);
