/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cmd_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "format/array.h"

struct ht_err *cmd_copy_open(const struct option_values *values,
	const struct model_observer *observer, struct cmd_copy *ret)
{
	const char *name = values->command->name, *trace = values->operand[0];
	const char *path = option_text(values, OPTION_OUTPUT, NULL);
	const char *const traces[] = {trace, NULL};
	*ret = (struct cmd_copy){.in = -1};
	if (!path)
		return ht_err_new(HT_ERR_USAGE, "%s: -o OUT is missing", name);
	HT_TRY(cmd_open_trace(trace, &ret->in));
	if (lseek(ret->in, 0, SEEK_CUR) < 0)
		return ht_err_new(HT_ERR_USAGE,
			"%s reads the trace twice, so it takes a file, no pipe", name);
	HT_TRY(cmd_file_open(path, traces, option_is_given(values, OPTION_FORCE), &ret->out));
	HT_TRY(model_load(&ret->model, ret->in, trace, observer));
	if (lseek(ret->in, 0, SEEK_SET) < 0)
		return ht_err_sys(errno, "cannot read %s", trace);
	cmd_warn_model(&ret->model);
	return trace_writer_create(fileno(ret->out.file), &ret->writer);
}

struct ht_err *cmd_copy_each(struct cmd_copy *copy,
	struct ht_err *(*sink)(void *context, const struct rec *rec), void *context)
{
	struct trace_reader *reader = NULL;
	enum trace_end how_ended = TRACE_MORE;
	HT_FREED struct rec *rec = malloc(sizeof(*rec));
	struct ht_err *err = rec ? trace_reader_create(copy->in, "the trace", &reader)
				 : ht_err_new(HT_ERR_NOMEM, "out of memory for a record");
	if (!err)
		trace_reader_limit(reader, copy->model.seen_bytes);
	while (!err && how_ended == TRACE_MORE) {
		err = trace_reader_next(reader, rec, &how_ended);
		if (!err && how_ended == TRACE_MORE)
			err = sink(context, rec);
	}
	trace_reader_destroy(reader);
	return err;
}

struct ht_err *cmd_copy_close(struct cmd_copy *copy, struct ht_err *err)
{
	/* A copy of a partial trace gets no footer, so that it is recognised as partial. */
	HT_THEN(err, copy->model.how_ended == TRACE_COMPLETE ? trace_writer_finish(copy->writer)
							     : trace_writer_flush(copy->writer));
	trace_writer_destroy(copy->writer);
	model_deinit(&copy->model);
	if (copy->out.file)
		err = cmd_file_close(&copy->out, err);
	if (copy->in >= 0)
		close(copy->in);
	*copy = (struct cmd_copy){.in = -1};
	return err;
}
