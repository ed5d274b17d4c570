/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "attach/unwind/cfa.h"
#include "format/array.h"

#define ROWS_FIRST    1024u /* initial room */
#define GAP_MERGE_MAX 15u   /* alignment between functions */
#define GAP_FRAME_MIN 1025u /* more than stubs and padding: code without CFI */

/* Distinct rules in a table; the most seen in a real module are 864. */
#define RULES_MAX      16384u
#define RULE_HASH_BITS 15

/* A row that no rule expresses: distinct from NONE rows until the table is packed. */
#define RULE_UNSUPPORTED (1u << 31)

/* A position in the text as an offset from compiler.lo, which TABLE_TEXT_MAX keeps small. */
struct row {
	uint32_t at;
	uint32_t rule;
};

struct rows {
	struct row *row;
	size_t count, capacity;
};

/* The rows of one FDE: raw.row[first .. first + count). */
struct span {
	uint32_t lo, hi;
	uint32_t first, count;
};

struct spans {
	struct span *span;
	size_t count, capacity;
};

struct compiler {
	uint64_t lo, hi; /* link-time addresses, multiples of ABI_GRANULE_BYTES */
	struct rows raw; /* in the order of the FDEs */
	struct spans spans;
	struct rows rows; /* ascending from 0, without a hole, neighbours different */
	uint32_t *rule;	  /* the dictionary; rule[0] stands for RULE_UNSUPPORTED */
	uint32_t rule_count;
	struct unwind_stats stats;
};

static struct ht_err *no_memory(void)
{
	return ht_err_new(HT_ERR_NOMEM, "no memory for an unwind table");
}

/* Adds a row unless the one before has the same rule. `first`: index of the first row that may be
 * extended. */
static struct ht_err *rows_extend(struct rows *rows, size_t first, uint32_t at, uint32_t rule)
{
	if (rows->count > first && rows->row[rows->count - 1].rule == rule)
		return NULL;
	if (!ARRAY_HAS_ROOM(rows->row, rows->count, rows->capacity, ROWS_FIRST))
		return no_memory();
	rows->row[rows->count++] = (struct row){.at = at, .rule = rule};
	return NULL;
}

static uint64_t clamp(uint64_t value, uint64_t lo, uint64_t hi)
{
	return value < lo ? lo : value > hi ? hi : value;
}

static struct ht_err *fde_add(struct compiler *compiler, const struct eh_section *section,
	const struct eh_fde *fde, const struct cfa_state *initial)
{
	struct spans *spans = &compiler->spans;
	struct cfa_run run;
	struct cfa_row row;
	struct span span = {
		.lo = (uint32_t)(clamp(fde->lo, compiler->lo, compiler->hi) - compiler->lo),
		.hi = (uint32_t)(clamp(fde->hi, compiler->lo, compiler->hi) - compiler->lo),
		.first = (uint32_t)compiler->raw.count,
	};
	if (span.lo == span.hi)
		return NULL;

	cfa_run_start(&run, section, fde, initial);
	while (cfa_run_next(&run, &row)) {
		uint64_t lo = clamp(row.lo, compiler->lo, compiler->hi);
		if (row.hi <= compiler->lo || row.lo >= compiler->hi)
			continue;
		HT_TRY(rows_extend(&compiler->raw, span.first, (uint32_t)(lo - compiler->lo),
			row.expressible ? row.rule : RULE_UNSUPPORTED));
	}
	compiler->stats.bad_fdes += run.malformed;
	span.count = (uint32_t)compiler->raw.count - span.first;
	if (!ARRAY_HAS_ROOM(spans->span, spans->count, spans->capacity, ROWS_FIRST))
		return no_memory();
	spans->span[spans->count++] = span;
	return NULL;
}

static struct ht_err *fdes_collect(struct compiler *compiler, const struct eh_section *section)
{
	struct eh_reader reader;
	struct eh_fde fde;
	struct cfa_state initial;
	bool initial_valid = false;
	uint64_t serial = 0;
	enum eh_result result;

