/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze info: contents of a trace, without counting its events.
 */
#include "analyzer/cmd.h"

#include <inttypes.h>
#include <unistd.h>

#include "analyzer/model/model.h"
#include "analyzer/ui/text.h"
#include "format/quantity.h"

struct info {
	struct model model;
	uint64_t symbols;
};

static struct ht_err *count_symbol(void *context, const struct rec_symbol *symbol)
{
	struct info *info = context;
	(void)symbol;
	info->symbols++;
	return NULL;
}

static void put(const struct text *text, const char *label, const char *value)
{
	fprintf(text->out, "%-12s ", label);
	text_foreign(text, value ? value : "unknown", 1000);
	fputc('\n', text->out);
}

static const char *file_state(const struct model *model)
{
	switch (model->how_ended) {
	case TRACE_COMPLETE:
		return "complete";
	case TRACE_TRUNCATED:
		if (model->is_growing)
			return "still being written; read up to its last whole block";
		return "cut off; readable up to its last whole block";
	case TRACE_DAMAGED:
		return "damaged; readable up to the damage";
	case TRACE_MORE:
		break;
	}
	return "unknown";
}

static void print_module(const struct text *text, const struct module *module)
{
	fprintf(text->out, "module %4" PRIu64 "  %012" PRIx64 "-%012" PRIx64 "  %-40s  ",
		module->id, module->lo, module->hi,
		module->build_id[0] ? module->build_id : "(no build-id)");
	text_foreign(text, module->path, 1000);
	if (module->flags & REC_MODULE_EXECUTABLE)
		fputs("  executable", text->out);
	if (module->flags & REC_MODULE_UNTAPPED)
		fputs("  loaded during the capture, recorded too late", text->out);
	if (module->gone_epoch != UINT64_MAX)
		fputs("  unloaded", text->out);
	fputc('\n', text->out);
}

static void print(const struct text *text, const struct info *info)
{
	const struct model *model = &info->model;
	char left[MODEL_LEFT_BYTES], cull[QUANTITY_TEXT_BYTES];
	FILE *out = text->out;
	put(text, "file", file_state(model));
	if (model->problem)
		put(text, "problem", model->problem);
	put(text, "program", model->comm);
	put(text, "executable", model->exe);
	put(text, "kernel", model->kernel);
	put(text, "heaptap", model->heaptap_version);
	fprintf(out, "%-12s %" PRIu64 "\n", "pid", model->target.pid);
	fprintf(out, "%-12s %s, ended: %s\n", "window", text_time(model->duration_ns).text,
		model_ended(model));
	model_left_text(model, left);
	put(text, "process", left);
	if (model->capture.sample_bytes)
		fprintf(out, "%-12s one allocation in %s\n", "sample",
			text_bytes(model->capture.sample_bytes).text);
	if (model->capture.cull_ns)
		fprintf(out, "%-12s only sums of blocks that lived less than %s\n", "cull",
			quantity_duration_text(model->capture.cull_ns, cull));
	/* Totals are written after the events that they count, so in a cut file the last totals may
	 * be too low. */
	const char *more = model->how_ended == TRACE_COMPLETE ? "" : " or more";
	fprintf(out, "%-12s %s%s\n", "events", text_count(model->counter[REC_COUNTER_EVENTS]).text,
		more);
	fprintf(out, "%-12s %s%s\n", "dropped", text_count(model_dropped_events(model)).text, more);
	fprintf(out, "%-12s %s\n", "stack nodes",
		text_count(model->nodes.count ? model->nodes.count - 1 : 0).text);
	fprintf(out, "%-12s %s\n", "symbols", text_count(info->symbols).text);
	fprintf(out, "%-12s %s\n", "threads", text_count(model->threads.tids).text);
	for (size_t i = 0; i < model->pause_count; i++)
		fprintf(out, "paused +%s to +%s\n", text_time(model->pause[i].begin_ns).text,
			text_time(model->pause[i].end_ns).text);
	if (model->settle.is_there)
		fprintf(out, "%-12s for %s after the window, of %s wanted\n", "settled",
			text_time(model_settle_ns(&model->settle)).text,
			text_time(model->settle.wanted_ns).text);
	for (size_t i = 0; i < model->mark_count; i++) {
		fprintf(out, "mark +%s  ", text_time(model->mark[i].time_ns).text);
		text_foreign(text, model->mark[i].text, 1000);
		fputc('\n', out);
	}
	for (size_t i = 0; i < model->modules.count; i++)
		print_module(text, &model->modules.module[i]);
}

struct ht_err *cmd_info(const struct option_values *values)
{
	const char *path = values->operand[0];
	int fd;
	HT_TRY(cmd_open_trace(path, &fd));
	struct info info = {0};
	const struct model_observer observer = {.replay.context = &info, .symbol = count_symbol};
	struct ht_err *err = model_load(&info.model, fd, path, &observer);
	close(fd);
	struct cmd_output output;
	HT_THEN(err, cmd_output_open(values, &output));
	if (!err) {
		cmd_warn_model(&info.model);
		print(&output.text, &info);
		err = cmd_output_close(&output, "the information");
	}
	model_deinit(&info.model);
	return err;
}
