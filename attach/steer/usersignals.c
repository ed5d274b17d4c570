/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/steer/usersignals.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "attach/proc/fd.h"
#include "format/helper.h"

#define TRACE_END ".htap"
#define NAME_END  ".snapshot.%n.htap"

void usersignals_open(struct usersignals *signals)
{
	sigset_t set;
	*signals = USERSIGNALS_NONE;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

struct usersignals_taken usersignals_take(const struct usersignals *signals)
{
	struct usersignals_taken taken = {0};
	struct signalfd_siginfo info;
	while (signals->fd >= 0 &&
		read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		taken.snapshot |= info.ssi_signo == SIGUSR1;
		taken.pause |= info.ssi_signo == SIGUSR2;
	}
	return taken;
}

bool usersignals_name(const char *trace, char *ret, size_t bytes)
{
	size_t length = strlen(trace), end = strlen(TRACE_END), at = 0;
	if (length > end && strcmp(trace + length - end, TRACE_END) == 0)
		length -= end;
	for (size_t i = 0; i < length; i++) {
		if (at + 2 > bytes)
			return false;
		if (trace[i] == '%')
			ret[at++] = '%';
		ret[at++] = trace[i];
	}
	int put = snprintf(ret + at, bytes - at, "%s", NAME_END);
	return (size_t)put < bytes - at;
}

void usersignals_reap(struct usersignals *signals)
{
	int status;
	if (signals->snapshot && helper_has_ended(signals->snapshot, &status))
		signals->snapshot = 0;
}

void usersignals_snapshot(struct usersignals *signals, pid_t pid, const char *trace)
{
	char program[] = "heaptap", command[] = "snapshot", process[] = "-p", output[] = "-o";
	char number[16], name[PATH_MAX];
	char *argv[] = {program, command, process, number, output, name, NULL};
	usersignals_reap(signals);
	if (signals->snapshot || !usersignals_name(trace, name, sizeof(name)))
		return;
	snprintf(number, sizeof(number), "%d", (int)pid);
	signals->snapshot = helper_spawn_self(argv, false);
}

/* A snapshot that still runs goes on, as a child of init. */
void usersignals_close(struct usersignals *signals)
{
	usersignals_reap(signals);
	fd_close(&signals->fd);
}
