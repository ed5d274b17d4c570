/* SPDX-License-Identifier: Apache-2.0
 *
 * The report's lines about memory as a whole, for each combination of what is known and how exact
 * it is: no line contradicts itself, and the parts of RSS add up.
 */
#include "analyzer/ui/memory_text.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"

#define MIB 1048576ull

static struct analysis analysis;
static char *lines;

static const char *write_lines(void)
{
	size_t bytes;
	free(lines);
	lines = NULL;
	struct text text = {.out = open_memstream(&lines, &bytes)};
	memory_text_write(&text, &analysis);
	ck_assert_int_eq(fclose(text.out), 0);
	return lines;
}

static void begin(void)
{
	memset(&analysis, 0, sizeof(analysis));
	analysis.heap = (struct heap){
		.allocator = "glibc", .reason = "", .end_allocator = "glibc", .end_reason = ""};
}

static const struct {
	struct heap heap;
	const char *lines;
} heaps[] = {
	/* The heap is exact at both ends. */
	{{.known = true,
		 .start_bytes = 2 * MIB,
		 .system_bytes = 4 * MIB,
		 .arenas = 1,
		 .has_curve = true,
		 .peak_bytes = 5 * MIB,
		 .peak_least_bytes = 5 * MIB,
		 .peak_most_bytes = 5 * MIB,
		 .peak_time_ns = 1000000,
		 .end_told = true,
		 .end_known = true,
		 .end_bytes = 3 * MIB},
		"2.0 MiB at the start, 3.0 MiB at the end, 5.0 MiB at the peak (+1.0 ms)\n"
		"               (glibc, 1 arena; exact; 4.0 MiB from the system)\n"},
	/* The error is less than the figures. */
	{{.known = true,
		 .start_bytes = 2 * MIB,
		 .off_bytes = MIB,
		 .system_bytes = 4 * MIB,
		 .arenas = 2,
		 .reason = "it moved",
		 .end_told = true,
		 .end_known = true,
		 .end_bytes = 3 * MIB,
		 .end_off_bytes = 2 * MIB},
		"2.0 MiB at the start, 3.0 MiB at the end (off by 2.0 MiB at most)\n"
		"               (glibc, 2 arenas; off by 1.0 MiB at most: it moved; 4.0 MiB from "
		"the system)\n"},
	/* The error is as large as the figures, or larger: bounds are printed. */
	{{.known = true,
		 .start_bytes = MIB,
		 .off_bytes = MIB,
		 .system_bytes = 4 * MIB,
		 .arenas = 1,
		 .reason = "caches",
		 .has_curve = true,
		 .peak_bytes = 20 * MIB,
		 .peak_most_bytes = 41 * MIB,
		 .end_told = true,
		 .end_known = true,
		 .end_bytes = 20 * MIB,
		 .end_off_bytes = 21 * MIB},
		"between 0 B and 2.0 MiB at the start, between 0 B and 41.0 MiB at the end, "
		"between "
		"0 B and 41.0 MiB at the peak (+0 s)\n"
		"               (glibc, 1 arena; not exact: caches; 4.0 MiB from the system)\n"},
	/* The error may be anything. */
	{{.known = true,
		 .start_bytes = MIB,
		 .off_bytes = UINT64_MAX,
		 .system_bytes = 4 * MIB,
		 .arenas = 1},
		"unknown at the start\n"
		"               (glibc, 1 arena; not exact; 4.0 MiB from the system)\n"},
	/* The heap is empty, and that is known. */
	{{.known = true}, "0 B at the start\n               (glibc: not used before the window)\n"},
	{{.known = true,
		 .has_curve = true,
		 .peak_bytes = 3 * MIB,
		 .peak_most_bytes = 7 * MIB,
		 .end_told = true,
		 .end_known = true,
		 .end_bytes = 3 * MIB,
		 .end_off_bytes = 4 * MIB},
		"0 B at the start, between 0 B and 7.0 MiB at the end, between 0 B and 7.0 MiB at "
		"the peak (+0 s)\n"
		"               (glibc: not used before the window)\n"},
	/* The figure is 0, with an error. */
	{{.known = true, .off_bytes = 7, .system_bytes = MIB, .arenas = 1},
		"between 0 B and 7 B at the start\n"
		"               (glibc, 1 arena; not exact; 1.0 MiB from the system)\n"},
	/* Only the start is known. */
	{{.known = true,
		 .start_bytes = MIB,
		 .system_bytes = MIB,
		 .arenas = 1,
		 .end_told = true,
		 .end_reason = "it moved"},
		"1.0 MiB at the start, not known at the end\n"
		"               (glibc, 1 arena; exact; 1.0 MiB from the system; at the end glibc: "
		"it "
		"moved)\n"},
	{{.reason = "it moved",
		 .end_told = true,
		 .end_known = true,
		 .end_bytes = 2 * MIB,
		 .end_off_bytes = MIB},
		"unknown at the start, 2.0 MiB at the end (off by 1.0 MiB at most)\n"
		"               (glibc: it moved)\n"},
	/* Neither end is known. */
	{{.reason = "it moved"}, "unknown: glibc: it moved\n"},
	{{.reason = "it moved", .end_told = true, .end_reason = "it moved"},
		"unknown: glibc: it moved\n"},
	{{.allocator = ""}, "unknown: no allocator was found\n"},
};

