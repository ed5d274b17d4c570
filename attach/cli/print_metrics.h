/* SPDX-License-Identifier: Apache-2.0
 *
 * What running captures say, in the text format of Prometheus: status --metrics.
 */
#pragma once

#include "format/control.h"

struct print_metrics {
	struct control_reply *reply; /* owned */
	size_t count;
	uint64_t silent;
};

/* Adds a capture, whose `user` the caller has checked; false: no memory. One of the same user and
 * PID as another counts as silent. */
bool print_metrics_add(struct print_metrics *metrics, const struct control_reply *reply);
/* Adds a capture that did not answer. */
void print_metrics_add_silent(struct print_metrics *metrics);
/* Prints all on standard output, a family of metrics after the other, and frees them. */
void print_metrics_end(struct print_metrics *metrics);
