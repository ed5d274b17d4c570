/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/separate.h"

#include <elfutils/libdwelf.h>
#include <limits.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/container.h"

#define DEBUG_DIR  "/usr/lib/debug"
#define READ_BYTES 65536u
/* largest file whose checksum is computed, in bytes */
#define CHECKED_MAX	 (4ull << 30)
#define UNPACKED_MAX	 (256u << 20)	/* most bytes of unpacked symbols */
#define DECODER_MAX	 (256ull << 20) /* most bytes of memory for decompression */
#define UNPACK_RATIO_MAX 1024u

/* --- .gnu_debuglink --- */

static bool has_checksum(const struct elf_file *file, uint32_t wanted)
{
	static uint8_t data[READ_BYTES];
	uint32_t sum = 0;
	uint64_t at = 0;
	ssize_t got;
	while ((got = pread(file->fd, data, sizeof(data), (off_t)at)) > 0) {
		sum = trace_crc32(sum, data, (size_t)got);
		at += (uint64_t)got;
		if (at > CHECKED_MAX)
			return false;
	}
	return got == 0 && sum == wanted;
}

struct link {
	const struct module *module;
	const char *name;
	uint32_t checksum;
	char *detail;
	size_t detail_bytes;
};

/* Takes ownership of `fd`. True if it is the file that `link` means. */
static bool take(struct elf_file *ret, int fd, const char *path, const struct link *link)
{
	char build_id[2 * TRACE_BUILD_ID_MAX + 1];
	elf_file_take(ret, fd);
	if (!ret->elf)
		return false;
	elf_file_build_id(ret, build_id);
	const char *wanted = link->module->build_id;
	bool is_same = build_id[0] && wanted[0] ? !strcmp(build_id, wanted)
						: has_checksum(ret, link->checksum);
	if (is_same)
		return true;
	snprintf(link->detail, link->detail_bytes, "%s", path);
	elf_file_close(ret);
	return false;
}

static bool take_linked(struct elf_file *ret, const struct finder *finder, const char *before,
	const char *directory, const char *between, const struct link *link)
{
	char path[PATH_MAX];
	int length =
		snprintf(path, sizeof(path), "%s%s/%s%s", before, directory, between, link->name);
	if (length < 0 || (size_t)length >= sizeof(path))
		return false;
	for (enum finder_place place = 0; place < FINDER_PLACES; place++)
		if (take(ret, finder_open(finder, place, path), path, link))
			return true;
	return false;
}

static void open_linked(struct elf_file *ret, const struct finder *finder, const struct link *link)
{
	char directory[PATH_MAX], below[PATH_MAX];
	const char *path = link->module->path, *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) : 0;
	if (path[0] != '/' || length >= sizeof(directory))
		return;
	memcpy(directory, path, length);
	directory[length] = '\0';
	if (take_linked(ret, finder, "", directory, ".debug/", link) ||
		take_linked(ret, finder, DEBUG_DIR, directory, "", link) ||
		take_linked(ret, finder, "", directory, "", link))
		return;
	for (size_t i = 0; i < finder->debug_dir_count; i++) {
		const char *root = finder->debug_dir[i];
		int whole = snprintf(below, sizeof(below), "%s/%s", directory + 1, link->name);
		if (take(ret, finder_open_below(root, link->name), link->name, link))
			return;
		if (directory[0] && whole > 0 && (size_t)whole < sizeof(below) &&
			take(ret, finder_open_below(root, below), below, link))
			return;
	}
}

void separate_open(struct elf_file *ret, const struct finder *finder, const struct elf_file *file,
	const struct module *module, char *detail, size_t detail_bytes)
{
	struct link link = {.module = module, .detail = detail, .detail_bytes = detail_bytes};
	GElf_Word checksum;
	detail[0] = '\0';
	elf_file_open_debug(ret, finder, module->build_id);
	if (ret->elf || !file->elf)
		return;
	link.name = dwelf_elf_gnu_debuglink(file->elf, &checksum);
	link.checksum = checksum;
	/* The link must be a file name: a path could lead to another directory. */
	if (link.name && link.name[0] && !strchr(link.name, '/'))
		open_linked(ret, finder, &link);
}

/* --- MiniDebugInfo --- */

/* Unpacks .xz into growing memory; NULL if the data is damaged or too large. */
static uint8_t *unpack(struct bytes packed, size_t *ret_bytes)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	struct bytes_out out = {0};
	uint64_t most = (uint64_t)bytes_left(&packed) * UNPACK_RATIO_MAX;
	most = most < UNPACKED_MAX ? most : UNPACKED_MAX;
	if (lzma_stream_decoder(&stream, DECODER_MAX, 0) != LZMA_OK)
		return NULL;
	stream.next_in = packed.at;
	stream.avail_in = bytes_left(&packed);
	lzma_ret state = LZMA_OK;
	while (state == LZMA_OK && out.capacity < most &&
		!ht_err_drop(bytes_out_reserve(&out, out.length ? out.length : READ_BYTES))) {
		stream.next_out = out.data + out.length;
		stream.avail_out = out.capacity - out.length;
		state = lzma_code(&stream, LZMA_FINISH);
		out.length = out.capacity - stream.avail_out;
	}
	*ret_bytes = out.length;
	lzma_end(&stream);
	if (state != LZMA_STREAM_END)
		bytes_out_deinit(&out);
	return out.data;
}

void separate_open_packed(struct elf_file *ret, const struct elf_file *file)
{
	size_t length;
	*ret = (struct elf_file){.fd = -1};
	struct bytes packed = elf_file_section(file, ".gnu_debugdata");
	uint8_t *data = bytes_left(&packed) ? unpack(packed, &length) : NULL;
	if (data)
		elf_file_take_memory(ret, data, length);
}
