/* SPDX-License-Identifier: Apache-2.0
 *
 * The line table of a compilation unit, sequence by sequence. libdw sorts the rows of all sequences
 * together: rows of code that the linker dropped, whose addresses begin at 0, then lie between rows
 * of existing code.
 */
#pragma once

#include "analyzer/symbols/spans.h"
#include "format/bytes.h"

struct lines_row {
	uint64_t address; /* first: array_from */
	uint32_t file;	  /* index in the unit's table of files */
	uint32_t line;	  /* 0: no line */
};

/* Consecutive rows with ascending addresses. */
struct lines_sequence {
	size_t first, count;
};

/* A file as the table names it. */
struct lines_file {
	const char *name; /* terminated, in the section */
	uint64_t directory;
	char *path; /* made by the first lines_path */
};

/* The location of a unit's line table, and the sections that it refers to. */
struct lines_source {
	struct bytes section, strings, line_strings; /* .debug_line, .debug_str, .debug_line_str */
	uint64_t offset;			     /* in `section` */
	const char *directory; /* working directory of the compiler; NULL: unknown */
};

/* Zero-initialised is empty and valid. */
struct lines {
	const char **directory;
	size_t directory_count, directory_capacity;
	struct lines_file *file; /* numbered as in the table's version: from 1 before DWARF 5 */
	size_t file_count, file_capacity;
	struct lines_row *row;
	size_t count, capacity;
	struct lines_sequence *sequence;
	size_t sequence_count, sequence_capacity;
	struct spans sequence_span; /* span.index is an index in `sequence` */
};

void lines_deinit(struct lines *lines);
/* Reads a table; the sections of `source` must outlive it. Skips sequences that do not lie in
 * `code`; stops at malformed bytes. */
HT_MUST_CHECK
struct ht_err *lines_read(
	struct lines *lines, const struct lines_source *source, const struct spans *code);
/* The row for `address`; NULL: none. */
const struct lines_row *lines_find(const struct lines *lines, uint64_t address);
/* The path of a file of the table, valid as long as the table; `*ret` is NULL if there is none. */
HT_MUST_CHECK
struct ht_err *lines_path(struct lines *lines, uint64_t index, const char **ret);
