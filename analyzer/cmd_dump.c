/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze dump: every record and every event of a trace, one line each, in the order of the
 * file. For inspection of traces and for tests.
 */
#include "analyzer/cmd.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cube/cube.h"
#include "format/array.h"
#include "format/cull/culled.h"
#include "format/map.h"
#include "analyzer/ui/text.h"
#include "format/event.h"
#include "format/memory.h"
#include "format/reader.h"

struct dump {
	struct text text;
	struct map decoder_of_slot;
	struct event_decoder *decoder;
	size_t count, capacity;
	bool is_checked; /* cmd_check_ending has read the trace, and warned if needed */
};

/* --- events ------------------------------------------------------------------------------------
 */

static void print_mapping(FILE *out, uint64_t slot, const struct event *event)
{
	static const char *const call[] = {
		[ABI_CALL_MAP] = "map",
		[ABI_CALL_UNMAP] = "unmap",
		[ABI_CALL_MOVE_FROM] = "move-from",
		[ABI_CALL_MOVE_TO] = "move-to",
		[ABI_CALL_ADVISE] = "advise",
		[ABI_CALL_PROTECT] = "protect",
	};
	fprintf(out,
		"mapping slot=%" PRIu64 " tid=%" PRIu32 " tsc=%" PRIu64 " %s addr=0x%" PRIx64
		" size=%" PRIu64 " stack=%" PRIu32 " protect=%u flags=0x%" PRIx32 "\n",
		slot, event->tid, event->tsc,
		event->hook < HT_ARRAY_SIZE(call) ? call[event->hook] : "unknown", event->addr,
		event->size, event->stack, event->protect, event->flags);
}

static void print_event(FILE *out, uint64_t slot, const struct event *event)
{
	static const char *const kind[] = {
		[ABI_EVENT_ALLOC] = "alloc",
		[ABI_EVENT_FREE] = "free",
		[ABI_EVENT_REALLOC_BEGIN] = "realloc-begin",
		[ABI_EVENT_REALLOC_END] = "realloc-end",
		[ABI_EVENT_REALLOC_FREED] = "realloc-freed",
		[ABI_EVENT_REALLOC_FAIL] = "realloc-fail",
	};
	if (event->kind == ABI_EVENT_MAPPING) {
		print_mapping(out, slot, event);
		return;
	}
	fprintf(out, "event slot=%" PRIu64 " tid=%" PRIu32 " tsc=%" PRIu64 " %s", slot, event->tid,
		event->tsc, kind[event->kind]);
	if (event->kind != ABI_EVENT_REALLOC_FREED && event->kind != ABI_EVENT_REALLOC_FAIL)
		fprintf(out, " %s addr=0x%" PRIx64 " size=%" PRIu64 " stack=%" PRIu32,
			cube_function_name(event->hook), event->addr, event->size, event->stack);
	fputc('\n', out);
}

static struct ht_err *find_decoder(struct dump *dump, uint64_t slot, struct event_decoder **ret)
{
	uint32_t index;
	if (!map_get(&dump->decoder_of_slot, slot, &index)) {
		HT_TRY(ARRAY_RESERVE(
			dump->decoder, dump->capacity, dump->count + 1, "event streams"));
		HT_TRY(map_put(&dump->decoder_of_slot, slot, (uint32_t)dump->count));
		index = (uint32_t)dump->count++;
	}
	*ret = &dump->decoder[index];
	return NULL;
}

static struct ht_err *print_events(struct dump *dump, const struct rec_events *rec)
{
	FILE *out = dump->text.out;
	struct event_decoder *decoder;
	HT_TRY(find_decoder(dump, rec->slot, &decoder));
	fprintf(out, "events slot=%" PRIu64 " position=%" PRIu64 " bytes=%zu%s\n", rec->slot,
		rec->position, bytes_left(&rec->body),
		rec->flags & REC_EVENTS_RESTART ? " restart" : "");
	if (rec->flags & REC_EVENTS_RESTART)
		event_decoder_restart(decoder);
	struct bytes in = rec->body;
	struct event event;
	enum event_result result;
	while ((result = event_next(decoder, &in, &event)) == EVENT_OK)
		print_event(out, rec->slot, &event);
	if (result == EVENT_MALFORMED)
		fputs("malformed: the rest of this piece\n", out);
	return NULL;
}

