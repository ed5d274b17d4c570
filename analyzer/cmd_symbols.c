/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze symbols, and its --emit: resolves the code addresses of a trace and writes symbol
 * records, encoded as in a trace, to standard output. heaptap runs it at the end of a capture as an
 * unprivileged user and appends the records to the trace.
 */
#include "analyzer/cmd_resolve.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/symbols/resolve.h"

struct emit {
	const struct model *model;
	struct bytes_out out;
};

static struct ht_err *emit_record(struct emit *emit, const struct rec *rec)
{
	emit->out.length = 0;
	HT_TRY(rec_encode(&emit->out, rec));
	if (fwrite(emit->out.data, emit->out.length, 1, stdout) != 1)
		return ht_err_sys(errno, "cannot write symbols");
	return NULL;
}

static struct ht_err *emit_symbol(
	void *context, struct place place, const struct rec_frame *frame, uint64_t frame_count)
{
	struct emit *emit = context;
	struct rec rec = {
		.kind = REC_SYMBOL, .symbol = {.offset = place.offset, .frame_count = frame_count}};
	if (place.module != MODULES_NONE)
		rec.symbol.module_id = emit->model->modules.module[place.module].id;
	for (uint64_t i = 0; i < frame_count; i++)
		rec.symbol.frame[i] = frame[i];
	return emit_record(emit, &rec);
}

static struct ht_err *emit_notes(struct emit *emit)
{
	const struct modules *modules = &emit->model->modules;
	struct ht_err *err = NULL;
	for (size_t i = 0; i < modules->count && !err; i++) {
		const struct module *module = &modules->module[i];
		const char *detail = module->names_detail ? module->names_detail : "";
		const struct rec rec = {.kind = REC_NAMES,
			.names = {module->id, module->names, {detail, strlen(detail)}}};
		if (module->names)
			err = emit_record(emit, &rec);
	}
	return err;
}

/* Names already in the trace, which are not written again. */
struct known {
	struct model model;
	struct symbols symbols;
};

static struct ht_err *take_symbol(void *context, const struct rec_symbol *rec)
{
	struct known *known = context;
	return symbols_take(&known->symbols, &known->model.strings, &known->model.modules, rec);
}

static struct ht_err *emit_all(int fd, const struct resolve_files *files)
{
	struct known known = {0};
	struct emit emit = {.model = &known.model};
	const struct model_observer observer = {.replay.context = &known, .symbol = take_symbol};
	struct ht_err *err = model_load(&known.model, fd, "the trace", &observer);
	if (!err)
		cmd_warn_model(&known.model);
	HT_THEN(err, resolve_places(&known.model, &known.symbols, files, emit_symbol, &emit));
	HT_THEN(err, emit_notes(&emit));
	bytes_out_deinit(&emit.out);
	symbols_deinit(&known.symbols);
	model_deinit(&known.model);
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
	return resolves ? cmd_symbols_resolve(values) : cmd_symbols_list(values);
}
