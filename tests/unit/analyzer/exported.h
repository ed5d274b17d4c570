/* SPDX-License-Identifier: Apache-2.0
 *
 * A small trace that each export is tested with, and what an export writes of it.
 *
 *      main (main.c:10) -> caller (out.c:9) -> inner (in.h:7), inlined: 100 bytes that stay, 30
 *      that are freed at once; by the thread "worker"
 *      main -> an address without a name: 7 bytes; by a thread without a name
 *      no stack: 1 byte, freed at once; by the thread without a name
 */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/export/export.h"
#include "tests/unit/analyzer/scene.h"

struct exported {
	struct scene scene;
	struct analysis *analysis;
	struct export_job job; /* of the last export */
	char *text;	       /* what the last export wrote; malloc'd, `length` bytes */
	size_t length;
};

static inline void exported_begin(struct exported *exported)
{
	struct scene *scene = &exported->scene;
	*exported = (struct exported){0};
	scene_init(scene);
	tracebuild_module(
		&scene->trace, 1, "/usr/bin/target", "12345678901234567890", 0x400000, 0x500000);
	tracebuild_thread(&scene->trace, SCENE_TID(0), "worker");
	const uint32_t outer = tracebuild_node(&scene->trace, 0, 0x400100);
	const uint32_t leaf = tracebuild_node(&scene->trace, outer, 0x400200);
	const uint32_t other = tracebuild_node(&scene->trace, outer, 0x400300);
	const struct rec symbol = {
		.kind = REC_SYMBOL,
		.symbol = {.module_id = 1,
			.offset = 0x1ff,
			.frame_count = 2,
			.frame = {{.function = {"inner", 5}, .file = {"src/in.h", 8}, .line = 7},
				{.function = {"caller", 6}, .file = {"src/out.c", 9}, .line = 9}}},
	};
	tracebuild_put(&scene->trace, &symbol);
	tracebuild_symbol(&scene->trace, 1, 0xff, "main", "src/main.c", 10);
	scene_malloc(scene, 0, 0x1000, 100, leaf);
	scene_malloc(scene, 0, 0x2000, 30, leaf);
	scene_free(scene, 0, 0x2000, 40);
	scene_malloc(scene, 1, 0x3000, 7, other);
	scene_malloc(scene, 1, 0x4000, 1, 0);
	scene_free(scene, 1, 0x4000, 24);
}

static inline const struct export_format *exported_format(const char *name)
{
	for (size_t i = 0; i < export_format_count; i++)
		if (strcmp(export_format[i].name, name) == 0)
			return &export_format[i];
	ck_abort_msg("no format %s", name);
}

/* Exports what `query` chooses (NULL: everything); the text is valid until the next export.
 * `server`: limits of a server; NULL: none. */
static inline const char *exported_for(struct exported *exported, const char *name,
	const struct query *query, const struct export_server *server)
{
	if (!exported->analysis)
		exported->analysis = scene_analyze(&exported->scene);
	struct view *view = scene_view(exported->analysis, query);
	exported->job = (struct export_job){
		.view = view,
		.older = view,
		.metric = METRIC_OUTSTANDING,
		.fd = exported->scene.trace.fd,
		.name = "scene",
		.server = server,
	};
	free(exported->text);
	FILE *out = open_memstream(&exported->text, &exported->length);
	ck_no_err(exported_format(name)->write(out, &exported->job));
	ck_assert_int_eq(fclose(out), 0);
	view_destroy(view);
	return exported->text;
}

static inline const char *exported_as(
	struct exported *exported, const char *name, const struct query *query)
{
	return exported_for(exported, name, query, NULL);
}

static inline void exported_end(struct exported *exported)
{
	analysis_destroy(exported->analysis);
	scene_deinit(&exported->scene);
	free(exported->text);
}

/* Fails the test unless `text` has `part`. */
static inline void exported_has(const struct exported *exported, const char *part)
{
	ck_assert_msg(strstr(exported->text, part), "\"%s\" is not in\n%s", part, exported->text);
}