	eh_reader_init(&reader, section);
	while ((result = eh_frame_next(&reader, &fde)) != EH_END) {
		if (result == EH_BAD) {
			compiler->stats.bad_fdes++;
			continue;
		}
		compiler->stats.fde_count++;
		if (fde.cie->serial != serial) {
			serial = fde.cie->serial;
			initial_valid = cfa_state_of_cie(section, fde.cie, &initial);
		}
		if (!initial_valid) {
			compiler->stats.bad_fdes++;
			continue;
		}
		HT_TRY(fde_add(compiler, section, &fde, &initial));
	}
	if (reader.terminated)
		compiler->stats.section_bytes = (uint64_t)(reader.rest.at - section->bytes.at);
	return NULL;
}

static int span_compare(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	return x->first < y->first ? -1 : 1;
}

static void spans_sort(struct spans *spans)
{
	for (size_t i = 1; i < spans->count; i++) {
		if (spans->span[i].lo < spans->span[i - 1].lo) {
			qsort(spans->span, spans->count, sizeof(*spans->span), span_compare);
			return;
		}
	}
}

/* Covers [lo, hi), which no FDE describes. */
static struct ht_err *gap_add(struct compiler *compiler, uint32_t lo, uint32_t hi)
{
	uint32_t bytes = hi - lo;
	struct rows *rows = &compiler->rows;
	if (bytes == 0 || (bytes <= GAP_MERGE_MAX && rows->count))
		return NULL;
	if (bytes < GAP_FRAME_MIN && compiler->spans.count)
		return rows_extend(rows, 0, lo, abi_rule_make(ABI_RULE_NONE, 0, 0));
	compiler->stats.gap_bytes += bytes;
	return rows_extend(rows, 0, lo, abi_rule_make(ABI_RULE_FRAME, 0, 0));
}

/* If FDEs overlap, the one that begins first covers the common bytes. */
static struct ht_err *spans_merge(struct compiler *compiler)
{
	uint32_t done = 0;
	for (size_t i = 0; i < compiler->spans.count; i++) {
		const struct span *span = &compiler->spans.span[i];
		if (span->hi <= done)
			continue;
		if (span->lo > done)
			HT_TRY(gap_add(compiler, done, span->lo));
		for (uint32_t j = 0; j < span->count; j++) {
			const struct row *row = &compiler->raw.row[span->first + j];
			uint32_t row_hi = j + 1 < span->count ? row[1].at : span->hi;
			if (row_hi > done)
				HT_TRY(rows_extend(&compiler->rows, 0,
					row->at > done ? row->at : done, row->rule));
		}
		done = span->hi;
	}
	return gap_add(compiler, done, (uint32_t)(compiler->hi - compiler->lo));
}

/* Index of `rule` in the dictionary; of RULE_UNSUPPORTED if the dictionary is full. `slot`:
 * 2^RULE_HASH_BITS words, zeroed, with index + 1. */
static uint32_t rule_intern(struct compiler *compiler, uint32_t *slot, uint32_t rule)
{
	uint32_t mask = (1u << RULE_HASH_BITS) - 1;
	uint32_t at = (rule * 0x9e3779b1u) >> (32 - RULE_HASH_BITS);
	while (slot[at]) {
		if (compiler->rule[slot[at] - 1] == rule)
			return slot[at] - 1;
		at = (at + 1) & mask;
	}
	if (compiler->rule_count == RULES_MAX)
		return 0;
	compiler->rule[compiler->rule_count] = rule;
	slot[at] = ++compiler->rule_count;
	return slot[at] - 1;
}

/* Replaces the rule of each row by its index in the dictionary. */
static struct ht_err *rules_intern(struct compiler *compiler)
{
	uint32_t *slot = calloc(1u << RULE_HASH_BITS, sizeof(*slot));
	compiler->rule = calloc(RULES_MAX, sizeof(*compiler->rule));
	if (!slot || !compiler->rule) {
		free(slot);
		return no_memory();
	}
	rule_intern(compiler, slot, RULE_UNSUPPORTED);
	for (size_t i = 0; i < compiler->rows.count; i++) {
		struct row *row = &compiler->rows.row[i];
		row->rule = rule_intern(compiler, slot, row->rule);
		compiler->stats.unsupported_rows += row->rule == 0;
	}
	compiler->stats.rows = compiler->rows.count;
	compiler->stats.rules = compiler->rule_count;
	compiler->rule[0] = abi_rule_make(ABI_RULE_NONE, 0, 0);
	free(slot);
	return NULL;
}

