/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/print_found.h"

#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "attach/cli/print.h"
#include "attach/proc/clock.h"

#define NAME_BYTES 33u
#define AGE_BYTES  32u
#define ROWS_MAX   40u

/* Reads /etc/passwd only: other name services may be slow, and a static program has none. */
static const char *user_name(uid_t user, char ret[NAME_BYTES])
{
	FILE *file = fopen("/etc/passwd", "re");
	snprintf(ret, NAME_BYTES, "%u", (unsigned)user);
	for (struct passwd *entry; file && (entry = fgetpwent(file)) != NULL;) {
		if (entry->pw_uid != user)
			continue;
		snprintf(ret, NAME_BYTES, "%s", entry->pw_name);
		break;
	}
	if (file)
		fclose(file);
	return ret;
}

static const char *age(uint64_t start_ticks, char ret[AGE_BYTES])
{
	const long ticks_per_s = sysconf(_SC_CLK_TCK);
	const uint64_t now_s = clock_read_ns(CLOCK_BOOTTIME) / CLOCK_NS_PER_S;
	const uint64_t start_s = start_ticks / (uint64_t)(ticks_per_s > 0 ? ticks_per_s : 100);
	const uint64_t s = now_s > start_s ? now_s - start_s : 0;
	if (s < 3600)
		snprintf(ret, AGE_BYTES, "%um%02us", (unsigned)(s / 60), (unsigned)(s % 60));
	else if (s < 86400)
		snprintf(ret, AGE_BYTES, "%uh%02um", (unsigned)(s / 3600), (unsigned)(s / 60 % 60));
	else
		snprintf(ret, AGE_BYTES, "%llud%02uh", (unsigned long long)(s / 86400),
			(unsigned)(s / 3600 % 24));
	return ret;
}

void print_found(const struct found_list *list)
{
	char user[NAME_BYTES], since[AGE_BYTES], size[PRINT_SIZE_BYTES];
	print_text(stderr, "%8s %-12s %8s %10s %s\n", "PID", "USER", "AGE", "RSS", "COMMAND");
	for (size_t i = 0; i < list->count && i < ROWS_MAX; i++) {
		const struct found *found = &list->process[i];
		/* One line for each process: the command contains no newline, but the name may. */
		char comm[sizeof(found->comm)];
		for (size_t at = 0; at < sizeof(comm); at++)
			comm[at] = (char)(found->comm[at] == '\n' ? ' ' : found->comm[at]);
		print_text(stderr, "%8d %-12s %8s %10s %s\n", (int)found->pid,
			user_name(found->user, user), age(found->start_ticks, since),
			print_size(found->rss_bytes, size),
			found->command[0] ? found->command : comm);
	}
	if (list->count > ROWS_MAX)
		print_text(stderr, "%8s and %zu more\n", "", list->count - ROWS_MAX);
}