/* --- other records -------------------------------------------------------------------------------
 */

static void put_string(const struct text *text, const char *label, struct rec_string string)
{
	char copy[TRACE_STRING_MAX + 1];
	size_t length = string.length < TRACE_STRING_MAX ? string.length : TRACE_STRING_MAX;
	memcpy(copy, string.data, length);
	copy[length] = 0;
	fprintf(text->out, " %s=\"", label);
	text_foreign(text, copy, sizeof(copy));
	fputc('"', text->out);
}

static void print_module(const struct text *text, const struct rec_module *module)
{
	fprintf(text->out,
		"module id=%" PRIu64 " epoch=%" PRIu64 " bias=0x%" PRIx64 " lo=0x%" PRIx64
		" hi=0x%" PRIx64 " flags=%" PRIu64 " segments=%" PRIu64 " build-id=",
		module->id, module->epoch, module->bias, module->lo, module->hi, module->flags,
		module->segment_count);
	for (size_t i = 0; i < module->build_id.length; i++)
		fprintf(text->out, "%02x", (uint8_t)module->build_id.data[i]);
	put_string(text, "path", module->path);
	fputc('\n', text->out);
}

static struct ht_err *print_nodes(FILE *out, const struct rec_nodes *rec)
{
	struct bytes body = rec->body;
	for (uint64_t i = 0; i < rec->count; i++) {
		struct rec_node node;
		HT_TRY(rec_node_next(&body, &node));
		fprintf(out,
			"node id=%" PRIu64 " parent=%" PRIu32 " epoch=%u pc=0x%" PRIx64
			" flags=%u\n",
			rec->first_id + i, node.parent, node.epoch, node.pc, node.flags);
	}
	return NULL;
}

static void print_symbol(const struct text *text, const struct rec_symbol *symbol)
{
	for (uint64_t i = 0; i < symbol->frame_count; i++) {
		fprintf(text->out, "symbol module=%" PRIu64 " offset=0x%" PRIx64 " frame=%" PRIu64,
			symbol->module_id, symbol->offset, i);
		put_string(text, "function", symbol->frame[i].function);
		put_string(text, "file", symbol->frame[i].file);
		fprintf(text->out, " line=%" PRIu64 "\n", symbol->frame[i].line);
	}
}

/* A record, or an item of one, that is shown in one line: its numbers, then its texts. */
struct line {
	const char *word;
	struct part {
		const char *label;
		size_t offset; /* in the record */
	} number[9], text[5];  /* up to the first without a label */
};

#define IN_REC(label, member)                                                                      \
	{                                                                                          \
		label, offsetof(struct rec, member)                                                \
	}
#define IN_ACCOUNT(label, member)                                                                  \
	{                                                                                          \
		label, offsetof(struct rec_account, member)                                        \
	}

