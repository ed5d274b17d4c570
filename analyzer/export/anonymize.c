/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/anonymize.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "format/cull/culled.h"
#include "format/event_reencode.h"
#include "analyzer/export/pseudonym.h"
#include "format/array.h"
#include "analyzer/symbols/table.h"
#include "format/abi_control.h"
#include "format/memory.h"

#define UNKNOWN_USER   65534u
#define BUILD_ID_BYTES 20u
#define TSC_START      (1ull << 40) /* a multiple of ABI_TIME_UNIT */
#define MONO_START     1000000000000ull

/* In the copy, module I begins at (I + 1) * MODULE_BYTES, and code in no module lies from
 * MADE_START on. The code addresses of a module have the offsets PLACE_FIRST, PLACE_FIRST +
 * PLACE_STEP and so on, in the order of their first use. */
#define MODULE_BYTES (1ull << 28)
#define MADE_START   (1ull << 45)
#define PLACE_FIRST  0x1000u
#define PLACE_STEP   8u

_Static_assert(MODULES_MAX *MODULE_BYTES < MADE_START, "modules have room");
_Static_assert(PLACE_FIRST + PLACE_STEP * (uint64_t)NODES_MAX < MODULE_BYTES,
	"each node may have a place of its own");

/* The stream of one slot. */
struct stream {
	struct event_decoder decoder;
	uint64_t read_to, written_to; /* positions */
	bool has_begun;
};

struct anonymizer {
	struct model *model;
	bool keeps_system;
	struct pseudonyms names;
	uint64_t data_shift; /* added to addresses of blocks and mappings */
	struct map places, threads, lines, slots;
	uint32_t place_count[MODULES_MAX + 1]; /* by module; last: code in no module */
	struct stream *stream;
	size_t stream_count, stream_capacity;
	struct event_reencoder events;
	struct bytes_out nodes;
	struct rec out;
	/* texts of the record under construction */
	char text[2 * TRACE_INLINE_MAX][PSEUDONYM_BYTES];
	size_t texts;
	uint64_t build_id[3];
};

struct ht_err *anonymizer_create(struct model *model, bool keeps_system, struct anonymizer **ret)
{
	struct anonymizer *anonymizer = calloc(1, sizeof(*anonymizer));
	if (!anonymizer)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for pseudonyms");
	anonymizer->model = model;
	anonymizer->keeps_system = keeps_system;
	struct ht_err *err = pseudonyms_init(&anonymizer->names);
	if (err) {
		free(anonymizer);
		return err;
	}
	const struct rec_string word = {"data", 4};
	anonymizer->data_shift =
		pseudonym_hash(&anonymizer->names, word) % MADE_START & -(uint64_t)HT_PAGE_BYTES;
	*ret = anonymizer;
	return NULL;
}

void anonymizer_destroy(struct anonymizer *anonymizer)
{
	if (!anonymizer)
		return;
	map_deinit(&anonymizer->places);
	map_deinit(&anonymizer->threads);
	map_deinit(&anonymizer->lines);
	map_deinit(&anonymizer->slots);
	free(anonymizer->stream);
	event_reencoder_deinit(&anonymizer->events);
	bytes_out_deinit(&anonymizer->nodes);
	free(anonymizer);
}

/* --- numbers -----------------------------------------------------------------------------------
 */

/* Shifts a time to the new start; 0 and UINT64_MAX are not times and stay. */
static uint64_t since(uint64_t value, uint64_t start, uint64_t new_start)
{
	if (value == 0 || value == UINT64_MAX)
		return value;
	return value + new_start > start ? value + new_start - start : 1;
}

static uint64_t new_tsc(const struct anonymizer *anonymizer, uint64_t tsc)
{
	return since(tsc, abi_time_floor(anonymizer->model->capture.start_tsc), TSC_START);
}

static uint64_t new_mono(const struct anonymizer *anonymizer, uint64_t mono_ns)
{
	return since(mono_ns, anonymizer->model->capture.start_mono_ns, MONO_START);
}

