/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace of a capture: opened, finished with names and closed.
 */
#pragma once

#include "attach/trace/handover.h"
#include "attach/trace/symbols.h"
#include "attach/daemon/sink.h"

/* All borrowed until outlet_close. */
struct outlet_options {
	const char *output; /* path, or "-" */
	bool replace;	    /* may replace an existing file */
	uint64_t cull_ns;   /* blocks that live for less become sums; 0: none */
	bool symbolize;	    /* append names at the end */
	const struct proc *proc;
	const struct proc_status *status;
	int cancel_fd; /* readable: give up opening and flushing the output 1 s later */
	/* Called every few milliseconds while names are looked up. */
	void (*meanwhile)(void *context);
	void *context;
};

struct outlet {
	struct outlet_options options;
	struct sink *sink; /* NULL: not opened */
	struct symbols_target named;
	struct handover handover;
};

/* Opens the output (errors: sink_create), and reads now what is needed to name the target's
 * functions later. Call outlet_close also after an error. */
HT_MUST_CHECK
struct ht_err *outlet_open(struct outlet *outlet, const struct outlet_options *options);
/* Holds the files of modules, for names at the end; NULL: no names are wanted. */
static inline struct handover *outlet_handover(struct outlet *outlet)
{
	return outlet->options.symbolize ? &outlet->handover : NULL;
}
/* Hands over the target's files, and waits until names are looked up and all is written. */
void outlet_finish(struct outlet *outlet);
void outlet_close(struct outlet *outlet);