/* A header with every count and offset. `rows`: their number in the table. */
static struct abi_table layout_make(uint64_t lo, uint64_t hi, uint32_t rows, uint32_t rules)
{
	struct abi_table layout = {
		.magic = ABI_TABLE_MAGIC,
		.lo = lo,
		.hi = hi,
		.granule_count = (uint32_t)((hi - lo) / ABI_GRANULE_BYTES),
		.row_count = rows,
		.rule_count = rules,
		.granule_off = sizeof(layout),
	};
	layout.pc_off = layout.granule_off + (layout.granule_count + 1) * 4;
	layout.index_off = layout.pc_off + (rows + ABI_ROW_PAD) * 2;
	layout.rule_off = (uint32_t)ht_align_up(layout.index_off + rows * 2, 4);
	layout.bytes = (uint32_t)ht_align_up(layout.rule_off + layout.rule_count * 4, 8);
	return layout;
}

/* Each granule begins with a row of its own, which adds a row unless one begins there already. */
static uint32_t packed_row_count(const struct compiler *compiler)
{
	uint64_t count = (compiler->hi - compiler->lo) / ABI_GRANULE_BYTES;
	for (size_t i = 0; i < compiler->rows.count; i++)
		count += compiler->rows.row[i].at % ABI_GRANULE_BYTES != 0;
	return (uint32_t)count;
}

static void rows_pack(struct compiler *compiler, struct abi_table *table)
{
	uint8_t *base = (uint8_t *)table;
	uint32_t *granule = (uint32_t *)(base + table->granule_off);
	uint16_t *row_pc = (uint16_t *)(base + table->pc_off);
	uint16_t *row_rule = (uint16_t *)(base + table->index_off);
	const struct row *next = compiler->rows.row;
	const struct row *end = next + compiler->rows.count;
	uint32_t n = 0;

	for (uint32_t g = 0; g < table->granule_count; g++) {
		uint32_t lo = g * ABI_GRANULE_BYTES;
		if (next < end && next->at == lo)
			next++;
		granule[g] = n;
		row_pc[n] = 0;
		row_rule[n++] = (uint16_t)next[-1].rule;
		for (; next < end && next->at < lo + ABI_GRANULE_BYTES; next++) {
			row_pc[n] = (uint16_t)(next->at - lo);
			row_rule[n++] = (uint16_t)next->rule;
		}
	}
	granule[table->granule_count] = n;
	memset(row_pc + n, 0xff, ABI_ROW_PAD * sizeof(*row_pc));
	for (uint32_t i = 0; i < n; i++)
		table->unsupported_rows += row_rule[i] == 0;
	memcpy(base + table->rule_off, compiler->rule, table->rule_count * sizeof(uint32_t));
}

static struct ht_err *table_pack(struct compiler *compiler, struct abi_table **ret)
{
	struct abi_table layout = layout_make(
		compiler->lo, compiler->hi, packed_row_count(compiler), compiler->rule_count);
	struct abi_table *table = calloc(1, layout.bytes);
	if (!table)
		return no_memory();
	*table = layout;
	rows_pack(compiler, table);
	*ret = table;
	return NULL;
}

static void compiler_deinit(struct compiler *compiler)
{
	free(compiler->raw.row);
	free(compiler->spans.span);
	free(compiler->rows.row);
	free(compiler->rule);
}

struct ht_err *table_compile(
	const struct unwind_input *input, struct abi_table **ret, struct unwind_stats *ret_stats)
{
	if (input->text_lo > input->text_hi || input->text_hi - input->text_lo > TABLE_TEXT_MAX ||
		input->text_hi > UINT64_MAX - ABI_GRANULE_BYTES)
		return ht_err_new(HT_ERR_FORMAT,
			"executable segments span %#" PRIx64 " to %#" PRIx64
			", more than the %u MiB that an unwind table can cover",
			input->text_lo, input->text_hi, TABLE_TEXT_MAX >> 20);

	struct eh_section section = {.vaddr = input->eh_frame_vaddr};
	if (input->eh_frame_bytes)
		section.bytes = bytes_of(input->eh_frame, input->eh_frame_bytes < TABLE_EH_FRAME_MAX
								  ? input->eh_frame_bytes
								  : TABLE_EH_FRAME_MAX);
	struct compiler compiler = {
		.lo = ht_align_down(input->text_lo, ABI_GRANULE_BYTES),
		.hi = ht_align_up(input->text_hi, ABI_GRANULE_BYTES),
	};
	struct ht_err *err = fdes_collect(&compiler, &section);
	if (!err) {
		spans_sort(&compiler.spans);
		err = spans_merge(&compiler);
	}
	HT_THEN(err, rules_intern(&compiler));
	HT_THEN(err, table_pack(&compiler, ret));
	if (!err)
		*ret_stats = compiler.stats;
	compiler_deinit(&compiler);
	return err;
}

