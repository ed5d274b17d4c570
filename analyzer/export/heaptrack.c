/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptrack's interpreted format, line by line: a letter and hexadecimal numbers. Strings (s), code
 * addresses (i) and stack nodes (t) are numbered from 1, kinds of allocations (a) from 0; a + or -
 * line is one object of a kind, which is a size and a stack. All names and kinds come first, then
 * the events.
 *
 * heaptrack_gui counts the objects of each kind in an array that grows by one: the first + line of
 * kind N must come right after the first + lines of 0 to N - 1, or it writes past the array.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/events.h"
#include "analyzer/export/names.h"
#include "format/array.h"

/* 1.4.0: the oldest release that is tested; its reader knows format 3. */
#define HEAPTRACK_VERSION "10400"
/* interval of time stamps, as in heaptrack's own files */
#define TIME_STEP_MS   10u
#define RSS_PAGE_BYTES 4096u
#define NO_STACK       1u

/* An allocation kind of heaptrack's format: the size and the stack. */
struct kind {
	uint64_t bytes;
	uint32_t stack;
};

struct exporter {
	FILE *out;
	struct export_job *job;
	struct model *model; /* of the view */
	/* entries that are already written, with their numbers in the output */
	struct map string; /* by address of the interned string */
	struct map ip;	   /* by place_key */
	struct map size;   /* numbers sizes from 0, for the keys of kinds */
	struct map number; /* of kinds, by size number and node */
	struct kind *kind; /* by number: in the order of their first allocations */
	size_t kind_count, kind_capacity;
	uint32_t *trace; /* by nodes_index; 0: not written */
	uint32_t *chain; /* scratch of number_trace: nodes up to the first that has a number */
	uint32_t string_count, ip_count, trace_count;

	uint64_t time_ms;      /* last time written */
	bool after_allocation; /* the previous event was an allocation */
	uint32_t last_kind;    /* kind of that allocation */
};

/* --- lines ---------------------------------------------------------------------------------------
 */

static void put_hex(FILE *out, uint64_t value)
{
	char digits[16];
	unsigned count = 0;
	putc_unlocked(' ', out);
	do
		digits[count++] = "0123456789abcdef"[value & 15];
	while (value >>= 4);
	while (count)
		putc_unlocked(digits[--count], out);
}

static void put_line(FILE *out, char type, uint64_t a)
{
	putc_unlocked(type, out);
	put_hex(out, a);
	putc_unlocked('\n', out);
}

static void put_line_2(FILE *out, char type, uint64_t a, uint64_t b)
{
	putc_unlocked(type, out);
	put_hex(out, a);
	put_hex(out, b);
	putc_unlocked('\n', out);
}

static void put_text(FILE *out, const char *text)
{
	char name[NAMES_BYTES];
	names_copy(name, text);
	fputs(name, out);
}

static void put_header(const struct exporter *exporter)
{
	const struct model *model = exporter->model;
	FILE *out = exporter->out;
	fputs("v " HEAPTRACK_VERSION " 3\nX ", out);
	put_text(out, model->exe && model->exe[0] ? model->exe : "unknown");
	putc('\n', out);
	char note[MODEL_NOTE_BYTES];
	for (unsigned i = 0; model_note(model, i, note); i++)
		fprintf(out, "# %s\n", note);
	put_line_2(out, 'I', RSS_PAGE_BYTES, model->capture.memory_total_bytes / RSS_PAGE_BYTES);
	/* Says that heaptrack was attached: earlier allocations are unknown. */
	fputs("A\n", out);
	/* String, address and node NO_STACK. */
	fputs("s a (no stack)\ni 0 0 1\nt 1 0\n", out);
}

/* --- numbering
 * ------------------------------------------------------------------------------------ */

/* The number of an interned text, whose line is written at its first use; 0 for NULL. */
static struct ht_err *number_string(struct exporter *exporter, const char *text, uint32_t *ret)
{
	*ret = 0;
	uint64_t key = (uintptr_t)text;
	if (!text || map_get(&exporter->string, key, ret))
		return NULL;
	*ret = ++exporter->string_count;
	char name[NAMES_BYTES];
	names_copy(name, text);
	putc('s', exporter->out);
	put_hex(exporter->out, strlen(name));
	fprintf(exporter->out, " %s\n", name);
	return map_put(&exporter->string, key, *ret);
}

struct numbered_frame {
	uint32_t function, file, line;
};

/* Strings come before the line that uses them. */
static struct ht_err *number_frames(struct exporter *exporter, const struct symbol_frame *frame,
	uint32_t count, struct numbered_frame *ret)
{
	for (uint32_t i = 0; i < count; i++) {
		ret[i].line = frame[i].line;
		HT_TRY(number_string(exporter, frame[i].function, &ret[i].function));
		HT_TRY(number_string(exporter, frame[i].file, &ret[i].file));
	}
	return NULL;
}