static uint64_t new_data(const struct anonymizer *anonymizer, uint64_t addr)
{
	return addr ? addr + anonymizer->data_shift : 0;
}

/* The number of a key; new keys are numbered from 1. */
static struct ht_err *count_new(struct map *map, uint64_t key, uint64_t *ret)
{
	uint32_t number;
	struct ht_err *err = NULL;
	if (!map_get(map, key, &number)) {
		number = (uint32_t)map->count + 1;
		err = map_put(map, key, number);
	}
	*ret = number;
	return err;
}

static struct ht_err *new_thread(struct anonymizer *anonymizer, uint64_t tid, uint64_t *ret)
{
	return count_new(&anonymizer->threads, tid, ret);
}

/* The number that replaces an offset in a module, or an address in no module. `*ret_is_known` is
 * false if the place does not fit a key, or if NODES_MAX places of the module have numbers. */
static struct ht_err *new_place(
	struct anonymizer *anonymizer, struct place place, uint64_t *ret, bool *ret_is_known)
{
	const bool is_made = place.module == MODULES_NONE;
	uint32_t *count = &anonymizer->place_count[is_made ? MODULES_MAX : place.module];
	uint32_t number;
	uint64_t key;
	struct ht_err *err = NULL;
	*ret_is_known = place_key(place, &key);
	if (!*ret_is_known)
		return NULL;
	if (!map_get(&anonymizer->places, key, &number)) {
		*ret_is_known = *count < NODES_MAX;
		number = *count;
		*count += *ret_is_known;
		if (*ret_is_known)
			err = map_put(&anonymizer->places, key, number);
	}
	*ret = PLACE_FIRST + (uint64_t)number * PLACE_STEP + (is_made ? MADE_START : 0);
	return err;
}

static uint64_t module_start(uint32_t index)
{
	return (index + 1) * MODULE_BYTES;
}

/* --- texts -------------------------------------------------------------------------------------
 */

static char *next_text(struct anonymizer *anonymizer)
{
	return anonymizer->text[anonymizer->texts++ % HT_ARRAY_SIZE(anonymizer->text)];
}

static struct rec_string new_name(
	struct anonymizer *anonymizer, const char *prefix, struct rec_string text)
{
	return pseudonym_of(&anonymizer->names, prefix, text, next_text(anonymizer));
}

static struct rec_string new_path(struct anonymizer *anonymizer, struct rec_string path)
{
	const char *slash = path.length ? memrchr(path.data, '/', path.length) : NULL;
	if (anonymizer->keeps_system && pseudonym_is_system(path)) {
		const char *from = slash ? slash : path.data;
		return (struct rec_string){from, path.length - (size_t)(from - path.data)};
	}
	/* Mappings of the kernel have names in brackets, such as [vdso]. */
	return new_name(anonymizer, path.length && path.data[0] == '[' ? "[m" : "/m", path);
}

static bool begins(struct rec_string text, const char *prefix)
{
	return text.length >= strlen(prefix) && memcmp(text.data, prefix, strlen(prefix)) == 0;
}

static struct rec_string new_function(
	struct anonymizer *anonymizer, bool is_system, struct rec_string text)
{
	char *ret = next_text(anonymizer);
	if (anonymizer->keeps_system && (is_system || begins(text, "std::")))
		return pseudonym_bare(text, ret);
	return pseudonym_of_function(&anonymizer->names, text, ret);
}

/* --- records -----------------------------------------------------------------------------------
 */

static struct ht_err *put_target(struct anonymizer *anonymizer, const struct rec_target *target)
{
	struct rec_target *out = &anonymizer->out.target;
	*out = (struct rec_target){.uid = UNKNOWN_USER,
		.comm = new_name(anonymizer, "t", target->comm),
		.exe = new_path(anonymizer, target->exe),
		.kernel = {"anonymous", 9},
		.heaptap_version = target->heaptap_version};
	return new_thread(anonymizer, target->pid, &out->pid);
}

