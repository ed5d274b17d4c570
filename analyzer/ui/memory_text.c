/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/memory_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/ui/line.h"
#include "analyzer/views/rss.h"

#define INDENT "               "
#define PART   "              " /* indent of lines after the figure of a part */

/* --- the heap --- */

/* "1.5 MiB"; "between 0 B and 3.0 MiB" if the error is not less than the figure. */
static void put_in_range(FILE *out, uint64_t bytes, struct heap_range range)
{
	if (!range.is_known)
		fputs("unknown", out);
	else if (range.is_figure)
		fputs(text_bytes(bytes).text, out);
	else
		fprintf(out, "between %s and %s", text_bytes(range.least_bytes).text,
			text_bytes(range.most_bytes).text);
}

static void put_amount(FILE *out, uint64_t bytes, uint64_t off_bytes)
{
	put_in_range(out, bytes, heap_range_of(bytes, off_bytes));
}

/* Whether the error of a figure is printed. If bounds are printed, they already show the error. */
static bool has_off(uint64_t bytes, uint64_t off_bytes)
{
	return off_bytes && heap_range_of(bytes, off_bytes).is_figure;
}

/* "glibc: REASON" */
static void put_reason(const struct text *text, const char *allocator, const char *reason)
{
	text_foreign(text, allocator, 32);
	fputs(allocator[0] ? ": " : "no allocator was found", text->out);
	text_foreign(text, reason, 200);
}

static void put_end(const struct text *text, const struct heap *heap)
{
	FILE *out = text->out;
	if (!heap->end_told)
		return;
	if (!heap->end_known) {
		fputs(", not known at the end", out);
		return;
	}
	fputs(", ", out);
	const struct heap_range range = heap_end_range(heap);
	const uint64_t off_bytes =
		range.most_bytes - heap->end_bytes > heap->end_bytes - range.least_bytes
			? range.most_bytes - heap->end_bytes
			: heap->end_bytes - range.least_bytes;
	put_in_range(out, heap->end_bytes, range);
	fputs(" at the end", out);
	if ((!heap->known || off_bytes > heap->off_bytes) && off_bytes && range.is_figure)
		fprintf(out, " (off by %s at most)", text_bytes(off_bytes).text);
}

static void put_books(const struct text *text, const struct heap *heap)
{
	FILE *out = text->out;
	fputs("\n" INDENT "(", out);
	text_foreign(text, heap->allocator, 32);
	if (!heap->off_bytes && !heap->system_bytes && !heap->arenas) {
		fputs(": not used before the window)\n", out);
		return;
	}
	fprintf(out, ", %" PRIu64 " %s; ", heap->arenas, heap->arenas == 1 ? "arena" : "arenas");
	if (!heap->off_bytes)
		fputs("exact", out);
	else if (has_off(heap->start_bytes, heap->off_bytes))
		fprintf(out, "off by %s at most", text_bytes(heap->off_bytes).text);
	else
		fputs("not exact", out);
	if (heap->reason[0]) {
		fputs(": ", out);
		text_foreign(text, heap->reason, 200);
	}
	fprintf(out, "; %s from the system", text_bytes(heap->system_bytes).text);
	if (heap->end_told && !heap->end_known) {
		fputs("; at the end ", out);
		put_reason(text, heap->end_allocator, heap->end_reason);
	}
	fputs(")\n", out);
}

static void write_unknown(const struct text *text, const struct heap *heap)
{
	if (!heap->end_known) {
		fputs("unknown: ", text->out);
		put_reason(text, heap->allocator, heap->reason);
		fputc('\n', text->out);
		return;
	}
	fputs("unknown at the start", text->out);
	put_end(text, heap);
	fputs("\n" INDENT "(", text->out);
	put_reason(text, heap->allocator, heap->reason);
	fputs(")\n", text->out);
}

/* Writes the size of the whole heap, including blocks from before the window. */
static void write_heap(const struct text *text, const struct heap *heap)
{
	FILE *out = text->out;
	if (!heap->is_told)
		return;
	fputs("  heap         ", out);
	if (!heap->known) {
		write_unknown(text, heap);
		return;
	}
	put_amount(out, heap->start_bytes, heap->off_bytes);
	fputs(" at the start", out);
	put_end(text, heap);
	if (heap->has_curve) {
		fputs(", ", out);
		put_in_range(out, heap->peak_bytes, heap_peak_range(heap));
		fprintf(out, " at the peak (+%s)", text_time(heap->peak_time_ns).text);
	}
	put_books(text, heap);
}

