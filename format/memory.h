/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of figures in a MEMORY record (FORMAT.md, 3.2), with their names. Append only.
 */
#pragma once

#include "format/base.h"

#define MEMORY_KINDS(X)                                                                            \
	X(RSS, 1, "rss_bytes")                                                                     \
	X(ANONYMOUS, 2, "anonymous_bytes")                                                         \
	X(FILE, 3, "file_bytes")                                                                   \
	X(SHARED, 4, "shared_bytes")                                                               \
	X(SWAP, 5, "swap_bytes")                                                                   \
	X(RSS_PEAK, 6, "rss_peak_bytes")                                                           \
	X(PAGE_TABLES, 7, "page_table_bytes")                                                      \
	X(MINOR_FAULTS, 8, "minor_faults")                                                         \
	X(MAJOR_FAULTS, 9, "major_faults")                                                         \
	X(HEAPTAP, 10, "heaptap_bytes")                                                            \
	X(CGROUP, 11, "cgroup_bytes")                                                              \
	X(CGROUP_LIMIT, 12, "cgroup_limit_bytes")                                                  \
	X(GLIBC_USED, 32, "glibc_used_bytes")                                                      \
	X(GLIBC_TOP, 33, "glibc_top_bytes")                                                        \
	X(GLIBC_BINS, 34, "glibc_bins_bytes")                                                      \
	X(GLIBC_CACHED, 35, "glibc_cached_bytes")                                                  \
	X(GLIBC_MAPPED, 36, "glibc_mapped_bytes")                                                  \
	X(GLIBC_FREE_RESIDENT, 37, "glibc_free_resident_bytes")                                    \
	X(JEMALLOC_ALLOCATED, 48, "jemalloc_allocated_bytes")                                      \
	X(JEMALLOC_ACTIVE, 49, "jemalloc_active_bytes")                                            \
	X(JEMALLOC_DIRTY, 50, "jemalloc_dirty_bytes")                                              \
	X(JEMALLOC_MUZZY, 51, "jemalloc_muzzy_bytes")                                              \
	X(JEMALLOC_RETAINED, 52, "jemalloc_retained_bytes")                                        \
	X(TCMALLOC_USED, 64, "tcmalloc_used_bytes")                                                \
	X(TCMALLOC_SYSTEM, 65, "tcmalloc_system_bytes")                                            \
	X(MIMALLOC_USED, 72, "mimalloc_used_bytes")                                                \
	X(MIMALLOC_SYSTEM, 73, "mimalloc_system_bytes")                                            \
	X(V8_USED, 80, "v8_used_bytes")                                                            \
	X(V8_COMMITTED, 81, "v8_committed_bytes")                                                  \
	X(V8_EXTERNAL, 82, "v8_external_bytes")                                                    \
	X(V8_ARRAY_BUFFER, 83, "v8_array_buffer_bytes")

enum memory_kind {
#define MEMORY_ENUM(name, number, text) MEMORY_##name = (number),
	MEMORY_KINDS(MEMORY_ENUM)
#undef MEMORY_ENUM
};

/* Kinds from here on come from allocators' own counters, which are read only at the window's ends.
 */
#define MEMORY_ALLOCATORS MEMORY_GLIBC_USED
#define MEMORY_KIND_COUNT 84u /* one more than the highest known kind */

/* CGROUP_LIMIT of a group without limit. */
#define MEMORY_NO_LIMIT UINT64_MAX

/* NULL for a kind that this build does not know. */
static inline const char *memory_kind_name(uint64_t kind)
{
	static const char *const names[MEMORY_KIND_COUNT] = {
#define MEMORY_NAME(name, number, text) [MEMORY_##name] = (text),
		MEMORY_KINDS(MEMORY_NAME)
#undef MEMORY_NAME
	};
	return kind < MEMORY_KIND_COUNT ? names[kind] : NULL;
}

/* The figures of one moment. Zero-initialised: no figure is known. */
struct memory {
	bool is_known[MEMORY_KIND_COUNT];
	uint64_t number[MEMORY_KIND_COUNT];
};

static inline void memory_set(struct memory *memory, enum memory_kind kind, uint64_t number)
{
	memory->is_known[kind] = true;
	memory->number[kind] = number;
}
