/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/smalltrace.h"

#include <stdio.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracebuild.h"

static void save(struct tracebuild *build, const char *path)
{
	struct bytes_out bytes = {0};
	tracebuild_slurp(tracebuild_finish(build), &bytes);
	FILE *file = fopen(path, "we");
	ck_assert(file && fwrite(bytes.data, bytes.length, 1, file) == 1 && fclose(file) == 0);
	bytes_out_deinit(&bytes);
}

char *smalltrace_make(const char *name, uint64_t kept)
{
	struct tracebuild build;
	struct eventbuild events = {0};
	tracebuild_init(&build);
	tracebuild_start(&build, 4242, 1000000, 1000000);
	tracebuild_module(&build, 1, "/usr/bin/target", "id", 0x400000, 0x500000);
	tracebuild_thread(&build, 100, "worker");
	const uint32_t outer = tracebuild_node(&build, 0, 0x400100);
	const uint32_t leaf = tracebuild_node(&build, outer, 0x400200);
	tracebuild_symbol(&build, 1, 0xff, "main", "main.c", 10);
	tracebuild_symbol(&build, 1, 0x1ff, "parse", "parse.c", 20);
	eventbuild_thread(&events, 100, 0);
	for (uint64_t i = 0; i < 400; i++) {
		const uint64_t at = 1008000 + i * 100800;
		eventbuild_alloc(&events, ABI_EVENT_ALLOC, 0, at, 0x10000 + i * 0x1000, 10 + i * 8,
			i % 2 ? leaf : outer);
		if (i % kept)
			eventbuild_free(&events, ABI_EVENT_FREE, 0, at + 1008, 0x10000 + i * 0x1000,
				10 + i * 8);
	}
	tracebuild_events(&build, 0, &events);
	tracebuild_sync(&build, 60000000, 60000000);
	tracebuild_end(&build, REC_END_DURATION, 61000000, 61000000);
	char *path = tmpdir_path(name);
	save(&build, path);
	eventbuild_deinit(&events);
	tracebuild_deinit(&build);
	return path;
}