/* --- resident memory --- */

/* "+1.5 MiB" */
static struct text_number change_of(int64_t bytes)
{
	const uint64_t amount = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
	struct text_number ret;
	snprintf(ret.text, sizeof(ret.text), "%c%.38s", bytes < 0 ? '-' : '+',
		text_bytes(amount).text);
	return ret;
}

static void put_part(FILE *out, int64_t bytes, const char *what)
{
	fprintf(out, INDENT "%12s  %s", change_of(bytes).text, what);
}

/* Free memory may not be resident: allocators return pages and keep the addresses. */
static void put_free(FILE *out, const struct rss_parts *parts)
{
	put_part(out, parts->free_bytes, "free inside the allocator");
	if (!parts->free_end_bytes)
		fputc('\n', out);
	else
		fprintf(out, ": %s at the end, %s%s of it resident\n",
			text_bytes(parts->free_end_bytes).text,
			parts->free_resident_exact ? "" : "at most ",
			text_bytes(parts->free_resident_bytes).text);
}

static void write_parts(FILE *out, const struct rss_parts *parts)
{
	if (parts->heap_known) {
		put_part(out, parts->heap_bytes, "heap in use");
		fputs(parts->free_known ? "\n" : ", by the trace\n", out);
	}
	if (parts->free_known)
		put_free(out, parts);
	put_part(out, parts->other_bytes,
		!parts->heap_known	 ? "anonymous memory: the heap, stacks, mmap, JIT code\n"
		: parts->other_bytes < 0 ? "allocated or free, but not resident\n"
		: parts->free_known
			? "other anonymous memory: stacks, mmap, JIT code\n"
			: "other anonymous memory: free inside the allocator, stacks, mmap, "
			  "JIT code\n");
	if (parts->swapped_bytes)
		/* Negated: swapped-out memory is no longer resident. */
		put_part(out, parts->swapped_bytes == INT64_MIN ? INT64_MAX : -parts->swapped_bytes,
			"swapped out\n");
	put_part(out, parts->file_bytes, "mapped files\n");
	put_part(out, parts->shared_bytes, "shared memory");
	if (parts->own_bytes)
		fprintf(out, ", %s of heaptap's own in it at most",
			text_bytes(parts->own_bytes).text);
	fputc('\n', out);
}

static void write_rss(const struct text *text, const struct analysis *analysis)
{
	const struct model *model = &analysis->model;
	const struct rss_growth rss = rss_growth_of(analysis);
	FILE *out = text->out;
	if (!rss.known)
		return;
	fprintf(out, "  RSS          %s -> %s (highest %s): ", text_bytes(rss.first_bytes).text,
		text_bytes(rss.last_bytes).text, text_bytes(model->rss_max_bytes).text);
	fputs(change_of(rss.growth_bytes).text, out);
	if (model_is_exact(model))
		fprintf(out, "; the trace explains %s", change_of(rss.explained_bytes).text);
	fputs(rss.is_unexplained ? ", see Warnings\n" : "\n", out);
	if (rss.parts.known)
		write_parts(out, &rss.parts);
}

/* A line wider than the page continues on the next line, indented. */
void memory_text_write(const struct text *text, const struct analysis *analysis)
{
	char *bytes = NULL, *rest;
	size_t length = 0;
	struct text memory = *text;
	memory.out = open_memstream(&bytes, &length);
	if (!memory.out)
		return;
	write_heap(&memory, &analysis->heap);
	write_rss(&memory, analysis);
	if (fclose(memory.out) == 0) {
		rest = bytes;
		for (char *line; (line = strsep(&rest, "\n")) && rest;)
			line_wrap(text, "",
				strncmp(line, INDENT " ", sizeof(INDENT)) == 0 ? INDENT PART
									       : INDENT "  ",
				line, 0);
	}
	free(bytes);
}
