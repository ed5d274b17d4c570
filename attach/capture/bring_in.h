/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings the agent into the target and sets it up; no slot is hooked yet.
 */
#pragma once

#include "attach/capture/change.h"
#include "attach/capture/loads.h"
#include "attach/steer/options.h"
#include "attach/trace/scripts.h"
#include "attach/steer/times.h"
#include "attach/capture/watch.h"
#include "attach/daemon/receiver.h"
#include "attach/stub/remote.h"
#include "attach/undo/guardian.h"

/* heaptap's parts in the target, and its own end of them. */
struct inside {
	struct remote_slack slack;
	bool slack_written; /* the bootstrap stub may have been written into the target, which must
			       be cleaned */
	struct remote_image remote;
	struct image image;
	bool mapped; /* the target maps the image */
	struct receiver *receiver;
	struct watch *watch;
};

/* The parts of a capture that bring_in reads and changes; all borrowed. */
struct bring_in_use {
	const struct session_options *options;
	const struct times *times;
	struct survey *survey;
	struct entries *entries;
	struct publish *publish;
	const struct agent_elf *elf;
	struct guardian *guardian;
	struct journal *journal;
	struct loads *loads;
	struct scripts *scripts;
	const struct change *change;
	struct sink *sink;
};

/* Maps the agent's image into the target and configures it. After an error, `inside` says what is
 * still to be removed from the target. In both cases the caller destroys receiver and watch,
 * deinitialises `image`, and closes the descriptors of `remote`. `inside` is zeroed before, with -1
 * for the descriptors of `remote`. */
HT_MUST_CHECK
struct ht_err *bring_in(const struct bring_in_use *use, struct inside *inside);
