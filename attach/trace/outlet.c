/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/trace/outlet.h"

#include <poll.h>

static bool is_cancelled(void *context)
{
	const struct outlet *outlet = context;
	struct pollfd wait = {.fd = outlet->options.cancel_fd, .events = POLLIN};
	return poll(&wait, 1, 0) > 0;
}

static void call_meanwhile(void *context)
{
	const struct outlet *outlet = context;
	outlet->options.meanwhile(outlet->options.context);
}

static struct ht_err *append_symbols(
	struct store *store, void *context, char *problem, size_t problem_bytes)
{
	const struct outlet *outlet = context;
	int files = outlet->handover.far >= 0 ? SCRIBE_KEPT_FD : -1;
	return symbols_append(store, &outlet->named, files, problem, problem_bytes);
}

struct ht_err *outlet_open(struct outlet *outlet, const struct outlet_options *options)
{
	outlet->options = *options;
	outlet->named = symbols_target_of(options->proc, options->status);
	handover_open(&outlet->handover, options->proc);
	outlet->named.has_root = outlet->handover.root >= 0;
	return sink_create(&(struct sink_options){.path = options->output,
				   .replace = options->replace,
				   .cull_ns = options->cull_ns,
				   .append = append_symbols,
				   .append_fd = outlet->handover.far,
				   .is_cancelled = is_cancelled,
				   .meanwhile = call_meanwhile,
				   .context = outlet},
		&outlet->sink);
}

void outlet_finish(struct outlet *outlet)
{
	if (outlet->options.symbolize)
		handover_send(&outlet->handover);
	sink_finish(outlet->sink, outlet->options.symbolize);
}

void outlet_close(struct outlet *outlet)
{
	sink_destroy(outlet->sink);
	handover_close(&outlet->handover);
}