HT_TEST(no_heap_line_contradicts_itself)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(heaps); i++) {
		char expected[1024];
		begin();
		struct heap heap = heaps[i].heap;
		heap.is_told = true;
		heap.allocator = heap.allocator ? heap.allocator : "glibc";
		heap.reason = heap.reason ? heap.reason : "";
		heap.end_allocator = "glibc";
		heap.end_reason = heap.end_reason ? heap.end_reason : "";
		analysis.heap = heap;
		snprintf(expected, sizeof(expected), "  heap         %s", heaps[i].lines);
		ck_assert_str_eq(write_lines(), expected);
	}
}

HT_TEST(without_figures_nothing_is_written)
{
	begin();
	ck_assert_str_eq(write_lines(), "");
}

static void see(enum memory_kind kind, uint64_t first_mib, uint64_t last_mib)
{
	struct model_memory *memory = &analysis.model.memory;
	memory->count[kind] = 2;
	memory_set(&memory->first, kind, first_mib * MIB);
	memory_set(&memory->last, kind, last_mib * MIB);
}

/* Begins with this growth of anonymous, file and shared pages, in MiB; RSS grows by their sum. */
static void grow(uint64_t anonymous, uint64_t file, uint64_t shared)
{
	begin();
	see(MEMORY_RSS, 30, 30 + anonymous + file + shared);
	see(MEMORY_ANONYMOUS, 10, 10 + anonymous);
	see(MEMORY_FILE, 15, 15 + file);
	see(MEMORY_SHARED, 5, 5 + shared);
	analysis.model.rss_max_bytes = (30 + anonymous + file + shared) * MIB;
}

/* Sets the heap in use and the memory from the system at the start and at the end, in MiB, as if
 * the allocator was read. */
static void hold(uint64_t start, uint64_t start_system, uint64_t end, uint64_t end_system)
{
	analysis.heap = (struct heap){.known = true,
		.end_known = true,
		.growth_known = true,
		.start_bytes = start * MIB,
		.start_held_bytes = start * MIB,
		.system_bytes = start_system * MIB,
		.end_bytes = end * MIB,
		.end_system_bytes = end_system * MIB,
		.growth_bytes = ((int64_t)end - (int64_t)start) * (int64_t)MIB};
}

HT_TEST(the_parts_of_rss_add_up)
{
	grow(100, 20, 3);
	hold(5, 6, 35, 96);
	see(MEMORY_HEAPTAP, 1, 2);
	ck_assert_str_eq(write_lines(),
		"  RSS          30.0 MiB -> 153.0 MiB (highest 153.0 MiB): +123.0 MiB; the trace "
		"explains +0 B\n"
		"                  +30.0 MiB  heap in use\n"
		"                  +60.0 MiB  free inside the allocator: 61.0 MiB at the end, at "
		"most 61.0 MiB of it resident\n"
		"                  +10.0 MiB  other anonymous memory: stacks, mmap, JIT code\n"
		"                  +20.0 MiB  mapped files\n"
		"                   +3.0 MiB  shared memory, 2.0 MiB of heaptap's own in it at "
		"most\n");
}

/* 50 MiB of blocks were never written to, 8 were swapped out. */
HT_TEST(nonresident_memory_has_a_row)
{
	grow(10, 0, 0);
	hold(5, 6, 73, 74);
	see(MEMORY_SWAP, 0, 8);
	const char *page = write_lines();
	ck_assert_ptr_nonnull(strstr(page, "    +68.0 MiB  heap in use\n"));
	ck_assert_ptr_nonnull(strstr(page, "    -50.0 MiB  allocated or free, but not resident\n"));
	ck_assert_ptr_nonnull(strstr(page, "     -8.0 MiB  swapped out\n"));
}

/* The allocator has given pages of free chunks back to the kernel. */
HT_TEST(pages_given_back_are_free_and_not_resident)
{
	grow(12, 0, 0);
	hold(5, 6, 5, 264);
	see(MEMORY_GLIBC_TOP, 1, 9);
	see(MEMORY_GLIBC_BINS, 0, 250);
	see(MEMORY_GLIBC_FREE_RESIDENT, 1, 12);
	const char *page = write_lines();
	ck_assert_ptr_nonnull(strstr(page,
		"    +11.0 MiB  free inside the allocator: 259.0 MiB at the end, 12.0 MiB of it "
		"resident\n"));
	ck_assert_ptr_nonnull(strstr(page, "     +1.0 MiB  other anonymous memory"));
}

/* The process has ended, so its allocator was not read again. */
HT_TEST(without_books_the_trace_tells)
{
	grow(100, 0, 0);
	analysis.cube.total.allocated_bytes = 30 * MIB;
	const char *page = write_lines();
	ck_assert_ptr_nonnull(strstr(page, "+30.0 MiB  heap in use, by the trace\n"));
	ck_assert_ptr_nonnull(strstr(page,
		"+70.0 MiB  other anonymous memory: free inside the allocator, stacks, mmap"));
	/* A sample has no exact figure for the heap in use. */
	analysis.model.capture.sample_bytes = 512;
	page = write_lines();
	ck_assert_ptr_null(strstr(page, "heap in use"));
	ck_assert_ptr_nonnull(strstr(page, "+100.0 MiB  anonymous memory: the heap, stacks"));
}

HT_SUITE("analyzer/memory_text")
