/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze symbols --emit: resolves the code addresses of a trace and writes symbol records,
 * as they stand in a trace, to standard output. heaptap runs it at the end of a capture, as an
 * unprivileged user, and appends what it says.
 */
#include "analyzer/cmd.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/symbols/resolve.h"

struct options {
	const char *path; /* NULL: `fd` is the trace */
	struct resolve_files files;
	size_t fd;
	bool emit;
};

static struct ht_err *parse(int argc, char **argv, struct options *ret)
{
	static const struct option long_option[] = {
		{"emit", no_argument, NULL, 'e'},
		CMD_FILE_OPTIONS,
		{"files", required_argument, NULL, 'h'},
		{"fd", required_argument, NULL, 'f'},
		{"own-map", required_argument, NULL, 'm'},
		{"since", required_argument, NULL, 't'},
		{0},
	};
	*ret = (struct options){.files.sysroot = ""};
	size_t since = 0, handover = 0;
	bool has_fd = false;
	int option;
	while ((option = getopt_long(argc, argv, "", long_option, NULL)) != -1) {
		struct ht_err *err = NULL;
		if (cmd_file_option(option, optarg, &ret->files, &err)) {
			;
		} else if (option == 'e') {
			ret->emit = true;
		} else if (option == 'h') {
			err = cmd_number("--files", optarg, INT_MAX, &handover);
			ret->files.has_handover = true;
		} else if (option == 'm') {
			ret->files.own_map = optarg;
		} else if (option == 't') {
			err = cmd_number("--since", optarg, LONG_MAX, &since);
		} else if (option == 'f') {
			err = cmd_number("--fd", optarg, INT_MAX, &ret->fd);
			has_fd = true;
		} else {
			err = cmd_bad_option(argc, argv, long_option);
		}
		if (err)
			return err;
	}
	ret->files.own_since = (time_t)since;
	ret->files.handover = (int)handover;
	if (!ret->emit)
		return ht_err_new(HT_ERR_USAGE, "symbols: --emit is missing");
	if (has_fd && optind == argc)
		return NULL;
	return cmd_one_operand(argc, argv, "trace file", &ret->path);
}

struct emit {
	const struct model *model;
	struct bytes_out out;
};

static struct ht_err *emit_record(struct emit *emit, const struct rec *rec)
{
	emit->out.length = 0;
	struct ht_err *err = rec_encode(&emit->out, rec);
	if (!err && fwrite(emit->out.data, emit->out.length, 1, stdout) != 1)
		err = ht_err_sys(errno, "cannot write symbols");
	return err;
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

/* What the trace says by itself need not be said again. */
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
	if (!err)
		err = resolve_places(&known.model, &known.symbols, files, emit_symbol, &emit);
	if (!err)
		err = emit_notes(&emit);
	bytes_out_deinit(&emit.out);
	symbols_deinit(&known.symbols);
	model_deinit(&known.model);
	return ht_err_first(err, cmd_flush(stdout, "symbols"));
}

struct ht_err *cmd_symbols(int argc, char **argv)
{
	struct options options;
	struct ht_err *err = parse(argc, argv, &options);
	if (err)
		return err;
	if (!options.path)
		return emit_all((int)options.fd, &options.files);
	int fd;
	err = cmd_open_trace(options.path, &fd);
	if (err)
		return err;
	err = emit_all(fd, &options.files);
	close(fd);
	return err;
}
