/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze symbols: prints which names a trace has. --resolve makes a copy with more names.
 * --emit resolves the code addresses of a trace and writes symbol records, encoded as in a trace,
 * to standard output; heaptap runs it at the end of a capture as an unprivileged user and appends
 * the records to the trace.
 */
#include "analyzer/cmd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cmd_copy.h"
#include "analyzer/cube/analysis.h"
#include "analyzer/export/named_json.h"
#include "analyzer/ui/named_text.h"
#include "format/array.h"

/* --- which names there are ---------------------------------------------------------------------
 */

static struct ht_err *write_named(
	const struct option_values *values, const struct analysis *analysis)
{
	struct named named;
	struct cmd_output output;
	struct ht_err *err;
	HT_TRY(named_find(analysis, &named));
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

static struct ht_err *list_names(const struct option_values *values)
{
	const char *path = values->operand[0];
	struct analysis *analysis = NULL;
	int fd;
	HT_TRY(cmd_open_trace(path, &fd));
	struct ht_err *err = cmd_analyse(values, fd, path, NULL, false, &analysis);
	close(fd);
	HT_THEN(err, write_named(values, analysis));
	analysis_destroy(analysis);
	return err;
}

/* --- new names ---------------------------------------------------------------------------------
 */

struct naming {
	struct model *model;
	struct symbols known;	     /* names in the trace */
	struct trace_writer *writer; /* --resolve: of the copy */
	struct map found;	     /* --resolve: places that get a new or a better name */
	struct bytes_out records;    /* symbol records of these places; --emit: one record */
};

static void naming_deinit(struct naming *naming)
{
	symbols_deinit(&naming->known);
	map_deinit(&naming->found);
	bytes_out_deinit(&naming->records);
}

static struct ht_err *take_known(void *context, const struct rec_symbol *rec)
{
	struct naming *naming = context;
	struct model *model = naming->model;
	return symbols_take(&naming->known, &model->strings, &model->modules, rec);
}

static void make_symbol(const struct model *model, struct place place,
	const struct rec_frame *frame, uint64_t frame_count, struct rec *ret)
{
	*ret = (struct rec){
		.kind = REC_SYMBOL, .symbol = {.offset = place.offset, .frame_count = frame_count}};
	if (place.module != MODULES_NONE)
		ret->symbol.module_id = model->modules.module[place.module].id;
	memcpy(ret->symbol.frame, frame, frame_count * sizeof(*frame));
}

/* For each module that lacks names or lines, passes a NAMES record with the reason to `put`. */
static struct ht_err *put_states(
	struct naming *naming, struct ht_err *(*put)(struct naming *naming, const struct rec *rec))
{
	const struct modules *modules = &naming->model->modules;
	struct ht_err *err = NULL;
	for (size_t i = 0; i < modules->count && !err; i++) {
		const struct module *module = &modules->module[i];
		const char *detail = module->names_detail ? module->names_detail : "";
		const struct rec rec = {.kind = REC_NAMES,
			.names = {module->id, module->names, {detail, strlen(detail)}}};
		if (module->names)
			err = put(naming, &rec);
	}
	return err;
}

/* --- a copy with more --------------------------------------------------------------------------
 */

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
	struct naming *naming = context;
	uint32_t known_count;
	uint64_t key;
	struct rec rec;
	if (!place_key(place, &key) || (symbols_find(&naming->known, place, &known_count) &&
					       !has_line(frame, frame_count)))
		return NULL;
	make_symbol(naming->model, place, frame, frame_count, &rec);
	HT_TRY(rec_encode(&naming->records, &rec));
	return map_put(&naming->found, key, 1);
}

/* Copies all records except replaced ones. */
static struct ht_err *pass_on(void *context, const struct rec *rec)
{
	struct naming *naming = context;
	const struct modules *modules = &naming->model->modules;
	struct place place = {.module = MODULES_NONE, .offset = rec->symbol.offset};
	uint32_t there;
	uint64_t key;
	if (rec->kind == REC_NAMES && modules_by_id(modules, rec->names.module_id) != MODULES_NONE)
		return NULL;
	if (rec->kind == REC_SYMBOL && rec->symbol.module_id != TRACE_MODULE_SCRIPTS) {
		if (rec->symbol.module_id)
			place.module = modules_by_id(modules, rec->symbol.module_id);
		if (place_key(place, &key) && map_get(&naming->found, key, &there))
			return NULL;
	}
	return trace_writer_put(naming->writer, rec);
}

static struct ht_err *put_found(struct naming *naming)
{
	struct bytes in = bytes_of(naming->records.data, naming->records.length);
	HT_FREED struct rec *rec = malloc(sizeof(*rec));
	if (!rec)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for a record");
	while (bytes_left(&in)) {
		HT_TRY(rec_decode(&in, rec));
		HT_TRY(trace_writer_put(naming->writer, rec));
	}
	return NULL;
}

