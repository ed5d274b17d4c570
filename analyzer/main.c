/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze: runs a command, prints its error, turns it into an exit code. Users type
 * heaptap, which executes this program; so all messages name heaptap.
 */
#include <stdio.h>
#include <string.h>

#include "analyzer/cmd.h"
#include "analyzer/commands.h"
#include "format/foreign.h"

static int exit_code(const struct ht_err *err)
{
	switch (err->code) {
	case HT_ERR_USAGE:
		return 2;
	case HT_ERR_FORMAT:
		return 9;
	case HT_ERR_REFUSED:
		return 3;
	case HT_ERR_PERMISSION:
		return 4;
	case HT_ERR_TARGET_GONE:
		return 5;
	case HT_ERR_INCOMPLETE:
		return 6;
	case HT_ERR_SYS:
	case HT_ERR_INTERNAL:
	case HT_ERR_NOMEM:
		break;
	}
	return 1;
}

int main(int argc, char **argv)
{
	struct ht_err *err = commands_run(argc - 1, argv + 1);
	err = ht_err_first(err, cmd_flush(stdout, "standard output"));
	if (!err)
		return cmd_exit_code();
	/* The message may contain names from the trace. */
	foreign_copy(err->message, strlen(err->message) + 1, err->message);
	fprintf(stderr, "heaptap: %s\n", err->message);
	int code = exit_code(err);
	ht_err_free(err);
	return code;
}
