/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/push/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/export/names.h"
#include "analyzer/model/strings.h"
#include "analyzer/views/suspects.h"
#include "format/array.h"

/* initial value of the hash for the second half of a key */
#define HASH_OTHER  0x6c62272e07bb0142u
#define SITE_FRAMES 3u /* number of frames in the short name of a site */
#define NS_PER_S    1000000000u
#define HOST_BYTES  256u
#define ID_BYTES    17u

static const char *own_host(void)
{
	static char name[HOST_BYTES];
	if (gethostname(name, sizeof(name) - 1) < 0)
		return "";
	return name;
}

static const char *build_of(const struct model *model)
{
	for (size_t i = 0; i < model->modules.count; i++)
		if (model->modules.module[i].flags & REC_MODULE_EXECUTABLE)
			return model->modules.module[i].build_id;
	return "";
}

void push_window_init(
	struct push_window *window, const struct view *view, const char *host, const char *service)
{
	const struct model *model = &view->analysis->model;
	const uint64_t begin_ns = model->capture.start_unix_ns,
		       end_ns = begin_ns + model->duration_ns;
	*window = (struct push_window){.view = view,
		.host = host ? host : own_host(),
		.service = service	 ? service
			   : model->comm ? model->comm
					 : "unknown",
		.build = build_of(model),
		.begin_s = begin_ns / NS_PER_S,
		.end_s = (end_ns + NS_PER_S - 1) / NS_PER_S};
	if (window->end_s <= window->begin_s)
		window->end_s = window->begin_s + 1;
	uint64_t half[2] = {STRINGS_HASH, HASH_OTHER};
	const uint64_t number[] = {begin_ns, end_ns, model->target.pid};
	for (size_t i = 0; i < 2; i++) {
		half[i] = strings_hash(half[i], window->host, strlen(window->host) + 1);
		half[i] = strings_hash(half[i], window->service, strlen(window->service) + 1);
		half[i] = strings_hash(half[i], number, sizeof(number));
	}
	snprintf(window->key, sizeof(window->key), "%016" PRIx64 "%016" PRIx64, half[0], half[1]);
}

/* --- one row ---------------------------------------------------------------------------------- */

struct rows {
	FILE *out;
	const struct push_window *window;
	struct names_chain chain;
	enum suspect_class *class_of;
};

static void put_text(FILE *out, const char *name, const char *text)
{
	char copy[NAMES_BYTES];
	names_copy(copy, text);
	fprintf(out, "\"%s\":", name);
	names_put_json(out, copy);
	putc(',', out);
}

static void put_window(struct rows *rows, size_t number)
{
	const struct push_window *window = rows->window;
	FILE *out = rows->out;
	fprintf(out,
		"{\"window_id\":\"%s\",\"row\":%zu,\"window_start\":%" PRIu64
		",\"window_end\":%" PRIu64 ",",
		window->key, number, window->begin_s, window->end_s);
	put_text(out, "host", window->host);
	put_text(out, "service", window->service);
	put_text(out, "build", window->build);
	fprintf(out, "\"pid\":%" PRIu64 ",\"seconds\":%.3f,",
		window->view->analysis->model.target.pid,
		(double)window->view->analysis->model.duration_ns / NS_PER_S);
}

static void put_sums(FILE *out, const struct sums *sums)
{
	fprintf(out,
		"\"allocations\":%" PRIu64 ",\"allocated_bytes\":%" PRIu64
		",\"outstanding_blocks\":%" PRIu64 ",\"outstanding_bytes\":%" PRIu64
		",\"growth_bytes\":%" PRIi64 ",\"peak_bytes\":%" PRIu64 ",\"temporary\":%" PRIu64
		",\"allocated_bytes_bound95\":%" PRIi64 ",\"outstanding_bytes_bound95\":%" PRIi64
		",\"growth_bytes_bound95\":%" PRIi64 "}\n",
		sums->allocations, sums->allocated_bytes, sums_outstanding_blocks(sums),
		sums_outstanding_bytes(sums), sums->growth_bytes, sums->peak_bytes, sums->temporary,
		metric_bound(sums, METRIC_ALLOCATED), metric_bound(sums, METRIC_OUTSTANDING),
		metric_bound(sums, METRIC_GROWTH));
}

/* Puts the names of the frames, innermost first; the hash of all these names, which is the same on
 * all hosts; the site's short name; and its module. */
static void put_site(struct rows *rows, uint32_t node)
{
	const struct view *view = rows->window->view;
	char name[NAMES_BYTES], site[SITE_FRAMES * NAMES_BYTES + 16] = "", id[ID_BYTES];
	FILE *out = rows->out;
	uint64_t hash = STRINGS_HASH;
	size_t length = 0;
	names_chain_take(&rows->chain, view, node);
	fputs("\"frames\":[", out);
	for (size_t i = rows->chain.depth; i-- > 0;) {
		const size_t depth = rows->chain.depth - 1 - i;
		names_node(view, rows->chain.node[i], name);
		fputs(depth ? "," : "", out);
		names_put_json(out, name);
		hash = strings_hash(hash, name, strlen(name) + 1);
		if (depth < SITE_FRAMES)
			length += (size_t)snprintf(site + length, sizeof(site) - length, "%s%s",
				depth ? " <- " : "", name);
	}
	if (!rows->chain.depth)
		snprintf(site, sizeof(site), "(no stack)");
	snprintf(id, sizeof(id), "%016" PRIx64, hash);
	fprintf(out, "],\"site_id\":\"%s\",\"site\":", id);
	names_put_json(out, site);
	const struct frame *frame = names_frame_of(view, node);
	names_module(view, frame ? frame->module : MODULES_NONE, name);
	fputs(",\"module\":", out);
	names_put_json(out, name);
	putc(',', out);
}

static void put_row(struct rows *rows, size_t number, uint32_t index)
{
	const struct row *row = &rows->window->view->row[index];
	const enum suspect_class class = rows->class_of[index];
	put_window(rows, number);
	put_site(rows, row->node);
	fprintf(rows->out, "\"class\":\"%s\",",
		class == SUSPECT_CLASS_COUNT ? "" : suspect_class_name(class));
	put_sums(rows->out, &row->sums);
}

static void put_rows(struct rows *rows, const uint32_t *order)
{
	const struct view *view = rows->window->view;
	struct sums others = {0};
	for (size_t i = 0; i < view->row_count; i++) {
		if (i < PUSH_ROWS_MAX)
			put_row(rows, i, order[i]);
		else
			sums_add(&others, &view->row[order[i]].sums);
	}
	if (view->row_count <= PUSH_ROWS_MAX)
		return;
	put_window(rows, PUSH_ROWS_MAX);
	fputs("\"frames\":[],\"site_id\":\"\",\"site\":\"(others)\",\"module\":\"\",\"class\":"
	      "\"\",",
		rows->out);
	put_sums(rows->out, &others);
}

struct ht_err *push_rows_write(FILE *out, const struct push_window *window)
{
	struct rows rows = {.out = out, .window = window};
	struct suspects suspects = {0};
	HT_FREED uint32_t *order = NULL;
	struct ht_err *err = suspects_find(window->view, &suspects);
	HT_THEN(err, suspects_classes(window->view, &suspects, &rows.class_of));
	HT_THEN(err, view_order(window->view, METRIC_OUTSTANDING, &order));
	HT_THEN(err, names_chain_init(&rows.chain, window->view));
	if (!err)
		put_rows(&rows, order);
	names_chain_deinit(&rows.chain);
	free(rows.class_of);
	suspects_deinit(&suspects);
	return err;
}