static struct ht_err *put_state(struct naming *naming, const struct rec *rec)
{
	return trace_writer_put(naming->writer, rec);
}

static struct ht_err *resolve(const struct option_values *values)
{
	struct resolve_files files = cmd_files(values);
	struct cmd_copy copy;
	struct naming naming = {.model = &copy.model};
	const struct model_observer observer = {.replay.context = &naming, .symbol = take_known};
	files.uses_cache = true;
	struct ht_err *err = cmd_copy_open(values, &observer, &copy);
	naming.writer = copy.writer;
	HT_THEN(err, resolve_places(&copy.model, &naming.known, &files, take_found, &naming));
	HT_THEN(err, cmd_copy_each(&copy, pass_on, &naming));
	HT_THEN(err, put_found(&naming));
	HT_THEN(err, put_states(&naming, put_state));
	err = cmd_copy_close(&copy, err);
	if (!err)
		fprintf(stderr, "%s addresses got names; heaptap symbols lists what the copy has\n",
			text_count(naming.found.count).text);
	naming_deinit(&naming);
	return err;
}

/* --- records for heaptap -----------------------------------------------------------------------
 */

static struct ht_err *emit_record(struct naming *naming, const struct rec *rec)
{
	naming->records.length = 0;
	HT_TRY(rec_encode(&naming->records, rec));
	if (fwrite(naming->records.data, naming->records.length, 1, stdout) != 1)
		return ht_err_sys(errno, "cannot write symbols");
	return NULL;
}

static struct ht_err *emit_symbol(
	void *context, struct place place, const struct rec_frame *frame, uint64_t frame_count)
{
	struct naming *naming = context;
	struct rec rec;
	make_symbol(naming->model, place, frame, frame_count, &rec);
	return emit_record(naming, &rec);
}

static struct ht_err *emit_all(int fd, const struct resolve_files *files)
{
	struct model model = {0};
	struct naming naming = {.model = &model};
	const struct model_observer observer = {.replay.context = &naming, .symbol = take_known};
	struct ht_err *err = model_load(&model, fd, "the trace", &observer);
	if (!err)
		cmd_warn_model(&model);
	HT_THEN(err, resolve_places(&model, &naming.known, files, emit_symbol, &naming));
	HT_THEN(err, put_states(&naming, emit_record));
	naming_deinit(&naming);
	model_deinit(&model);
	return ht_err_first(err, cmd_flush(stdout, "symbols"));
}

static struct ht_err *emit_values(const struct option_values *values)
{
	struct resolve_files files = cmd_files(values);
	files.own_map = option_text(values, OPTION_OWN_MAP, NULL);
	files.own_since = (time_t)option_number(values, OPTION_SINCE, 0);
	files.has_handover = option_is_given(values, OPTION_FILES);
	files.handover = (int)option_number(values, OPTION_FILES, 0);
	if (values->operand_count == 0 && option_is_given(values, OPTION_FD))
		return emit_all((int)option_number(values, OPTION_FD, 0), &files);
	if (values->operand_count == 0)
		return ht_err_new(HT_ERR_USAGE, "symbols: trace file is missing");
	int fd;
	HT_TRY(cmd_open_trace(values->operand[0], &fd));
	struct ht_err *err = emit_all(fd, &files);
	close(fd);
	return err;
}

/* --- the command -------------------------------------------------------------------------------
 */

struct ht_err *cmd_symbols(const struct option_values *values)
{
	static const struct {
		enum option_id id, needs;
		const char *name, *needed;
	} rule[] = {
		{OPTION_OUTPUT, OPTION_RESOLVE, "-o", "--resolve"},
		{OPTION_FORCE, OPTION_RESOLVE, "-f", "--resolve"},
		{OPTION_FD, OPTION_EMIT, "--fd", "--emit"},
		{OPTION_FILES, OPTION_EMIT, "--files", "--emit"},
		{OPTION_OWN_MAP, OPTION_EMIT, "--own-map", "--emit"},
		{OPTION_SINCE, OPTION_EMIT, "--since", "--emit"},
	};
	const bool resolves = option_is_given(values, OPTION_RESOLVE);
	const bool emits = option_is_given(values, OPTION_EMIT);
	if (resolves && emits)
		return ht_err_new(HT_ERR_USAGE, "symbols: --resolve and --emit exclude each other");
	if ((resolves || emits) && option_is_given(values, OPTION_JSON))
		return ht_err_new(HT_ERR_USAGE, "symbols: --json is for the list of modules");
	for (size_t i = 0; i < HT_ARRAY_SIZE(rule); i++)
		if (option_is_given(values, rule[i].id) && !option_is_given(values, rule[i].needs))
			return ht_err_new(
				HT_ERR_USAGE, "symbols: %s needs %s", rule[i].name, rule[i].needed);
	if (emits)
		return emit_values(values);
	if (values->operand_count == 0)
		return ht_err_new(HT_ERR_USAGE, "symbols: trace file is missing");
	return resolves ? resolve(values) : list_names(values);
}