static void put_module(
	struct anonymizer *anonymizer, const struct rec_module *module, bool *ret_is_put)
{
	struct rec_module *out = &anonymizer->out.module;
	const uint32_t index = modules_by_id(&anonymizer->model->modules, module->id);
	uint64_t *id = anonymizer->build_id;
	*ret_is_put = index != MODULES_NONE;
	if (!*ret_is_put)
		return;
	id[0] = pseudonym_hash(&anonymizer->names, module->build_id);
	id[1] = pseudonym_hash(&anonymizer->names, (struct rec_string){(char *)id, 8});
	id[2] = pseudonym_hash(&anonymizer->names, (struct rec_string){(char *)id, 16});
	*out = (struct rec_module){.id = module->id,
		.epoch = module->epoch,
		.bias = module_start(index),
		.lo = module_start(index),
		.hi = module_start(index) + MODULE_BYTES,
		.path = new_path(anonymizer, module->path),
		.build_id = {(char *)id, module->build_id.length ? BUILD_ID_BYTES : 0},
		.flags = module->flags,
		.segment_count = 1,
		.segment = {{.memsz = MODULE_BYTES, .flags = PF_R | PF_X}}};
}

static struct ht_err *put_node(struct anonymizer *anonymizer, const struct rec_node *node)
{
	struct rec_node out = *node;
	const struct node known = {
		.pc = node->pc, .parent = node->parent, .epoch = node->epoch, .flags = node->flags};
	struct place place;
	uint64_t offset;
	bool is_known;
	struct ht_err *err = place_of_node(&anonymizer->model->modules, &known, &place);
	if (!err && !place.interpreted) {
		err = new_place(anonymizer, place, &offset, &is_known);
		out.pc = 0;
		if (!err && is_known)
			out.pc = offset + !(node->flags & ABI_NODE_EXACT) +
				 (place.module == MODULES_NONE ? 0 : module_start(place.module));
	}
	return err ? err : rec_node_append(&anonymizer->nodes, &out);
}

static struct ht_err *put_nodes(struct anonymizer *anonymizer, const struct rec_nodes *nodes)
{
	struct bytes body = nodes->body;
	struct ht_err *err = NULL;
	anonymizer->nodes.length = 0;
	for (uint64_t i = 0; i < nodes->count && !err; i++) {
		struct rec_node node;
		err = rec_node_next(&body, &node);
		HT_THEN(err, put_node(anonymizer, &node));
	}
	anonymizer->out.nodes = (struct rec_nodes){nodes->first_id, nodes->count,
		bytes_of(anonymizer->nodes.data, anonymizer->nodes.length)};
	return err;
}

static struct ht_err *put_symbol(
	struct anonymizer *anonymizer, const struct rec_symbol *symbol, bool *ret_is_put)
{
	struct rec_symbol *out = &anonymizer->out.symbol;
	const struct modules *modules = &anonymizer->model->modules;
	struct place place = {.module = MODULES_NONE, .offset = symbol->offset};
	bool is_system = false;
	struct ht_err *err = NULL;
	*out = *symbol;
	*ret_is_put = true;
	if (symbol->module_id && symbol->module_id != TRACE_MODULE_SCRIPTS) {
		place.module = modules_by_id(modules, symbol->module_id);
		*ret_is_put = place.module != MODULES_NONE;
	}
	if (*ret_is_put && symbol->module_id != TRACE_MODULE_SCRIPTS)
		err = new_place(anonymizer, place, &out->offset, ret_is_put);
	if (err || !*ret_is_put)
		return err;
	if (place.module != MODULES_NONE) {
		const char *path = modules->module[place.module].path;
		is_system = pseudonym_is_system((struct rec_string){path, strlen(path)});
	}
	for (uint64_t i = 0; i < symbol->frame_count && !err; i++) {
		const struct rec_frame *frame = &symbol->frame[i];
		out->frame[i].function = new_function(anonymizer, is_system, frame->function);
		out->frame[i].file = new_name(anonymizer, "s", frame->file);
		if (frame->line)
			err = count_new(&anonymizer->lines,
				pseudonym_hash(&anonymizer->names, frame->file) + frame->line,
				&out->frame[i].line);
	}
	return err;
}

