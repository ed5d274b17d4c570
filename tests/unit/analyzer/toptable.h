/* SPDX-License-Identifier: Apache-2.0
 *
 * A snapshot of heaptap top, put together in memory.
 */
#pragma once

#include <stdio.h>
#include <string.h>

#include "analyzer/top/snapshot.h"
#include "tests/support/ht_check.h"

#define TOPTABLE_ROWS	32u
#define TOPTABLE_FRAMES 256u
#define TOPTABLE_TEXT	16384u
#define TOPTABLE_NS	1000000000ull

struct toptable {
	struct snapshot snapshot;
	struct snapshot_row row[TOPTABLE_ROWS];
	uint32_t frame[TOPTABLE_FRAMES];
	char text[TOPTABLE_TEXT];
};

/* Begins an empty table whose time is `time_s` after the start of the capture. */
static inline void toptable_begin(struct toptable *table, uint64_t time_s)
{
	*table = (struct toptable){.snapshot = {.text_bytes = 2}};
	table->snapshot.figures.time_ns = time_s * TOPTABLE_NS;
	table->snapshot.row = table->row;
	table->snapshot.frame = table->frame;
	table->snapshot.text = table->text;
}

static inline uint32_t toptable_text(
	struct toptable *table, const char *function, const char *place)
{
	const uint32_t at = table->snapshot.text_bytes;
	const size_t length = strlen(function) + strlen(place) + 2;
	ck_assert_uint_lt(at + length + 2, TOPTABLE_TEXT);
	snprintf(table->text + at, TOPTABLE_TEXT - at, "%s%c%s", function, '\0', place);
	/* Two zeros end all texts. */
	table->snapshot.text_bytes += (uint32_t)length + 2;
	return at;
}

/* Adds a site without frames, with this id; `caller` NULL: it has none. */
static inline struct snapshot_row *toptable_site(struct toptable *table, uint64_t id,
	const char *function, const char *caller, uint64_t outstanding_bytes)
{
	ck_assert_uint_lt(table->snapshot.row_count, TOPTABLE_ROWS);
	struct snapshot_row *row = &table->row[table->snapshot.row_count++];
	*row = (struct snapshot_row){.id = id, .chains = 1, .script = SNAPSHOT_NONE};
	row->sums.outstanding_bytes = outstanding_bytes;
	row->function = toptable_text(table, function, "");
	row->caller = caller ? toptable_text(table, caller, "") : SNAPSHOT_NONE;
	row->frame = table->snapshot.frame_count;
	table->snapshot.figures.sites++;
	table->snapshot.figures.sums.outstanding_bytes += outstanding_bytes;
	return row;
}

/* Adds a frame to the chain of the site that was added last. */
static inline void toptable_frame(struct toptable *table, const char *function, const char *place)
{
	ck_assert_uint_lt(table->snapshot.frame_count, TOPTABLE_FRAMES);
	table->frame[table->snapshot.frame_count++] = toptable_text(table, function, place);
	table->row[table->snapshot.row_count - 1].frame_count++;
}
