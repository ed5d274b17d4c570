/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/jitdump.h"

#include <elf.h>
#include <inttypes.h>
#include <string.h>

#include "format/map.h"
#include "format/arch.h"
#include "format/record.h"

#define VERSION	    1u
#define NUMBERS_MAX sizeof("ffffffffffffffff ffffffffffffffff ")

/* The file header after the magic number. */
struct header {
	uint32_t version, bytes, machine, reserved, pid;
	uint64_t time, flags;
} __attribute__((packed));

enum { CODE_LOAD, CODE_MOVE };

struct prefix {
	uint32_t kind, bytes; /* of the whole record */
	uint64_t time;
} __attribute__((packed));

struct load {
	uint32_t pid, tid;
	uint64_t vma, address, bytes, index;
} __attribute__((packed));

struct move {
	uint32_t pid, tid;
	uint64_t vma, from, to, bytes, index;
} __attribute__((packed));

struct reader {
	FILE *in;
	const char *path;
	size_t max;
	struct bytes_out *text;
	struct map names; /* number of a function -> offset of its name in `text` */
};

static bool get(struct reader *reader, void *ret, size_t bytes)
{
	return fread(ret, bytes, 1, reader->in) == 1;
}

/* Reads a name up to its NUL and cuts it to `name`. False: no NUL within `*left` bytes. */
static bool get_name(struct reader *reader, size_t *left, char name[TRACE_STRING_MAX + 1])
{
	size_t length = 0;

	for (int c; *left > 0 && (c = getc(reader->in)) != EOF; --*left) {
		if (c == '\0') {
			--*left;
			name[length] = '\0';
			return true;
		}
		if (length < TRACE_STRING_MAX)
			name[length++] = c == '\n' || c == '\r' ? ' ' : (char)c;
	}
	return false;
}

static struct ht_err *put_line(struct reader *reader, uint64_t address, uint64_t bytes,
	const char *name, size_t name_bytes, size_t *ret_name)
{
	struct bytes_out *text = reader->text;
	if (text->length + NUMBERS_MAX + name_bytes + 1 > reader->max)
		return ht_err_new(HT_ERR_USAGE, "%s has more than %zu bytes of names", reader->path,
			reader->max);
	HT_TRY(bytes_out_reserve(text, NUMBERS_MAX + name_bytes + 1));
	text->length += (size_t)snprintf((char *)text->data + text->length, NUMBERS_MAX,
		"%" PRIx64 " %" PRIx64 " ", address, bytes);
	*ret_name = text->length;
	memcpy(text->data + text->length, name, name_bytes);
	text->length += name_bytes;
	text->data[text->length++] = '\n';
	return NULL;
}

static struct ht_err *take_load(struct reader *reader, size_t *left, bool *ret_ok)
{
	struct load load;
	char name[TRACE_STRING_MAX + 1];
	size_t at;

	*ret_ok = *left >= sizeof(load) && get(reader, &load, sizeof(load));
	*left -= *ret_ok ? sizeof(load) : 0;
	*ret_ok = *ret_ok && get_name(reader, left, name);
	if (!*ret_ok || !name[0])
		return NULL;
	HT_TRY(put_line(reader, load.address, load.bytes, name, strlen(name), &at));
	return map_put(&reader->names, load.index, (uint32_t)at);
}

static struct ht_err *take_move(struct reader *reader, size_t *left, bool *ret_ok)
{
	struct move move;
	char name[TRACE_STRING_MAX];
	uint32_t known;
	size_t at;

	*ret_ok = *left >= sizeof(move) && get(reader, &move, sizeof(move));
	*left -= *ret_ok ? sizeof(move) : 0;
	if (!*ret_ok || !map_get(&reader->names, move.index, &known))
		return NULL;
	/* put_line may move the text, so copy the name first. */
	const char *from = (const char *)reader->text->data + known;
	size_t bytes = (size_t)((const char *)memchr(from, '\n', sizeof(name) + 1) - from);
	memcpy(name, from, bytes);
	return put_line(reader, move.to, move.bytes, name, bytes, &at);
}

/* `*ret_ok` is false after the last whole record. */
static struct ht_err *take_record(struct reader *reader, bool *ret_ok)
{
	struct prefix prefix;
	struct ht_err *err = NULL;

	*ret_ok = get(reader, &prefix, sizeof(prefix)) && prefix.bytes >= sizeof(prefix);
	size_t left = *ret_ok ? prefix.bytes - sizeof(prefix) : 0;
	if (*ret_ok && prefix.kind == CODE_LOAD)
		err = take_load(reader, &left, ret_ok);
	else if (*ret_ok && prefix.kind == CODE_MOVE)
		err = take_move(reader, &left, ret_ok);
	*ret_ok = *ret_ok && fseeko(reader->in, (off_t)left, SEEK_CUR) == 0;
	return err;
}

struct ht_err *jitdump_convert(FILE *in, const char *path, size_t max, struct bytes_out *text)
{
	struct reader reader = {.in = in, .path = path, .max = max, .text = text};
	struct header header;
	bool goes_on = true;
	size_t own = sizeof(uint32_t) + sizeof(header);

	if (!get(&reader, &header, sizeof(header)) || header.version != VERSION ||
		header.machine != ARCH_ELF_MACHINE || header.bytes < own ||
		fseeko(in, (off_t)(header.bytes - own), SEEK_CUR) != 0)
		return ht_err_new(HT_ERR_USAGE, "%s is no jitdump of version %u for this machine",
			path, VERSION);
	struct ht_err *err = NULL;
	while (!err && goes_on)
		err = take_record(&reader, &goes_on);
	map_deinit(&reader.names);
	return err;
}