static void put_heap(struct anonymizer *anonymizer, const struct rec_heap *heap)
{
	static const char *const known[] = {"glibc", "jemalloc", "tcmalloc", "mimalloc"};
	struct rec_heap *out = &anonymizer->out.heap;
	*out = *heap;
	out->begin_tsc = new_tsc(anonymizer, heap->begin_tsc);
	out->end_tsc = new_tsc(anonymizer, heap->end_tsc);
	for (uint64_t i = 0; i < heap->account_count; i++) {
		const struct rec_string name = heap->account[i].allocator;
		bool stays = false;
		for (size_t k = 0; k < HT_ARRAY_SIZE(known); k++)
			stays |= name.length == strlen(known[k]) && begins(name, known[k]);
		if (!stays)
			out->account[i].allocator = new_name(anonymizer, "a", name);
		out->account[i].reason = (struct rec_string){0};
	}
}

static void put_mapped(struct anonymizer *anonymizer, const struct rec_mapped *mapped)
{
	anonymizer->out.mapped = *mapped;
	for (uint64_t i = 0; i < mapped->range_count; i++)
		anonymizer->out.mapped.range[i].lo = new_data(anonymizer, mapped->range[i].lo);
}

static void put_memory(struct anonymizer *anonymizer, const struct rec_memory *memory)
{
	struct rec_memory *out = &anonymizer->out.memory;
	*out = (struct rec_memory){.mono_ns = new_mono(anonymizer, memory->mono_ns)};
	for (uint64_t i = 0; i < memory->value_count; i++)
		if (memory->value[i].kind != MEMORY_CGROUP &&
			memory->value[i].kind != MEMORY_CGROUP_LIMIT)
			out->value[out->value_count++] = memory->value[i];
}

/* --- events ------------------------------------------------------------------------------------
 */

static struct ht_err *find_stream(struct anonymizer *anonymizer, uint64_t slot, struct stream **ret)
{
	uint32_t index;
	if (!map_get(&anonymizer->slots, slot, &index)) {
		index = (uint32_t)anonymizer->stream_count;
		HT_TRY(ARRAY_RESERVE(anonymizer->stream, anonymizer->stream_capacity,
			anonymizer->stream_count + 1, "streams"));
		HT_TRY(map_put(&anonymizer->slots, slot, index));
		anonymizer->stream_count++;
	}
	*ret = &anonymizer->stream[index];
	return NULL;
}

static struct ht_err *put_event(
	struct anonymizer *anonymizer, struct stream *stream, struct event *event, uint64_t *tid)
{
	const uint32_t level = stream->decoder.level;
	uint64_t thread;
	struct ht_err *err = new_thread(anonymizer, event->tid, &thread);
	/* `tid` holds number and level: the same thread may follow at another nesting level. */
	if (!err && *tid != (thread | (uint64_t)level << 32))
		err = event_reencoder_thread(&anonymizer->events, (uint32_t)thread, level);
	*tid = thread | (uint64_t)level << 32;
	event->tid = (uint32_t)thread;
	event->tsc = new_tsc(anonymizer, event->tsc);
	if (event->kind != ABI_EVENT_REALLOC_FREED && event->kind != ABI_EVENT_REALLOC_FAIL)
		event->addr = new_data(anonymizer, event->addr);
	return err ? err : event_reencoder_put(&anonymizer->events, event, level);
}

