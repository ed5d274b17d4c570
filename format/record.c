/* SPDX-License-Identifier: Apache-2.0 */
#include "format/record.h"

/* A payload's layout is one table of fields in file order; encoder and decoder both walk it. */
enum field_type {
	FIELD_LAST, /* closes a table */
	FIELD_NUMBER,
	FIELD_LATER, /* a number of a later minor version; 0 where the payload ends before it */
	FIELD_TEXT,  /* length and bytes; the encoder cuts it at TRACE_STRING_MAX */
	FIELD_ID,    /* length and at most TRACE_BUILD_ID_MAX bytes, never cut */
	FIELD_BYTES, /* the rest of the payload, as a struct bytes */
	FIELD_LIST,  /* count, then that many items */
};

struct field {
	enum field_type type;
	uint32_t offset; /* in struct rec, or in the list's item; LIST: of the count */
	uint32_t items_offset;
	uint32_t item_bytes;
	uint32_t item_max;
	const struct field *item;
};

#define FIELD(name, type_, member)                                                                 \
	{                                                                                          \
		.type = name, .offset = offsetof(type_, member)                                    \
	}
#define ITEM(type_, member) FIELD(FIELD_NUMBER, struct type_, member)
#define NUMBER(member)	    ITEM(rec, member)
#define LATER(member)	    FIELD(FIELD_LATER, struct rec, member)
#define TEXT(member)	    FIELD(FIELD_TEXT, struct rec, member)
#define BYTES(member)	    FIELD(FIELD_BYTES, struct rec, member)
#define LIST(count, items, item_type, max, fields)                                                 \
	{                                                                                          \
		.type = FIELD_LIST, .offset = offsetof(struct rec, count),                         \
		.items_offset = offsetof(struct rec, items), .item_bytes = sizeof(item_type),      \
		.item_max = max, .item = fields                                                    \
	}

#define RECORD(kind, ...) [REC_##kind] = {#kind, (const struct field[]){__VA_ARGS__, {0}}}

static const struct field segment_fields[] = {ITEM(rec_segment, vaddr), ITEM(rec_segment, memsz),
	ITEM(rec_segment, offset), ITEM(rec_segment, flags), {0}};

static const struct field frame_fields[] = {FIELD(FIELD_TEXT, struct rec_frame, function),
	FIELD(FIELD_TEXT, struct rec_frame, file), ITEM(rec_frame, line), {0}};

static const struct field account_fields[] = {FIELD(FIELD_TEXT, struct rec_account, allocator),
	ITEM(rec_account, flags), ITEM(rec_account, held_bytes), ITEM(rec_account, off_bytes),
	ITEM(rec_account, system_bytes), ITEM(rec_account, arenas), ITEM(rec_account, header_bytes),
	FIELD(FIELD_TEXT, struct rec_account, reason), {0}};

static const struct field range_fields[] = {
	ITEM(rec_range, lo), ITEM(rec_range, bytes), ITEM(rec_range, flags), {0}};

static const struct field value_fields[] = {ITEM(rec_value, kind), ITEM(rec_value, number), {0}};

#define EVENTS_FIELDS                                                                              \
	NUMBER(events.slot), NUMBER(events.position), NUMBER(events.flags), BYTES(events.body)

