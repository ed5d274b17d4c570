/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer entry (make fuzz): the input is a map for perf, or a jitdump, as a hostile target may
 * leave it. Names are looked up at low addresses, and at some from the whole address space.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/symbols/jitdump.h"
#include "analyzer/symbols/perf_map.h"

#define ADDRESSES 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(struct ht_err *err)
{
	if (err && err->code != HT_ERR_USAGE)
		abort();
	ht_err_free(err);
}

static void look_up(const struct perf_map *map)
{
	uint64_t address[ADDRESSES];
	struct rec_string name[ADDRESSES];
	for (size_t i = 0; i < ADDRESSES; i++)
		address[i] = i < ADDRESSES / 2 ? i * 7 : UINT64_MAX / ADDRESSES * i;
	struct ht_err *err = perf_map_find(map, address, ADDRESSES, name);
	if (err)
		abort();
	for (size_t i = 0; i < ADDRESSES; i++)
		if (name[i].length && (name[i].data < map->text || name[i].data + name[i].length >
									   map->text + map->length))
			abort();
}

static void read_map(const uint8_t *data, size_t size)
{
	struct perf_map map;
	char path[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct ht_err *err = perf_map_read(&map, path);
	if (!err)
		look_up(&map);
	check(err);
	perf_map_deinit(&map);
	close(fd);
}

static void convert(const uint8_t *data, size_t size)
{
	struct bytes_out text = {0};
	FILE *in = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
	if (!in)
		return;
	check(jitdump_convert(in, "fuzz", 1u << 20, &text));
	fclose(in);
	bytes_out_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_map(data, size);
	convert(data, size);
	return 0;
}
