/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze dump: every record and every event of a trace, one line each, as they stand in
 * the file. For looking into traces and for tests.
 */
#include "analyzer/cmd.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cube/cube.h"
#include "analyzer/model/array.h"
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
	bool is_checked; /* the caller has warned of the way the trace ends */
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
		HT_TRY(array_reserve(&dump->decoder, &dump->capacity, dump->count + 1,
			sizeof(*dump->decoder), "event streams"));
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
		rec->position, rec->body.length, rec->flags & REC_EVENTS_RESTART ? " restart" : "");
	if (rec->flags & REC_EVENTS_RESTART)
		event_decoder_restart(decoder);
	struct bytes in = bytes_of(rec->body.data, rec->body.length);
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

static void print_target(const struct text *text, const struct rec_target *target)
{
	fprintf(text->out, "target pid=%" PRIu64 " uid=%" PRIu64 " start=%" PRIu64, target->pid,
		target->uid, target->start_ticks);
	put_string(text, "comm", target->comm);
	put_string(text, "exe", target->exe);
	put_string(text, "kernel", target->kernel);
	put_string(text, "heaptap", target->heaptap_version);
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

static void print_heap(const struct text *text, const struct rec_heap *heap)
{
	FILE *out = text->out;
	fprintf(out, "heap begin_tsc=%" PRIu64 " end_tsc=%" PRIu64 "\n", heap->begin_tsc,
		heap->end_tsc);
	for (uint64_t i = 0; i < heap->account_count; i++) {
		const struct rec_account *account = &heap->account[i];
		fprintf(out,
			"account flags=%" PRIu64 " held=%" PRIu64 " off=%" PRIu64 " system=%" PRIu64
			" arenas=%" PRIu64 " header=%" PRIu64,
			account->flags, account->held_bytes, account->off_bytes,
			account->system_bytes, account->arenas, account->header_bytes);
		put_string(text, "allocator", account->allocator);
		put_string(text, "reason", account->reason);
		fputc('\n', out);
	}
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

static void print_named(
	const struct text *text, const char *kind, uint64_t number, struct rec_string string)
{
	fprintf(text->out, "%s %" PRIu64, kind, number);
	put_string(text, "text", string);
	fputc('\n', text->out);
}

static struct ht_err *print_record(struct dump *dump, const struct rec *rec)
{
	const struct text *text = &dump->text;
	FILE *out = text->out;
	switch (rec->kind) {
	case REC_TARGET:
		print_target(text, &rec->target);
		return NULL;
	case REC_CAPTURE:
		fprintf(out,
			"capture sample_bytes=%" PRIu64 " unix_ns=%" PRIu64 " mono_ns=%" PRIu64
			" tsc=%" PRIu64 " slots=%" PRIu64 " modules=%" PRIu64 " flags=%" PRIu64
			" cull_ns=%" PRIu64 "\n",
			rec->capture.sample_bytes, rec->capture.start_unix_ns,
			rec->capture.start_mono_ns, rec->capture.start_tsc,
			rec->capture.slots_tapped, rec->capture.modules, rec->capture.flags,
			rec->capture.cull_ns);
		return NULL;
	case REC_MODULE:
		print_module(text, &rec->module);
		return NULL;
	case REC_MODULE_GONE:
		fprintf(out, "module-gone id=%" PRIu64 " epoch=%" PRIu64 "\n", rec->module_gone.id,
			rec->module_gone.epoch);
		return NULL;
	case REC_THREAD:
		fprintf(out, "thread %" PRIu64 " since_tsc=%" PRIu64, rec->thread.tid,
			rec->thread.since_tsc);
		put_string(text, "text", rec->thread.name);
		fputc('\n', out);
		return NULL;
	case REC_NODES:
		return print_nodes(out, &rec->nodes);
	case REC_EVENTS:
		return print_events(dump, &rec->events);
	case REC_SYNC:
		fprintf(out, "sync tsc=%" PRIu64 " mono_ns=%" PRIu64 " complete_tsc=%" PRIu64 "\n",
			rec->sync.tsc, rec->sync.mono_ns, rec->sync.complete_tsc);
		return NULL;
	case REC_RSS:
		fprintf(out, "rss mono_ns=%" PRIu64 " bytes=%" PRIu64 "\n", rec->rss.mono_ns,
			rec->rss.rss_bytes);
		return NULL;
	case REC_LOSS:
		fprintf(out, "loss counter=%" PRIu64 " total=%" PRIu64 "\n", rec->loss.counter,
			rec->loss.total);
		return NULL;
	case REC_SYMBOL:
		print_symbol(text, &rec->symbol);
		return NULL;
	case REC_MARK:
		print_named(text, "mark", rec->mark.mono_ns, rec->mark.text);
		return NULL;
	case REC_END:
		fprintf(out, "end reason=%" PRIu64 " mono_ns=%" PRIu64 " tsc=%" PRIu64 "\n",
			rec->end.reason, rec->end.mono_ns, rec->end.tsc);
		return NULL;
	case REC_HEAP:
		print_heap(text, &rec->heap);
		return NULL;
	case REC_MAPPED:
		for (uint64_t i = 0; i < rec->mapped.range_count; i++)
			fprintf(out,
				"mapped lo=0x%" PRIx64 " bytes=%" PRIu64 " flags=%" PRIu64 "\n",
				rec->mapped.range[i].lo, rec->mapped.range[i].bytes,
				rec->mapped.range[i].flags);
		return NULL;
	case REC_SCRIPTS:
		fprintf(out, "scripts generation=%" PRIu64 " until_tsc=%" PRIu64 "\n",
			rec->scripts.generation, rec->scripts.until_tsc);
		return NULL;
	case REC_NAMES:
		fprintf(out, "names module=%" PRIu64 " state=%" PRIu64, rec->names.module_id,
			rec->names.state);
		put_string(text, "detail", rec->names.detail);
		fputc('\n', out);
		return NULL;
	case REC_MEMORY:
		print_memory(out, &rec->memory);
		return NULL;
	case REC_LEFT:
		fprintf(out, "left result=%" PRIu64 " checks=%" PRIu64, rec->left.result,
			rec->left.checks);
		put_string(text, "why", rec->left.why);
		fputc('\n', out);
		return NULL;
	case REC_PAUSE:
		fprintf(out, "pause mono_ns=%" PRIu64 " paused=%" PRIu64 "\n", rec->pause.mono_ns,
			rec->pause.paused);
		return NULL;
	case REC_SETTLE:
		fprintf(out, "settle tsc=%" PRIu64 " mono_ns=%" PRIu64 " wanted_ns=%" PRIu64 "\n",
			rec->settle.tsc, rec->settle.mono_ns, rec->settle.wanted_ns);
		return NULL;
	case REC_CULLED:
		print_culled(out, &rec->culled);
		return NULL;
	case REC_COLUMNS: /* the reader has made EVENTS of them */
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
	/* For a file the caller has warned already. */
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
		if (!err)
			err = print_record(dump, &rec);
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
	if (!err)
		err = trace_reader_create(fd, path, &reader);
	if (!err && dump.is_checked)
		trace_reader_limit(reader, bytes);
	if (!err)
		err = print_all(&dump, reader);
	trace_reader_destroy(reader);
	close(fd);
	free(dump.decoder);
	map_deinit(&dump.decoder_of_slot);
	return err;
}