static const struct layout {
	const char *name;
	const struct field *fields;
} layouts[] = {
	RECORD(TARGET, NUMBER(target.pid), NUMBER(target.uid), NUMBER(target.start_ticks),
		TEXT(target.comm), TEXT(target.exe), TEXT(target.kernel),
		TEXT(target.heaptap_version)),
	RECORD(CAPTURE, NUMBER(capture.start_unix_ns), NUMBER(capture.start_mono_ns),
		NUMBER(capture.start_tsc), NUMBER(capture.slots_tapped), NUMBER(capture.modules),
		NUMBER(capture.memory_total_bytes), NUMBER(capture.sample_bytes),
		LATER(capture.flags), LATER(capture.cull_ns)),
	RECORD(MODULE, NUMBER(module.id), NUMBER(module.epoch), NUMBER(module.bias),
		NUMBER(module.lo), NUMBER(module.hi), TEXT(module.path),
		FIELD(FIELD_ID, struct rec, module.build_id), NUMBER(module.flags),
		LIST(module.segment_count, module.segment, struct rec_segment, TRACE_SEGMENTS_MAX,
			segment_fields)),
	RECORD(MODULE_GONE, NUMBER(module_gone.id), NUMBER(module_gone.epoch)),
	RECORD(THREAD, NUMBER(thread.tid), TEXT(thread.name), LATER(thread.since_tsc)),
	RECORD(NODES, NUMBER(nodes.first_id), NUMBER(nodes.count), BYTES(nodes.body)),
	RECORD(EVENTS, EVENTS_FIELDS),
	RECORD(SYNC, NUMBER(sync.tsc), NUMBER(sync.mono_ns), NUMBER(sync.complete_tsc)),
	RECORD(RSS, NUMBER(rss.mono_ns), NUMBER(rss.rss_bytes)),
	RECORD(LOSS, NUMBER(loss.counter), NUMBER(loss.total)),
	RECORD(SYMBOL, NUMBER(symbol.module_id), NUMBER(symbol.offset),
		LIST(symbol.frame_count, symbol.frame, struct rec_frame, TRACE_INLINE_MAX,
			frame_fields)),
	RECORD(MARK, NUMBER(mark.mono_ns), TEXT(mark.text)),
	RECORD(END, NUMBER(end.reason), NUMBER(end.mono_ns), NUMBER(end.tsc)),
	RECORD(HEAP, NUMBER(heap.begin_tsc), NUMBER(heap.end_tsc),
		LIST(heap.account_count, heap.account, struct rec_account, TRACE_ACCOUNTS_MAX,
			account_fields)),
	RECORD(MAPPED, LIST(mapped.range_count, mapped.range, struct rec_range, TRACE_RANGES_MAX,
			       range_fields)),
	RECORD(COLUMNS, EVENTS_FIELDS),
	RECORD(SCRIPTS, NUMBER(scripts.generation), NUMBER(scripts.until_tsc)),
	RECORD(NAMES, NUMBER(names.module_id), NUMBER(names.state), TEXT(names.detail)),
	RECORD(MEMORY, NUMBER(memory.mono_ns),
		LIST(memory.value_count, memory.value, struct rec_value, TRACE_MEMORY_MAX,
			value_fields)),
	RECORD(PAUSE, NUMBER(pause.mono_ns), NUMBER(pause.paused)),
	RECORD(LEFT, NUMBER(left.result), NUMBER(left.checks), TEXT(left.why)),
	RECORD(SETTLE, NUMBER(settle.tsc), NUMBER(settle.mono_ns), NUMBER(settle.wanted_ns)),
	RECORD(CULLED, NUMBER(culled.interval), NUMBER(culled.end_tsc), NUMBER(culled.events),
		NUMBER(culled.inferred_frees), NUMBER(culled.absorbed_frees),
		NUMBER(culled.live_max_bytes), NUMBER(culled.has_peak), NUMBER(culled.peak_ns),
		NUMBER(culled.peak_bytes), NUMBER(culled.peak_blocks), NUMBER(culled.has_highest),
		NUMBER(culled.highest_ns), NUMBER(culled.highest_bytes), BYTES(culled.body)),
};

/* NULL for a kind that this build does not know. */
static const struct layout *layout_of(unsigned int kind)
{
	if (kind >= HT_ARRAY_SIZE(layouts) || !layouts[kind].fields)
		return NULL;
	return &layouts[kind];
}

/* --- encoding --- */

/* The length precedes the payload but is known only after it: always three LEB128 bytes. */
#define LENGTH_BYTES 3u
_Static_assert(TRACE_RECORD_MAX < 1u << 7 * LENGTH_BYTES, "any payload length fits");

static void store_length(uint8_t *at, size_t length)
{
	at[0] = (uint8_t)(length | 0x80);
	at[1] = (uint8_t)(length >> 7 | 0x80);
	at[2] = (uint8_t)(length >> 14);
}

static struct ht_err *put_string(struct bytes_out *out, const char *data, size_t length)
{
	HT_TRY(bytes_out_uleb(out, length));
	return bytes_out_put(out, data, length);
}

static struct ht_err *put_fields(
	struct bytes_out *out, const struct field *fields, const uint8_t *base);

static struct ht_err *put_list(
	struct bytes_out *out, const struct field *field, const uint8_t *base)
{
	uint64_t count = *(const uint64_t *)(const void *)(base + field->offset);
	if (count > field->item_max)
		return ht_err_new(HT_ERR_INTERNAL, "list of %llu items, limit %u",
			(unsigned long long)count, field->item_max);
	HT_TRY(bytes_out_uleb(out, count));
	const uint8_t *item = base + field->items_offset;
	for (uint64_t i = 0; i < count; i++, item += field->item_bytes)
		HT_TRY(put_fields(out, field->item, item));
	return NULL;
}