static const struct line lines[] = {
	[REC_TARGET] = {"target",
		{IN_REC("pid=", target.pid), IN_REC("uid=", target.uid),
			IN_REC("start=", target.start_ticks)},
		{IN_REC("comm", target.comm), IN_REC("exe", target.exe),
			IN_REC("kernel", target.kernel),
			IN_REC("heaptap", target.heaptap_version)}},
	[REC_CAPTURE] = {"capture",
		{IN_REC("sample_bytes=", capture.sample_bytes),
			IN_REC("unix_ns=", capture.start_unix_ns),
			IN_REC("mono_ns=", capture.start_mono_ns),
			IN_REC("tsc=", capture.start_tsc), IN_REC("slots=", capture.slots_tapped),
			IN_REC("modules=", capture.modules), IN_REC("flags=", capture.flags),
			IN_REC("cull_ns=", capture.cull_ns)}},
	[REC_MODULE_GONE] = {"module-gone",
		{IN_REC("id=", module_gone.id), IN_REC("epoch=", module_gone.epoch)}},
	[REC_THREAD] = {"thread", {IN_REC("", thread.tid), IN_REC("since_tsc=", thread.since_tsc)},
		{IN_REC("text", thread.name)}},
	[REC_SYNC] = {"sync", {IN_REC("tsc=", sync.tsc), IN_REC("mono_ns=", sync.mono_ns),
				      IN_REC("complete_tsc=", sync.complete_tsc)}},
	[REC_RSS] = {"rss", {IN_REC("mono_ns=", rss.mono_ns), IN_REC("bytes=", rss.rss_bytes)}},
	[REC_LOSS] = {"loss", {IN_REC("counter=", loss.counter), IN_REC("total=", loss.total)}},
	[REC_MARK] = {"mark", {IN_REC("", mark.mono_ns)}, {IN_REC("text", mark.text)}},
	[REC_END] = {"end", {IN_REC("reason=", end.reason), IN_REC("mono_ns=", end.mono_ns),
				    IN_REC("tsc=", end.tsc)}},
	[REC_HEAP] = {"heap",
		{IN_REC("begin_tsc=", heap.begin_tsc), IN_REC("end_tsc=", heap.end_tsc)}},
	[REC_SCRIPTS] = {"scripts", {IN_REC("generation=", scripts.generation),
					    IN_REC("until_tsc=", scripts.until_tsc)}},
	[REC_NAMES] = {"names", {IN_REC("module=", names.module_id), IN_REC("state=", names.state)},
		{IN_REC("detail", names.detail)}},
	[REC_LEFT] = {"left", {IN_REC("result=", left.result), IN_REC("checks=", left.checks)},
		{IN_REC("why", left.why)}},
	[REC_PAUSE] = {"pause",
		{IN_REC("mono_ns=", pause.mono_ns), IN_REC("paused=", pause.paused)}},
	[REC_SETTLE] = {"settle", {IN_REC("tsc=", settle.tsc), IN_REC("mono_ns=", settle.mono_ns),
					  IN_REC("wanted_ns=", settle.wanted_ns)}},
};

static const struct line account_line = {"account",
	{IN_ACCOUNT("flags=", flags), IN_ACCOUNT("held=", held_bytes),
		IN_ACCOUNT("off=", off_bytes), IN_ACCOUNT("system=", system_bytes),
		IN_ACCOUNT("arenas=", arenas), IN_ACCOUNT("header=", header_bytes)},
	{IN_ACCOUNT("allocator", allocator), IN_ACCOUNT("reason", reason)}};

static void print_line(const struct text *text, const struct line *line, const void *record)
{
	const char *base = record;
	fputs(line->word, text->out);
	for (const struct part *part = line->number; part->label; part++)
		fprintf(text->out, " %s%" PRIu64, part->label,
			*(const uint64_t *)(const void *)(base + part->offset));
	for (const struct part *part = line->text; part->label; part++)
		put_string(text, part->label,
			*(const struct rec_string *)(const void *)(base + part->offset));
	fputc('\n', text->out);
}

static void print_memory(FILE *out, const struct rec_memory *memory)
{
	fprintf(out, "memory mono_ns=%" PRIu64, memory->mono_ns);
	for (uint64_t i = 0; i < memory->value_count; i++) {
		const struct rec_value *value = &memory->value[i];
		const char *name = memory_kind_name(value->kind);
		if (name)
			fprintf(out, " %s=%" PRIu64, name, value->number);
		else
			fprintf(out, " kind_%" PRIu64 "=%" PRIu64, value->kind, value->number);
	}
	fputc('\n', out);
}

