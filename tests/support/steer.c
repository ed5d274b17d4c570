/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/steer.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/report.h"
#include "tests/support/run.h"

#define LIMIT_MS 20000

int steer(const char *command, pid_t pid, const char *word, char **out, char **err)
{
	char number[16];
	snprintf(number, sizeof(number), "%d", pid);
	return run_program(
		(const char *[]){run_built("heaptap"), command, "-p", number, word, NULL}, LIMIT_MS,
		out, err);
}

void steer_do(const char *command, pid_t pid, const char *word)
{
	char *err;
	int status = steer(command, pid, word, NULL, &err);
	ck_assert_msg(status == 0, "%s ended with %d: %s", command, status, err);
	free(err);
}

json_t *steer_status(pid_t pid)
{
	json_t *status = report_run("status", pid, 0);
	ck_assert_str_eq(report_text(status, "schema"), "heaptap.status/1");
	ck_assert_uint_eq(json_array_size(report_at(status, "captures")), 1);
	json_t *capture = json_incref(json_array_get(report_at(status, "captures"), 0));
	json_decref(status);
	ck_assert_uint_eq(report_u64(capture, "pid"), (uint64_t)pid);
	return capture;
}

uint64_t steer_figure(pid_t pid, const char *name)
{
	json_t *capture = steer_status(pid);
	uint64_t figure = report_u64(capture, name);
	json_decref(capture);
	return figure;
}

void steer_check_state(pid_t pid, const char *state)
{
	json_t *capture = steer_status(pid);
	ck_assert_str_eq(report_text(capture, "state"), state);
	json_decref(capture);
}
