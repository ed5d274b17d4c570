/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of a Firefox profile: stacks (of frames), frames (of functions), functions (with file
 * and library), and strings. Entries are added when a stack first needs them, so the tables have no
 * unused entries.
 */
#pragma once

#include <stdio.h>

#include "analyzer/export/numbers.h"
#include "analyzer/export/pool.h"
#include "analyzer/views/view.h"

/* Values of a cell that are no number. */
#define FIREFOX_NULL  INT64_MIN
#define FIREFOX_FALSE (INT64_MIN + 1)
#define FIREFOX_TRUE  (INT64_MIN + 2)

#define FIREFOX_COLUMNS_MAX 9u

/* A table, which a profile holds column by column. */
struct firefox_table {
	const char *const *column; /* names of columns, ended by NULL; borrowed */
	bool has_times;		   /* the first column is a time in ns, and is written in ms */
	int64_t *cell;		   /* row by row; the owner of the table frees it */
	size_t rows, capacity;
};

/* Adds a row: a value for each column. */
HT_MUST_CHECK
struct ht_err *firefox_table_add(struct firefox_table *table, const int64_t *row);
/* Writes the members "length" and one for each column, then a closing brace. */
void firefox_table_put(FILE *out, const struct firefox_table *table);
/* Writes a time in ms. */
void firefox_put_ms(FILE *out, uint64_t time_ns);

enum {
	FIREFOX_STACKS,
	FIREFOX_FRAMES,
	FIREFOX_FUNCTIONS,
	FIREFOX_RESOURCES,
	FIREFOX_SOURCES,
	FIREFOX_TABLES
};

struct firefox_tables {
	const struct view *view;
	struct firefox_table table[FIREFOX_TABLES];
	struct pool pool;      /* strings */
	struct numbers frames; /* rows of the table of frames, by frame of the view */
	struct numbers libs;   /* by module */
	struct map by_name;    /* (name, source) -> pair; (pair, lib) -> function */
	struct map by_lib;
	struct map source_of; /* by string: row of the table of sources */
	uint32_t *stack_of; /* by nodes_index: index + 1 of its innermost frame's stack; 0: none */
	uint32_t *scratch;  /* one number per node */
};

/* Call firefox_tables_deinit also after an error. */
HT_MUST_CHECK
struct ht_err *firefox_tables_init(struct firefox_tables *tables, const struct view *view);
void firefox_tables_deinit(struct firefox_tables *tables);
/* Index + 1 of the stack that ends with this node; 0 for no stack. */
HT_MUST_CHECK
struct ht_err *firefox_tables_stack(struct firefox_tables *tables, uint32_t leaf, uint32_t *ret);
/* The cell that refers to a row by index + 1; 0: FIREFOX_NULL. */
int64_t firefox_cell(uint32_t index_plus_1);
/* Writes "libs" and "shared", the last members of a profile, without its closing brace. */
HT_MUST_CHECK
struct ht_err *firefox_tables_put(FILE *out, struct firefox_tables *tables);