static struct ht_err *put_field(
	struct bytes_out *out, const struct field *field, const uint8_t *base)
{
	const void *at = base + field->offset;
	const struct rec_string *string = at;
	const struct bytes *bytes = at;
	switch (field->type) {
	case FIELD_LAST:
		break;
	case FIELD_NUMBER:
	case FIELD_LATER:
		return bytes_out_uleb(out, *(const uint64_t *)at);
	case FIELD_TEXT:
		return put_string(out, string->data,
			string->length < TRACE_STRING_MAX ? string->length : TRACE_STRING_MAX);
	case FIELD_ID:
		if (string->length > TRACE_BUILD_ID_MAX)
			return ht_err_new(HT_ERR_INTERNAL, "build-id of %zu bytes, limit %u",
				string->length, TRACE_BUILD_ID_MAX);
		return put_string(out, string->data, string->length);
	case FIELD_BYTES:
		return bytes_out_put(out, bytes->at, bytes_left(bytes));
	case FIELD_LIST:
		return put_list(out, field, base);
	}
	return NULL;
}

static struct ht_err *put_fields(
	struct bytes_out *out, const struct field *fields, const uint8_t *base)
{
	for (; fields->type != FIELD_LAST; fields++)
		HT_TRY(put_field(out, fields, base));
	return NULL;
}

/* epoch, parent and flags take at least one byte each, pc eight. */
#define NODE_BYTES_MIN 11u

/* Whether the body can hold `count` nodes and every id fits a uint32_t: only then may memory be
 * allocated for `count` nodes. */
static bool nodes_plausible(const struct rec_nodes *nodes)
{
	return nodes->count <= bytes_left(&nodes->body) / NODE_BYTES_MIN && nodes->first_id > 0 &&
	       nodes->first_id <= UINT32_MAX - nodes->count;
}

static struct ht_err *put_payload(struct bytes_out *out, const struct rec *rec)
{
	const struct layout *layout = layout_of(rec->kind);
	if (!layout)
		return bytes_out_put(out, rec->raw.data, rec->raw.length);
	if (rec->kind == REC_NODES && !nodes_plausible(&rec->nodes))
		return ht_err_new(HT_ERR_INTERNAL, "ids or count do not fit the nodes");
	return put_fields(out, layout->fields, (const uint8_t *)rec);
}

static const struct {
	const char *name, *text;
} ends[] = {
	[REC_END_DURATION] = {"duration", "its time is over"},
	[REC_END_SIGNAL] = {"signal", "a signal"},
	[REC_END_TARGET_EXIT] = {"target_exit", "the process exited"},
	[REC_END_TARGET_EXEC] = {"target_exec", "the process became another program (exec)"},
	[REC_END_DISK_FULL] = {"disk_full", "the disk is full"},
	[REC_END_ERROR] = {"error", "an error"},
	[REC_END_STOP] = {"stop", "heaptap stop"},
	[REC_END_FORBIDDEN] = {"forbidden",
		"the process blocked recording (strict seccomp or PR_SET_TSC)"},
	[REC_END_RSS] = {"rss", "the process's RSS reached --until-rss"},
	[REC_END_GROWTH] = {"growth", "the process's RSS grew by --until-growth"},
	[REC_END_SIZE] = {"size", "the trace reached --max-size"},
	[REC_END_COMMAND] = {"command", "the command given to attach ended"},
	[REC_END_SNAPSHOT] = {"snapshot", "a snapshot; the capture went on"},
};

const char *rec_end_name(uint64_t reason)
{
	return reason < HT_ARRAY_SIZE(ends) ? ends[reason].name : "unknown";
}

const char *rec_end_text(uint64_t reason)
{
	return reason < HT_ARRAY_SIZE(ends) ? ends[reason].text : "an unknown reason";
}

struct ht_err *rec_encode(struct bytes_out *out, const struct rec *rec)
{
	unsigned int kind = rec->kind;
	if (kind < 1 || kind > UINT8_MAX)
		return ht_err_new(HT_ERR_INTERNAL, "no record has kind %u", kind);
	const size_t start = out->length;
	const uint8_t head[1 + LENGTH_BYTES] = {(uint8_t)kind};
	struct ht_err *err = bytes_out_put(out, head, sizeof(head));
	HT_THEN(err, put_payload(out, rec));
	size_t length = out->length - start - sizeof(head);
	if (!err && length > TRACE_RECORD_MAX)
		err = ht_err_new(HT_ERR_INTERNAL, "payload of %zu bytes, limit %u", length,
			TRACE_RECORD_MAX);
	if (err) {
		out->length = start;
		return ht_err_wrap(err, "record of kind %u", kind);
	}
	store_length(out->data + start + 1, length);
	return NULL;
}

