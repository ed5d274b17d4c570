/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the answers of running captures, as text or as JSON.
 */
#pragma once

#include "attach/cli/options.h"
#include "attach/cli/print.h"
#include "attach/cli/print_metrics.h"
#include "format/control_client.h"

/* For status and list: any number of captures between begin and end. */
struct print_control {
	const struct options *options;
	json_t *captures;	      /* owned; with --json */
	struct print_metrics metrics; /* with --metrics */
	size_t count;
	bool lacks_memory;
};

void print_control_begin(struct print_control *print);
void print_control_capture(struct print_control *print, const struct control_reply *reply);
/* Adds a capture that did not answer. */
void print_control_silent(struct print_control *print, const struct control_client *client);
HT_MUST_CHECK
struct ht_err *print_control_end(struct print_control *print);

/* Prints on standard error what the capture does now, for a user who waits for its end. */
void print_control_phase(const struct options *options, const struct control_reply *reply);
/* Prints the result of a successful stop, pause, resume or mark. */
HT_MUST_CHECK
struct ht_err *print_control_done(const struct options *options, const struct control_reply *reply);
/* Prints the result of snapshot: the file, and `problem`, which names what the file lacks; "":
 * nothing. */
HT_MUST_CHECK
struct ht_err *print_control_snapshot(
	const struct options *options, const char *path, uint64_t bytes, const char *problem);
