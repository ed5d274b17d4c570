/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/jobs/push.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "attach/trace/symbols.h"
#include "attach/cli/print.h"
#include "format/helper.h"

#define NICE 10

struct ht_err *push_check(const struct push *push)
{
	return push->address[0] ? symbols_need_analyzer("--push") : NULL;
}

/* In the child: becomes heaptap-analyze push. Returns if that fails. */
static void execute(const struct push *push, const char *trace)
{
	char program[] = "heaptap", command[] = "push", to[] = "--to", quiet[] = "-q", end[] = "--";
	char *argv[2 * SERIES_PUSH_MAX + 6] = {program, command};
	size_t count = 2;
	for (size_t i = 0; i < SERIES_PUSH_MAX && push->address[i]; i++) {
		argv[count++] = to;
		argv[count++] = (char *)push->address[i];
	}
	if (push->quiet)
		argv[count++] = quiet;
	argv[count++] = end;
	argv[count++] = (char *)trace;
	helper_reset_signals();
	/* The target may need the processor. */
	setpriority(PRIO_PROCESS, 0, NICE);
	symbols_become_analyzer(argv);
}

void push_start(struct push *push, const char *trace)
{
	if (!push->address[0])
		return;
	if (crew_is_full(&push->crew)) {
		print_text(stderr,
			"WARNING: --push: %s is not sent: %u windows are still being sent\n", trace,
			CREW_MAX);
		return;
	}
	if (crew_fork(&push->crew, "--push") != 0)
		return;
	execute(push, trace);
	_exit(127);
}