static struct ht_err *put_ip(struct exporter *exporter, uint64_t pc, struct place place)
{
	struct numbered_frame numbered[TRACE_INLINE_MAX];
	uint32_t count, module = 0;
	const struct symbol_frame *frame =
		symbols_find(&exporter->job->view->analysis->symbols, place, &count);
	HT_TRY(number_frames(exporter, frame, count, numbered));
	if (place.module != MODULES_NONE)
		HT_TRY(number_string(
			exporter, exporter->model->modules.module[place.module].path, &module));
	putc('i', exporter->out);
	put_hex(exporter->out, pc);
	put_hex(exporter->out, module);
	bool has_lines = count > 1 || (count == 1 && numbered[0].file);
	for (uint32_t i = 0; i < count; i++) {
		put_hex(exporter->out, numbered[i].function);
		if (!has_lines)
			break;
		put_hex(exporter->out, numbered[i].file);
		put_hex(exporter->out, numbered[i].line);
	}
	putc('\n', exporter->out);
	exporter->ip_count++;
	return NULL;
}

static struct ht_err *number_ip(struct exporter *exporter, const struct node *node, uint32_t *ret)
{
	struct place place;
	uint64_t key;
	HT_TRY(place_of_node(&exporter->model->modules, node, &place));
	bool has_key = place_key(place, &key);
	if (has_key && map_get(&exporter->ip, key, ret))
		return NULL;
	struct ht_err *err = put_ip(exporter, node_lookup_pc(node), place);
	*ret = exporter->ip_count;
	return err || !has_key ? err : map_put(&exporter->ip, key, *ret);
}

static uint32_t *trace_of(struct exporter *exporter, uint32_t id)
{
	return &exporter->trace[nodes_index(&exporter->model->nodes, id)];
}

/* Numbers the nodes from the root down to `leaf`. */
static struct ht_err *number_trace(struct exporter *exporter, uint32_t leaf, uint32_t *ret)
{
	const struct nodes *nodes = &exporter->model->nodes;
	size_t depth = 0;
	const struct node *node = nodes_get(nodes, leaf);
	for (uint32_t id = leaf; node && !*trace_of(exporter, id); node = nodes_get(nodes, id)) {
		exporter->chain[depth++] = id;
		id = node->parent;
	}
	while (depth > 0) {
		uint32_t id = exporter->chain[--depth], ip = 0;
		node = nodes_get(nodes, id);
		HT_TRY(number_ip(exporter, node, &ip));
		put_line_2(exporter->out, 't', ip, *trace_of(exporter, node->parent));
		*trace_of(exporter, id) = ++exporter->trace_count;
	}
	*ret = leaf ? *trace_of(exporter, leaf) : NO_STACK;
	return NULL;
}

/* The format has no weights: a sample is written as one object with all the bytes that it
 * represents. */
static uint64_t counted_bytes(const struct exporter *exporter, const struct live_block *block)
{
	return sample_share_of(block, exporter->model->capture.sample_bytes).bytes;
}

/* A key for the kind of `block`. */
static struct ht_err *find_key(
	struct exporter *exporter, const struct live_block *block, uint64_t *ret)
{
	uint32_t size;
	uint64_t bytes = counted_bytes(exporter, block);
	struct ht_err *err = NULL;
	if (!map_get(&exporter->size, bytes, &size)) {
		size = (uint32_t)exporter->size.count;
		err = map_put(&exporter->size, bytes, size);
	}
	*ret = (uint64_t)size << 32 | block->stack;
	return err;
}

/* The number of the kind of `block`, assigned by the first pass. */
static struct ht_err *find_kind(
	struct exporter *exporter, const struct live_block *block, uint32_t *ret)
{
	uint64_t key;
	struct ht_err *err = find_key(exporter, block, &key);
	if (err || map_get(&exporter->number, key, ret))
		return err;
	return ht_err_new(HT_ERR_FORMAT, "the trace changed while it was read");
}

static struct ht_err *put_kinds(struct exporter *exporter)
{
	uint32_t trace = 0;
	for (size_t i = 0; i < exporter->kind_count; i++) {
		const struct kind *kind = &exporter->kind[i];
		HT_TRY(number_trace(exporter, kind->stack, &trace));
		put_line_2(exporter->out, 'a', kind->bytes, trace);
	}
	/* A copy of kind 0 gets the last number: see put_free. */
	if (!exporter->kind_count)
		return NULL;
	HT_TRY(number_trace(exporter, exporter->kind[0].stack, &trace));
	put_line_2(exporter->out, 'a', exporter->kind[0].bytes, trace);
	return NULL;
}

/* --- events
 * ---------------------------------------------------------------------------------------- */

static void put_time(struct exporter *exporter, uint64_t time_ns)
{
	uint64_t time_ms = time_ns / 1000000;
	if (time_ms < exporter->time_ms + TIME_STEP_MS)
		return;
	exporter->time_ms = time_ms;
	put_line(exporter->out, 'c', time_ms);
}

