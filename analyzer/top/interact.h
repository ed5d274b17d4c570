/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop of the interactive table: connects feed, screen and terminal.
 */
#pragma once

#include <signal.h>

#include "analyzer/top/feed.h"
#include "analyzer/top/screen.h"

/* Shows the table until the user ends it, a signal does, or the terminal is gone. The display is
 * open; `signals` is a signalfd of interact_signals, which are blocked. */
HT_MUST_CHECK
struct ht_err *interact_run(struct feed *feed, const struct listing_options *options, int signals);
/* Adds the signals that the interactive table receives. */
void interact_signals(sigset_t *set);
