/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/outlet.h"

#include <poll.h>

#include "attach/capture/steered.h"

static bool is_signalled(void *context)
{
	const struct session *s = context;
	struct pollfd wait = {.fd = s->signal_fd, .events = POLLIN};
	return poll(&wait, 1, 0) > 0;
}

/* A person who asks how the capture is may have to wait for a minute otherwise. */
static void answer_clients(void *context)
{
	steered_serve(context);
}

static struct ht_err *append_symbols(
	struct store *store, void *context, char *problem, size_t problem_bytes)
{
	const struct session *s = context;
	int files = s->handover.far >= 0 ? SCRIBE_KEPT_FD : -1;
	return symbols_append(store, &s->named, files, problem, problem_bytes);
}

struct ht_err *outlet_open(struct session *s)
{
	s->named = symbols_target_of(&s->survey.proc, &s->survey.status);
	handover_open(&s->handover, &s->survey.proc);
	s->named.has_root = s->handover.root >= 0;
	return sink_create(&(struct sink_options){.path = s->options->output,
				   .replace = s->options->replace,
				   .append = append_symbols,
				   .append_fd = s->handover.far,
				   .is_cancelled = is_signalled,
				   .meanwhile = answer_clients,
				   .context = s},
		&s->sink);
}

void outlet_finish(struct session *s)
{
	if (s->options->symbolize) {
		handover_send(&s->handover);
		steered_naming(s);
	}
	sink_finish(s->sink, s->options->symbolize);
}

void outlet_close(struct session *s)
{
	sink_destroy(s->sink);
	handover_close(&s->handover);
}