static bool layout_is_sound(const struct abi_table *table, size_t bytes)
{
	if (bytes < sizeof(*table) || table->lo % ABI_GRANULE_BYTES ||
		table->hi % ABI_GRANULE_BYTES || table->lo > table->hi ||
		table->hi - table->lo > TABLE_TEXT_MAX + ABI_GRANULE_BYTES ||
		table->row_count > bytes / 4 || table->rule_count > RULES_MAX)
		return false;
	struct abi_table layout =
		layout_make(table->lo, table->hi, table->row_count, table->rule_count);
	layout.unsupported_rows = table->unsupported_rows;
	return layout.bytes == bytes && !memcmp(&layout, table, sizeof(layout));
}

/* Do the rows of each granule begin at its first byte, ascend, and name existing rules? */
static bool rows_are_sound(const struct abi_table *table)
{
	const uint8_t *base = (const uint8_t *)table;
	const uint32_t *granule = (const uint32_t *)(base + table->granule_off);
	const uint16_t *row_pc = (const uint16_t *)(base + table->pc_off);
	const uint16_t *row_rule = (const uint16_t *)(base + table->index_off);
	uint32_t row = 0;

	for (uint32_t g = 0; g < table->granule_count; g++) {
		uint32_t end = granule[g + 1];
		if (granule[g] != row || end <= row || end > table->row_count || row_pc[row] != 0)
			return false;
		uint16_t last_pc = 0, last_rule = row_rule[row];
		while (++row < end) {
			if (row_pc[row] <= last_pc || row_pc[row] >= ABI_GRANULE_BYTES)
				return false;
			last_pc = row_pc[row];
			last_rule = last_rule > row_rule[row] ? last_rule : row_rule[row];
		}
		if (last_rule >= table->rule_count)
			return false;
	}
	return granule[table->granule_count] == row && row == table->row_count;
}

bool table_is_sound(const struct abi_table *table, size_t bytes)
{
	if (!layout_is_sound(table, bytes) || !rows_are_sound(table))
		return false;
	const uint8_t *base = (const uint8_t *)table;
	const uint32_t *rule = (const uint32_t *)(base + table->rule_off);
	const uint8_t *pad = base + table->pc_off + table->row_count * sizeof(uint16_t);
	for (uint32_t i = 0; i < table->rule_count; i++)
		if (rule[i] >> ABI_RULE_BITS)
			return false;
	for (size_t i = 0; i < ABI_ROW_PAD * sizeof(uint16_t); i++)
		if (pad[i] != 0xff)
			return false;
	return true;
}

/* Reads item `index` of the array at byte `offset` of a table; false: outside of it. */
static bool item_read(const struct abi_table *table, uint32_t offset, uint32_t index,
	size_t item_bytes, void *ret)
{
	uint64_t at = offset + (uint64_t)index * item_bytes;
	if (at + item_bytes > table->bytes)
		return false;
	memcpy(ret, (const uint8_t *)table + at, item_bytes);
	return true;
}

/* The row for `vaddr`; false: none. */
static bool row_find(const struct abi_table *table, uint64_t vaddr, uint32_t *ret)
{
	uint32_t row, end;
	uint16_t pc;

	if (vaddr < table->lo || vaddr >= table->hi)
		return false;
	uint64_t granule = (vaddr - table->lo) / ABI_GRANULE_BYTES;
	if (granule >= table->granule_count ||
		!item_read(table, table->granule_off, (uint32_t)granule, 4, &row) ||
		!item_read(table, table->granule_off, (uint32_t)granule + 1, 4, &end))
		return false;
	while (row + 1 < end && item_read(table, table->pc_off, row + 1, 2, &pc) &&
		pc <= vaddr % ABI_GRANULE_BYTES)
		row++;
	*ret = row;
	return true;
}

