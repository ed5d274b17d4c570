/* SPDX-License-Identifier: Apache-2.0
 *
 * What running captures say, printed or as JSON.
 */
#pragma once

#include "attach/cli/options.h"
#include "attach/cli/print.h"
#include "attach/cli/print_metrics.h"
#include "format/control_client.h"

/* Of status and list: any number of captures between begin and end. */
struct print_control {
	const struct options *options;
	json_t *captures;	      /* owned; with --json */
	struct print_metrics metrics; /* with --metrics */
	size_t count;
	bool lacks_memory;
};

void print_control_begin(struct print_control *print);
void print_control_capture(struct print_control *print, const struct control_reply *reply);
/* One that did not answer. */
void print_control_silent(struct print_control *print, const struct control_client *client);
HT_MUST_CHECK
struct ht_err *print_control_end(struct print_control *print);

/* To stderr, for a person who waits for the end: what the capture does now. */
void print_control_phase(const struct options *options, const struct control_reply *reply);
/* Of stop, pause, resume and mark, which came to pass. */
HT_MUST_CHECK
struct ht_err *print_control_done(const struct options *options, const struct control_reply *reply);
/* Of snapshot: the file, and what is missing in it, "": nothing. */
HT_MUST_CHECK
struct ht_err *print_control_snapshot(
	const struct options *options, const char *path, uint64_t bytes, const char *problem);