static struct ht_err *put_events(
	struct anonymizer *anonymizer, const struct rec_events *events, bool *ret_is_put)
{
	struct bytes in = events->body;
	struct stream *stream;
	struct event event;
	uint64_t tid = UINT64_MAX;
	struct ht_err *err = find_stream(anonymizer, events->slot, &stream);
	if (err)
		return err;
	if (stream->has_begun && events->position != stream->read_to) {
		stream->decoder.in_step = false;
		stream->written_to += events->position - stream->read_to;
	}
	stream->has_begun = true;
	stream->read_to = events->position + bytes_left(&events->body);
	if (events->flags & REC_EVENTS_RESTART)
		event_decoder_restart(&stream->decoder);
	event_reencoder_begin(&anonymizer->events);
	enum event_result result = EVENT_NONE_LEFT;
	while (!err && (result = event_next(&stream->decoder, &in, &event)) == EVENT_OK)
		err = put_event(anonymizer, stream, &event, &tid);
	const struct bytes_out *out = &anonymizer->events.out;
	anonymizer->out.events = (struct rec_events){.slot = events->slot,
		.position = stream->written_to,
		.flags = REC_EVENTS_RESTART,
		.body = bytes_of(out->data, out->length)};
	*ret_is_put = out->length;
	/* The copy lacks the damaged bytes: skip one byte of positions, so that readers still see a
	 * gap. */
	stream->written_to += out->length + (result == EVENT_MALFORMED);
	return err;
}

/* Replaces threads and times in CULLED entries; the other numbers are counts, sizes, nodes and
 * functions, and stay. */
static struct ht_err *put_culled(struct anonymizer *anonymizer, const struct rec_culled *culled)
{
	struct bytes body = culled->body;
	struct bytes_out *to = &anonymizer->nodes;
	struct culled_entry entry;
	struct ht_err *err = NULL;
	to->length = 0;
	while (!err && culled_next(&body, &entry)) {
		uint64_t *number = entry.number;
		/* A kind of entry from a later version may hold a name: leave it out. */
		if (entry.kind > CULLED_LIVES)
			continue;
		if (entry.kind == CULLED_THREAD) {
			err = new_thread(
				anonymizer, number[CULLED_THREAD_TID], &number[CULLED_THREAD_TID]);
			number[CULLED_THREAD_TSC] = new_tsc(anonymizer, number[CULLED_THREAD_TSC]);
		}
		HT_THEN(err, culled_put(to, &entry));
	}
	anonymizer->out.culled = *culled;
	anonymizer->out.culled.end_tsc = new_tsc(anonymizer, culled->end_tsc);
	anonymizer->out.culled.body = bytes_of(to->data, to->length);
	return err;
}

/* --- one after the other -----------------------------------------------------------------------
 */

/* How the copy treats a field of a record. */
enum fate {
	LAST, /* ends a list of fields */
	KEPT,
	ZERO,
	TSC,  /* a time stamp: shifted, see new_tsc */
	MONO, /* a time in ns: shifted, see new_mono */
	THREAD,
	NAME, /* becomes a pseudonym */
};

struct field {
	enum fate fate;
	size_t offset; /* in struct rec */
	const char *prefix;
};

#define FIELD(fate, member)                                                                        \
	{                                                                                          \
		fate, offsetof(struct rec, member), NULL                                           \
	}
#define NAMED(prefix, member)                                                                      \
	{                                                                                          \
		NAME, offsetof(struct rec, member), prefix                                         \
	}

/* Each row lists all fields of its record. */
static const struct field fields[][10] = {
	[REC_CAPTURE] = {FIELD(ZERO, capture.start_unix_ns), FIELD(MONO, capture.start_mono_ns),
		FIELD(TSC, capture.start_tsc), FIELD(KEPT, capture.slots_tapped),
		FIELD(KEPT, capture.modules), FIELD(ZERO, capture.memory_total_bytes),
		FIELD(KEPT, capture.sample_bytes), FIELD(KEPT, capture.flags),
		FIELD(KEPT, capture.cull_ns)},
	[REC_MODULE_GONE] = {FIELD(KEPT, module_gone.id), FIELD(KEPT, module_gone.epoch)},
	[REC_THREAD] = {NAMED("t", thread.name), FIELD(TSC, thread.since_tsc),
		FIELD(THREAD, thread.tid)},
	[REC_SYNC] = {FIELD(TSC, sync.tsc), FIELD(MONO, sync.mono_ns),
		FIELD(TSC, sync.complete_tsc)},
	[REC_RSS] = {FIELD(MONO, rss.mono_ns), FIELD(KEPT, rss.rss_bytes)},
	[REC_LOSS] = {FIELD(KEPT, loss.counter), FIELD(KEPT, loss.total)},
	[REC_MARK] = {FIELD(MONO, mark.mono_ns), NAMED("k", mark.text)},
	[REC_END] = {FIELD(KEPT, end.reason), FIELD(MONO, end.mono_ns), FIELD(TSC, end.tsc)},
	[REC_SCRIPTS] = {FIELD(KEPT, scripts.generation), FIELD(TSC, scripts.until_tsc)},
	[REC_NAMES] = {FIELD(KEPT, names.module_id), FIELD(KEPT, names.state),
		NAMED("/d", names.detail)},
	[REC_LEFT] = {FIELD(KEPT, left.result), FIELD(KEPT, left.checks), NAMED("/d", left.why)},
	[REC_PAUSE] = {FIELD(MONO, pause.mono_ns), FIELD(KEPT, pause.paused)},
	[REC_SETTLE] = {FIELD(TSC, settle.tsc), FIELD(MONO, settle.mono_ns),
		FIELD(KEPT, settle.wanted_ns)},
};