static uint32_t row_rule(const struct abi_table *table, uint32_t row)
{
	uint16_t index;
	uint32_t rule;

	if (!item_read(table, table->index_off, row, 2, &index) ||
		!item_read(table, table->rule_off, index, 4, &rule))
		return abi_rule_make(ABI_RULE_NONE, 0, 0);
	return rule;
}

uint32_t table_lookup(const struct abi_table *table, uint64_t vaddr)
{
	uint32_t row;
	return row_find(table, vaddr, &row) ? row_rule(table, row)
					    : abi_rule_make(ABI_RULE_NONE, 0, 0);
}

/* Index of `rule` in the dictionary; rule_count if it is missing. Skips the first, which marks
 * unsupported rows. */
static uint32_t rule_find(const struct abi_table *table, uint32_t rule)
{
	uint32_t found, i = 0;
	while (i < table->rule_count && item_read(table, table->rule_off, i, 4, &found) &&
		(i == 0 || found != rule))
		i++;
	return i;
}

/* Link-time address at which `row` begins. */
static uint64_t row_vaddr(const struct abi_table *table, uint32_t row)
{
	const uint8_t *base = (const uint8_t *)table;
	const uint32_t *granule = (const uint32_t *)(base + table->granule_off);
	uint32_t lo = 0, hi = table->granule_count;
	while (hi - lo > 1) {
		uint32_t middle = lo + (hi - lo) / 2;
		if (granule[middle] <= row)
			lo = middle;
		else
			hi = middle;
	}
	return table->lo + (uint64_t)lo * ABI_GRANULE_BYTES +
	       ((const uint16_t *)(base + table->pc_off))[row];
}

bool table_find_gap(const struct abi_table *table, uint64_t vaddr, uint64_t *ret)
{
	const uint16_t *index = (const uint16_t *)((const uint8_t *)table + table->index_off);
	const uint32_t none = rule_find(table, abi_rule_make(ABI_RULE_NONE, 0, 0));
	uint32_t row;

	if (none == table->rule_count ||
		!row_find(table, vaddr < table->lo ? table->lo : vaddr, &row))
		return false;
	for (; row < table->row_count; row++) {
		if (index[row] != none || (row && index[row - 1] == none))
			continue;
		*ret = row_vaddr(table, row);
		if (*ret >= vaddr)
			return true;
	}
	return false;
}

/* The rules are the last part of a table, so it grows at its end. */
static struct ht_err *rule_append(struct abi_table **table, uint32_t rule)
{
	const uint32_t count = (*table)->rule_count;
	struct abi_table layout =
		layout_make((*table)->lo, (*table)->hi, (*table)->row_count, count + 1);
	struct abi_table *grown = realloc(*table, layout.bytes);
	if (!grown)
		return no_memory();
	layout.unsupported_rows = grown->unsupported_rows;
	uint32_t *rules = (uint32_t *)((uint8_t *)grown + layout.rule_off);
	memset(rules + count, 0, layout.bytes - layout.rule_off - count * sizeof(*rules));
	rules[count] = rule;
	*grown = layout;
	*table = grown;
	return NULL;
}

struct ht_err *table_fill_at(struct abi_table **table, uint64_t vaddr, uint32_t rule)
{
	const uint32_t index = rule_find(*table, rule);
	uint32_t first;

	if (index >= RULES_MAX || !row_find(*table, vaddr, &first) ||
		abi_rule_kind(row_rule(*table, first)) != ABI_RULE_NONE)
		return NULL;
	if (index == (*table)->rule_count)
		HT_TRY(rule_append(table, rule));
	uint16_t *indices = (uint16_t *)((uint8_t *)*table + (*table)->index_off);
	/* Equal neighbours occur only at the beginning of a granule: the second continues the
	 * first. */
	const uint16_t before = indices[first];
	for (uint32_t row = first; row < (*table)->row_count && indices[row] == before; row++)
		indices[row] = (uint16_t)index;
	return NULL;
}
