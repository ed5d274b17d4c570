/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/jobs/beside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/cli/print.h"
#include "attach/jobs/command.h"
#include "format/helper.h"

static void start(struct beside *beside)
{
	beside->pid = fork();
	if (beside->pid < 0) {
		print_text(stderr, "heaptap: %s was not started: %s\n", beside->words[0],
			strerror(errno));
		beside->is_over = true;
	}
	if (beside->pid)
		return;
	helper_reset_signals();
	const int sys = command_exec(beside->words);
	print_text(stderr, "heaptap: %s was not started: %s\n", beside->words[0], strerror(sys));
	_exit(127);
}

bool beside_is_over(void *context)
{
	struct beside *beside = context;
	int status;
	if (!beside->pid)
		start(beside);
	if (!beside->is_over)
		beside->is_over = helper_has_ended(beside->pid, &status);
	return beside->is_over;
}