static struct ht_err *put_fields(
	struct anonymizer *anonymizer, const struct field *field, const struct rec *rec)
{
	struct ht_err *err = NULL;
	for (; field->fate != LAST && !err; field++) {
		const void *from = (const char *)rec + field->offset;
		void *to = (char *)&anonymizer->out + field->offset;
		const uint64_t *number = from;
		if (field->fate == NAME)
			*(struct rec_string *)to = new_name(
				anonymizer, field->prefix, *(const struct rec_string *)from);
		else if (field->fate == THREAD)
			err = new_thread(anonymizer, *number, to);
		else
			*(uint64_t *)to = field->fate == KEPT	? *number
					  : field->fate == TSC	? new_tsc(anonymizer, *number)
					  : field->fate == MONO ? new_mono(anonymizer, *number)
								: 0;
	}
	return err;
}

static struct ht_err *change(struct anonymizer *anonymizer, const struct rec *rec, bool *ret_is_put)
{
	*ret_is_put = true;
	anonymizer->texts = 0;
	anonymizer->out.kind = rec->kind;
	switch (rec->kind) {
	case REC_TARGET:
		return put_target(anonymizer, &rec->target);
	case REC_CAPTURE:
	case REC_MODULE_GONE:
	case REC_THREAD:
	case REC_SYNC:
	case REC_RSS:
	case REC_LOSS:
	case REC_MARK:
	case REC_END:
	case REC_SCRIPTS:
	case REC_NAMES:
	case REC_LEFT:
	case REC_PAUSE:
	case REC_SETTLE:
		return put_fields(anonymizer, fields[rec->kind], rec);
	case REC_MODULE:
		put_module(anonymizer, &rec->module, ret_is_put);
		return NULL;
	case REC_NODES:
		return put_nodes(anonymizer, &rec->nodes);
	case REC_EVENTS:
		return put_events(anonymizer, &rec->events, ret_is_put);
	case REC_SYMBOL:
		return put_symbol(anonymizer, &rec->symbol, ret_is_put);
	case REC_HEAP:
		put_heap(anonymizer, &rec->heap);
		return NULL;
	case REC_MAPPED:
		put_mapped(anonymizer, &rec->mapped);
		return NULL;
	case REC_MEMORY:
		put_memory(anonymizer, &rec->memory);
		return NULL;
	case REC_CULLED:
		return put_culled(anonymizer, &rec->culled);
	case REC_COLUMNS: /* the reader returns them as EVENTS */
		break;
	}
	/* A record from a later version may hold a name: leave it out. */
	*ret_is_put = false;
	return NULL;
}

struct ht_err *anonymizer_put(
	struct anonymizer *anonymizer, const struct rec *rec, struct trace_writer *writer)
{
	bool is_put;
	struct ht_err *err = change(anonymizer, rec, &is_put);
	return err || !is_put ? err : trace_writer_put(writer, &anonymizer->out);
}
