/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/snapchange.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/procsnap.h"
#include "tests/support/run.h"

#define STOP_MS 20000

int snapchange_gate;

struct making {
	const struct snapchange *change;
	bool (*prepare)(void);
};

static void make(const void *arg)
{
	const struct making *making = arg;
	char go;
	if (making->prepare && !making->prepare())
		_exit(1);
	child_ready(0);
	if (read(snapchange_gate, &go, 1) != 1 || !making->change->make() ||
		write(snapchange_gate, "x", 1) != 1)
		_exit(1);
	child_wait();
}

/* Does a line `was "...", is "..."` first differ in this field? No other field name may begin
 * between this name and the difference. */
static bool field_differs(const char *line, const char *field)
{
	const char *is = strstr(line, "\", is \"");
	const char *old = strstr(line, field), *now = is ? strstr(is, field) : NULL;
	if (!old || !now || old > is)
		return false;
	old += strlen(field);
	now += strlen(field);
	while (*old == *now && *old != ':' && *old != ';' && *old != '\n')
		old++, now++;
	return *old != *now;
}

bool snapchange_is_shown(const char *difference, const char *beginning, const char *field)
{
	for (const char *line = difference; *line; line = strchr(line, '\n') + 1)
		if (!strncmp(line, beginning, strlen(beginning)) &&
			(!field || field_differs(line, field)))
			return true;
	return false;
}

void snapchange_check(
	const struct snapchange *change, bool (*prepare)(void), size_t number, unsigned flags)
{
	const struct making making = {change, prepare};
	int gate[2];
	char done;
	if (change->root && geteuid() != 0) {
		printf("skipped: snapshot: only root can make change %zu\n", number);
		return;
	}
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, gate), 0);
	snapchange_gate = gate[0];
	struct child child = child_fork(make, &making);
	struct procsnap *before = procsnap_take(child.pid, flags);
	ck_assert_int_eq(write(gate[1], "x", 1), 1);
	ck_assert_msg(read(gate[1], &done, 1) == 1, "change %zu was not made", number);
	run_until(strchr("ST", child_state(child.pid)), STOP_MS);
	struct procsnap *after = procsnap_take(child.pid, flags);
	char *difference = procsnap_diff(before, after);
	ck_assert_msg(change->seen ? snapchange_is_shown(difference, change->seen, change->field)
				   : !difference[0],
		"change %zu: \"%s\"", number, difference);
	free(difference);
	procsnap_destroy(before);
	procsnap_destroy(after);
	child_kill(&child);
	close(gate[0]);
	close(gate[1]);
}