struct ht_err *rec_node_append(struct bytes_out *body, const struct rec_node *node)
{
	const size_t start = body->length;
	struct ht_err *err = bytes_out_uleb(body, node->epoch);
	HT_THEN(err, bytes_out_uleb(body, node->parent));
	HT_THEN(err, bytes_out_u64(body, node->pc));
	HT_THEN(err, bytes_out_uleb(body, node->flags));
	if (err)
		body->length = start;
	return err;
}

/* --- decoding --- */

static bool take_string(struct bytes *in, size_t max, struct rec_string *ret)
{
	uint64_t length;
	const uint8_t *data;
	if (!bytes_uleb(in, &length) || length > max || !bytes_take(in, length, &data))
		return false;
	*ret = (struct rec_string){.data = (const char *)data, .length = length};
	return true;
}

static bool take_fields(struct bytes *in, const struct field *fields, uint8_t *base);

static bool take_list(struct bytes *in, const struct field *field, uint8_t *base)
{
	uint64_t count;
	if (!bytes_uleb(in, &count) || count > field->item_max)
		return false;
	uint8_t *item = base + field->items_offset;
	for (uint64_t i = 0; i < count; i++, item += field->item_bytes) {
		if (!take_fields(in, field->item, item))
			return false;
	}
	*(uint64_t *)(void *)(base + field->offset) = count;
	return true;
}

static bool take_field(struct bytes *in, const struct field *field, uint8_t *base)
{
	void *at = base + field->offset;
	switch (field->type) {
	case FIELD_LAST:
		break;
	case FIELD_NUMBER:
		return bytes_uleb(in, at);
	case FIELD_LATER:
		*(uint64_t *)at = 0;
		return !bytes_left(in) || bytes_uleb(in, at);
	case FIELD_TEXT:
		return take_string(in, TRACE_STRING_MAX, at);
	case FIELD_ID:
		return take_string(in, TRACE_BUILD_ID_MAX, at);
	case FIELD_BYTES:
		*(struct bytes *)at = *in;
		in->at = in->end;
		break;
	case FIELD_LIST:
		return take_list(in, field, base);
	}
	return true;
}

static bool take_fields(struct bytes *in, const struct field *fields, uint8_t *base)
{
	for (; fields->type != FIELD_LAST; fields++) {
		if (!take_field(in, fields, base))
			return false;
	}
	return true;
}

struct ht_err *rec_decode(struct bytes *in, struct rec *ret)
{
	struct bytes rest = *in;
	uint8_t kind;
	uint64_t length;
	const uint8_t *payload;
	if (!bytes_u8(&rest, &kind) || !bytes_uleb(&rest, &length))
		return ht_err_new(HT_ERR_FORMAT, "the head of a record is cut");
	if (!kind)
		return ht_err_new(HT_ERR_FORMAT, "no record has kind 0");
	if (length > TRACE_RECORD_MAX || !bytes_take(&rest, length, &payload))
		return ht_err_new(HT_ERR_FORMAT,
			"a record of kind %u claims %llu bytes of payload, %zu are left", kind,
			(unsigned long long)length, bytes_left(&rest));
	ret->kind = kind;
	ret->raw = (struct rec_string){.data = (const char *)payload, .length = length};
	const struct layout *layout = layout_of(kind);
	struct bytes fields = bytes_of(payload, length);
	if (layout && (!take_fields(&fields, layout->fields, (uint8_t *)ret) ||
			      (kind == REC_NODES && !nodes_plausible(&ret->nodes))))
		return ht_err_new(HT_ERR_FORMAT, "malformed %s record of %llu bytes", layout->name,
			(unsigned long long)length);
	*in = rest;
	return NULL;
}

struct ht_err *rec_node_next(struct bytes *body, struct rec_node *ret)
{
	struct bytes rest = *body;
	uint64_t epoch, parent, pc, flags;
	if (!bytes_uleb(&rest, &epoch) || !bytes_uleb(&rest, &parent) || !bytes_u64(&rest, &pc) ||
		!bytes_uleb(&rest, &flags))
		return ht_err_new(HT_ERR_FORMAT, "a stack node is cut");
	if (epoch > UINT16_MAX || parent > UINT32_MAX || flags > UINT8_MAX)
		return ht_err_new(HT_ERR_FORMAT, "a stack node is out of range");
	*ret = (struct rec_node){.pc = pc,
		.parent = (uint32_t)parent,
		.epoch = (uint16_t)epoch,
		.flags = (uint8_t)flags};
	*body = rest;
	return NULL;
}
