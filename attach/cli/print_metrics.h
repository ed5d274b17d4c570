/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the answers of running captures in the text format of Prometheus: status --metrics.
 */
#pragma once

#include "format/control.h"

struct print_metrics {
	struct control_reply *reply; /* owned */
	size_t count, capacity;
	uint64_t silent;
};

/* Adds a capture, whose `user` the caller has checked; false: no memory. If one with the same user
 * and PID was added before, the new one counts as silent. */
bool print_metrics_add(struct print_metrics *metrics, const struct control_reply *reply);
/* Adds a capture that did not answer. */
void print_metrics_add_silent(struct print_metrics *metrics);
/* Prints all on standard output, one family of metrics after the other, and frees them. */
void print_metrics_end(struct print_metrics *metrics);
