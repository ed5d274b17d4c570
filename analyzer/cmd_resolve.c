/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze symbols FILE: prints which names the trace has. symbols --resolve: makes a copy
 * with more names.
 */
#include "analyzer/cmd_resolve.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cmd_copy.h"
#include "analyzer/cube/analysis.h"
#include "analyzer/export/named_json.h"
#include "analyzer/ui/named_text.h"
#include "analyzer/ui/watch.h"

/* --- which names there are ---------------------------------------------------------------------
 */

static struct ht_err *write_named(
	const struct option_values *values, const struct analysis *analysis)
{
	struct named named;
	struct cmd_output output;
	struct ht_err *err = named_find(analysis, &named);
	if (err)
		return err;
	if (option_is_given(values, OPTION_JSON)) {
		err = named_json_write(stdout, analysis, &named);
	} else {
		err = cmd_output_open(values, &output);
		if (!err) {
			named_text_write(&output.text, analysis, &named);
			err = cmd_output_close(&output, "the names");
		}
	}
	named_deinit(&named);
	return ht_err_first(err, cmd_flush(stdout, "the names"));
}

struct ht_err *cmd_symbols_list(const struct option_values *values)
{
	const struct resolve_files files = cmd_files(values);
	const char *path = values->operand[0];
	struct analysis *analysis = NULL;
	struct watch watch;
	int fd;
	HT_TRY(cmd_open_trace(path, &fd));
	watch_begin(&watch, stderr, fd, path);
	struct ht_err *err = analysis_create(fd, path, NULL, &analysis);
	watch_end(&watch);
	close(fd);
	if (!err) {
		cmd_warn_model(&analysis->model);
		err = analysis_resolve(analysis, &files);
	}
	HT_THEN(err, write_named(values, analysis));
	analysis_destroy(analysis);
	return err;
}

/* --- a copy with more --------------------------------------------------------------------------
 */

struct resolving {
	struct cmd_copy copy;
	struct symbols known;	  /* names in the trace */
	struct map found;	  /* places that get a new or a better name */
	struct bytes_out records; /* symbol records of these places */
};

static struct ht_err *take_known(void *context, const struct rec_symbol *rec)
{
	struct resolving *to = context;
	struct model *model = &to->copy.model;
	return symbols_take(&to->known, &model->strings, &model->modules, rec);
}

static bool has_line(const struct rec_frame *frame, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (frame[i].line)
			return true;
	return false;
}

static struct ht_err *take_found(
	void *context, struct place place, const struct rec_frame *frame, uint64_t frame_count)
{
	struct resolving *to = context;
	const struct modules *modules = &to->copy.model.modules;
	uint32_t known_count;
	uint64_t key;
	struct rec rec = {
		.kind = REC_SYMBOL, .symbol = {.offset = place.offset, .frame_count = frame_count}};
	if (!place_key(place, &key) ||
		(symbols_find(&to->known, place, &known_count) && !has_line(frame, frame_count)))
		return NULL;
	if (place.module != MODULES_NONE)
		rec.symbol.module_id = modules->module[place.module].id;
	memcpy(rec.symbol.frame, frame, frame_count * sizeof(*frame));
	HT_TRY(rec_encode(&to->records, &rec));
	return map_put(&to->found, key, 1);
}

/* Copies all records except replaced ones. */
static struct ht_err *pass_on(void *context, const struct rec *rec)
{
	struct resolving *to = context;
	const struct modules *modules = &to->copy.model.modules;
	struct place place = {.module = MODULES_NONE, .offset = rec->symbol.offset};
	uint32_t there;
	uint64_t key;
	if (rec->kind == REC_NAMES && modules_by_id(modules, rec->names.module_id) != MODULES_NONE)
		return NULL;
	if (rec->kind == REC_SYMBOL && rec->symbol.module_id != TRACE_MODULE_SCRIPTS) {
		if (rec->symbol.module_id)
			place.module = modules_by_id(modules, rec->symbol.module_id);
		if (place_key(place, &key) && map_get(&to->found, key, &there))
			return NULL;
	}
	return trace_writer_put(to->copy.writer, rec);
}

static struct ht_err *put_found(struct resolving *to)
{
	struct bytes in = bytes_of(to->records.data, to->records.length);
	struct rec *rec = malloc(sizeof(*rec));
	struct ht_err *err = rec ? NULL : ht_err_new(HT_ERR_NOMEM, "out of memory for a record");
	while (!err && bytes_left(&in)) {
		err = rec_decode(&in, rec);
		HT_THEN(err, trace_writer_put(to->copy.writer, rec));
	}
	free(rec);
	return err;
}

static struct ht_err *put_states(struct resolving *to)
{
	const struct modules *modules = &to->copy.model.modules;
	struct ht_err *err = NULL;
	for (size_t i = 0; i < modules->count && !err; i++) {
		const struct module *module = &modules->module[i];
		const char *detail = module->names_detail ? module->names_detail : "";
		const struct rec rec = {.kind = REC_NAMES,
			.names = {module->id, module->names, {detail, strlen(detail)}}};
		if (module->names)
			err = trace_writer_put(to->copy.writer, &rec);
	}
	return err;
}

struct ht_err *cmd_symbols_resolve(const struct option_values *values)
{
	struct resolve_files files = cmd_files(values);
	struct resolving *to = calloc(1, sizeof(*to));
	if (!to)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for names");
	const struct model_observer observer = {.replay.context = to, .symbol = take_known};
	files.uses_cache = true;
	struct ht_err *err = cmd_copy_open(values, &observer, &to->copy);
	HT_THEN(err, resolve_places(&to->copy.model, &to->known, &files, take_found, to));
	HT_THEN(err, cmd_copy_each(&to->copy, pass_on, to));
	HT_THEN(err, put_found(to));
	HT_THEN(err, put_states(to));
	const size_t found = to->found.count;
	err = cmd_copy_close(&to->copy, err);
	if (!err)
		fprintf(stderr, "%s addresses got names; heaptap symbols lists what the copy has\n",
			text_count(found).text);
	symbols_deinit(&to->known);
	map_deinit(&to->found);
	bytes_out_deinit(&to->records);
	free(to);
	return err;
}