static struct ht_err *allocated(
	void *context, const struct replay_call *call, struct live_block *block)
{
	struct exporter *exporter = context;
	struct export_heaptrack_stats *stats = &exporter->job->stats;
	uint32_t kind;
	put_time(exporter, call->time_ns);
	HT_TRY(find_kind(exporter, block, &kind));
	put_line(exporter->out, '+', kind);
	exporter->after_allocation = true;
	exporter->last_kind = kind;
	stats->calls++;
	stats->leaked_bytes += counted_bytes(exporter, block);
	if (stats->leaked_bytes > stats->peak_bytes)
		stats->peak_bytes = stats->leaked_bytes;
	return NULL;
}

/* After a free, the reader's "last allocated" kind is 0, and it counts a free of kind 0 as
 * temporary. So after a free, an object of kind 0 is freed as the copy of that kind, which has the
 * same size and stack. */
static void put_free(const struct exporter *exporter, uint32_t kind)
{
	bool is_mistaken = kind == 0 && !exporter->after_allocation;
	put_line(exporter->out, '-', is_mistaken ? exporter->kind_count : kind);
}

static struct ht_err *freed(void *context, const struct replay_call *call,
	const struct live_block *block, bool temporary)
{
	struct exporter *exporter = context;
	uint32_t kind;
	(void)temporary; /* the format's readers decide it by their own rule */
	put_time(exporter, call->time_ns);
	HT_TRY(find_kind(exporter, block, &kind));
	put_free(exporter, kind);
	exporter->job->stats.temporary += exporter->after_allocation && exporter->last_kind == kind;
	exporter->job->stats.leaked_bytes -= counted_bytes(exporter, block);
	exporter->after_allocation = false;
	return NULL;
}

static struct ht_err *memory(void *context, uint64_t time_ns, const struct memory *sample)
{
	struct exporter *exporter = context;
	(void)time_ns; /* the sample's time may be later than that of the next event, and times in
			  the file must not decrease */
	if (sample->is_known[MEMORY_RSS])
		put_line(exporter->out, 'R', sample->number[MEMORY_RSS] / RSS_PAGE_BYTES);
	return NULL;
}

/* --- two passes
 * -------------------------------------------------------------------------------------- */

static struct ht_err *note_kind(
	void *context, const struct replay_call *call, struct live_block *block)
{
	struct exporter *exporter = context;
	uint64_t key;
	uint32_t known;
	(void)call;
	struct ht_err *err = find_key(exporter, block, &key);
	if (err || map_get(&exporter->number, key, &known))
		return err;
	HT_TRY(ARRAY_RESERVE(exporter->kind, exporter->kind_capacity, exporter->kind_count + 1,
		"kinds of allocations"));
	exporter->kind[exporter->kind_count] =
		(struct kind){.bytes = counted_bytes(exporter, block), .stack = block->stack};
	return map_put(&exporter->number, key, (uint32_t)exporter->kind_count++);
}

static struct ht_err *read_kinds(struct exporter *exporter)
{
	const struct model_observer observer = {
		.replay = {.context = exporter, .allocated = note_kind},
	};
	const size_t nodes = nodes_total(&exporter->model->nodes);
	exporter->trace = calloc(nodes + 1, sizeof(*exporter->trace));
	exporter->chain = calloc(nodes + 1, sizeof(*exporter->chain));
	if (!exporter->trace || !exporter->chain)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stack nodes", nodes);
	return events_read(exporter->job, &observer);
}

static struct ht_err *write_events(struct exporter *exporter)
{
	const struct model_observer observer = {
		.replay = {.context = exporter, .allocated = allocated, .freed = freed},
		.memory = memory,
	};
	struct ht_err *err = events_read(exporter->job, &observer);
	uint64_t end_ms = events_end_ns(exporter->job->view) / 1000000;
	if (!err && end_ms > exporter->time_ms)
		put_line(exporter->out, 'c', end_ms);
	return err;
}

static void exporter_deinit(struct exporter *exporter)
{
	map_deinit(&exporter->string);
	map_deinit(&exporter->ip);
	map_deinit(&exporter->size);
	map_deinit(&exporter->number);
	free(exporter->kind);
	free(exporter->trace);
	free(exporter->chain);
}

struct ht_err *export_heaptrack(FILE *out, struct export_job *job)
{
	struct exporter exporter = {.out = out,
		.job = job,
		.model = &job->view->analysis->model,
		.string_count = 1,
		.ip_count = 1,
		.trace_count = 1};
	job->stats = (struct export_heaptrack_stats){
		.sample_bytes = exporter.model->capture.sample_bytes};
	struct ht_err *err = read_kinds(&exporter);
	if (!err) {
		put_header(&exporter);
		err = put_kinds(&exporter);
	}
	HT_THEN(err, write_events(&exporter));
	if (!err && job->stats.sample_bytes)
		snprintf(job->note, sizeof(job->note),
			"the trace is a sample: bytes are estimates, calls are samples, temporary "
			"means nothing");
	exporter_deinit(&exporter);
	return err;
}
