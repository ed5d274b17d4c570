/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze anonymize: a copy of a trace without names.
 */
#include "analyzer/cmd_copy.h"
#include "analyzer/export/anonymize.h"

struct context {
	struct anonymizer *anonymizer;
	struct trace_writer *writer;
};

static struct ht_err *put(void *context, const struct rec *rec)
{
	struct context *to = context;
	return anonymizer_put(to->anonymizer, rec, to->writer);
}

struct ht_err *cmd_anonymize(const struct option_values *values)
{
	const struct model_observer observer = {0};
	struct cmd_copy copy;
	struct context context = {0};
	struct ht_err *err = cmd_copy_open(values, &observer, &copy);
	context.writer = copy.writer;
	HT_THEN(err, anonymizer_create(&copy.model, option_is_given(values, OPTION_KEEP_SYSTEM),
			     &context.anonymizer));
	HT_THEN(err, cmd_copy_each(&copy, put, &context));
	anonymizer_destroy(context.anonymizer);
	return cmd_copy_close(&copy, err);
}