static void print_culled(FILE *out, const struct rec_culled *rec)
{
	static const char *const name[] = {[CULLED_THREAD] = "thread",
		[CULLED_BLOCKS] = "blocks",
		[CULLED_PEAK] = "peak",
		[CULLED_FREES] = "frees",
		[CULLED_LIVES] = "lives"};
	struct bytes body = rec->body;
	struct culled_entry entry;
	fprintf(out,
		"culled interval=%" PRIu64 " end_tsc=%" PRIu64 " events=%" PRIu64
		" live_max=%" PRIu64,
		rec->interval, rec->end_tsc, rec->events, rec->live_max_bytes);
	if (rec->has_peak)
		fprintf(out, " peak_ns=%" PRIu64 " peak_bytes=%" PRIu64 " peak_blocks=%" PRIu64,
			rec->peak_ns, rec->peak_bytes, rec->peak_blocks);
	fputc('\n', out);
	while (culled_next(&body, &entry)) {
		const bool is_known = entry.kind < HT_ARRAY_SIZE(name) && name[entry.kind];
		fprintf(out, "  culled-%s", is_known ? name[entry.kind] : "unknown");
		for (unsigned i = 0; i < entry.count; i++)
			fprintf(out, " %" PRIu64, entry.number[i]);
		fputc('\n', out);
	}
}

static struct ht_err *print_record(struct dump *dump, const struct rec *rec)
{
	const struct text *text = &dump->text;
	FILE *out = text->out;
	switch (rec->kind) {
	case REC_TARGET:
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
		print_line(text, &lines[rec->kind], rec);
		return NULL;
	case REC_MODULE:
		print_module(text, &rec->module);
		return NULL;
	case REC_NODES:
		return print_nodes(out, &rec->nodes);
	case REC_EVENTS:
		return print_events(dump, &rec->events);
	case REC_SYMBOL:
		print_symbol(text, &rec->symbol);
		return NULL;
	case REC_HEAP:
		print_line(text, &lines[REC_HEAP], rec);
		for (uint64_t i = 0; i < rec->heap.account_count; i++)
			print_line(text, &account_line, &rec->heap.account[i]);
		return NULL;
	case REC_MAPPED:
		for (uint64_t i = 0; i < rec->mapped.range_count; i++)
			fprintf(out,
				"mapped lo=0x%" PRIx64 " bytes=%" PRIu64 " flags=%" PRIu64 "\n",
				rec->mapped.range[i].lo, rec->mapped.range[i].bytes,
				rec->mapped.range[i].flags);
		return NULL;
	case REC_MEMORY:
		print_memory(out, &rec->memory);
		return NULL;
	case REC_CULLED:
		print_culled(out, &rec->culled);
		return NULL;
	case REC_COLUMNS: /* the reader returns them as EVENTS */
		return NULL;
	}
	fprintf(out, "record kind=%u bytes=%zu\n", (unsigned)rec->kind, rec->raw.length);
	return NULL;
}

static struct ht_err *print_ending(const struct dump *dump, const struct trace_reader *reader,
	enum trace_end how_ended, bool has_end)
{
	const char *problem = trace_reader_problem(reader);
	fprintf(dump->text.out, "%s\n", problem ? problem : "complete");
	/* For a file, cmd_check_ending has warned already. */
	return dump->is_checked ? NULL : cmd_warn_reader(reader, how_ended, has_end);
}

static struct ht_err *print_all(struct dump *dump, struct trace_reader *reader)
{
	bool has_end = false;
	for (;;) {
		struct rec rec;
		enum trace_end how_ended;
		struct ht_err *err = trace_reader_next(reader, &rec, &how_ended);
		if (!err && how_ended != TRACE_MORE)
			return print_ending(dump, reader, how_ended, has_end);
		has_end |= !err && rec.kind == REC_END;
		HT_THEN(err, print_record(dump, &rec));
		if (err)
			return err;
	}
}

struct ht_err *cmd_dump(const struct option_values *values)
{
	const char *path = values->operand[0];
	int fd;
	HT_TRY(cmd_open_trace(path, &fd));
	struct dump dump = {.text = text_to(stdout)};
	struct trace_reader *reader = NULL;
	uint64_t bytes;
	struct ht_err *err = cmd_check_ending(fd, path, &bytes);
	dump.is_checked = bytes != 0;
	HT_THEN(err, trace_reader_create(fd, path, &reader));
	if (!err && dump.is_checked)
		trace_reader_limit(reader, bytes);
	HT_THEN(err, print_all(&dump, reader));
	trace_reader_destroy(reader);
	close(fd);
	free(dump.decoder);
	map_deinit(&dump.decoder_of_slot);
	return err;
}
