/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/progress.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "attach/cli/print.h"

#define NS_PER_S      1000000000ull
#define NEAR_MINUTES  60u /* warn if the disk becomes full within this time */
#define COLUMNS_USUAL 80u

/* Appends a part, or nothing if it does not fit. */
HT_PRINTF(3, 4)
static void add(char *text, size_t columns, const char *fmt, ...)
{
	char part[96];
	const size_t length = strlen(text);
	va_list args;
	va_start(args, fmt);
	const int got = vsnprintf(part, sizeof(part), fmt, args);
	va_end(args);
	if (got > 0 && length + (size_t)got <= columns && length + (size_t)got < PROGRESS_BYTES)
		memcpy(text + length, part, (size_t)got + 1);
}

/* "12 s", "3:05", "2:03:05". */
static const char *time_text(uint64_t ns, char ret[32])
{
	const unsigned long s = (unsigned long)(ns / NS_PER_S);
	if (s < 60)
		snprintf(ret, 32, "%lu s", s);
	else if (s < 3600)
		snprintf(ret, 32, "%lu:%02lu", s / 60, s % 60);
	else
		snprintf(ret, 32, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
	return ret;
}

static const char *count_text(uint64_t count, char ret[32])
{
	if (count < 10000)
		snprintf(ret, 32, "%lu", (unsigned long)count);
	else if (count < 10000000)
		snprintf(ret, 32, "%luk", (unsigned long)(count / 1000));
	else
		snprintf(ret, 32, "%luM", (unsigned long)(count / 1000000));
	return ret;
}

/* Writes a rate, with one decimal only below 10. */
static const char *rate_text(uint64_t bytes, char ret[PRINT_SIZE_BYTES])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double amount = (double)bytes;
	size_t unit = 0;
	for (; amount >= 1000 && unit + 1 < HT_ARRAY_SIZE(units); unit++)
		amount /= 1024;
	snprintf(ret, PRINT_SIZE_BYTES, "%.*f %s", unit && amount < 10, amount, units[unit]);
	return ret;
}

static void add_growth(char *text, size_t columns, const struct control_reply *status)
{
	char size[PRINT_SIZE_BYTES], rate[PRINT_SIZE_BYTES];
	const bool grew = status->rss_bytes >= status->rss_first_bytes;
	const uint64_t change = grew ? status->rss_bytes - status->rss_first_bytes
				     : status->rss_first_bytes - status->rss_bytes;
	if (!status->rss_bytes || !status->rss_first_bytes)
		return;
	add(text, columns, ", RSS %c%s", grew ? '+' : '-', print_size(change, size));
	if (status->elapsed_ns >= NS_PER_S)
		add(text, columns, " (%c%s/min)", grew ? '+' : '-',
			rate_text((uint64_t)((double)change * 60 * NS_PER_S /
					     (double)status->elapsed_ns),
				rate));
}

void progress_text(const struct control_reply *status, uint64_t free_bytes, size_t columns,
	char ret[PROGRESS_BYTES])
{
	char size[PRINT_SIZE_BYTES], now[32], all[32];
	const uint64_t per_min = status->trace_bytes_per_min;
	ret[0] = '\0';
	add(ret, columns, "%s%s", status->paused ? "paused, " : "",
		time_text(status->elapsed_ns, now));
	if (status->duration_ns)
		add(ret, columns, " of %s", time_text(status->duration_ns, all));
	if (free_bytes != UINT64_MAX && per_min && free_bytes / per_min < NEAR_MINUTES)
		add(ret, columns, ", DISK FULL in %lu min", (unsigned long)(free_bytes / per_min));
	if (status->dropped)
		add(ret, columns, ", %s LOST", count_text(status->dropped, now));
	add_growth(ret, columns, status);
	add(ret, columns, ", %s events/s", count_text(status->events_per_s, now));
	add(ret, columns, ", %s", print_size(status->trace_bytes, size));
	add(ret, columns, " (%s/min)", rate_text(per_min, size));
}

/* --- the terminal ----------------------------------------------------------------------------- */

static uint64_t free_of(const struct progress *progress)
{
	char directory[4096];
	struct statvfs info;
	if (strcmp(progress->output, "-") == 0)
		return UINT64_MAX;
	snprintf(directory, sizeof(directory), "%s", progress->output);
	char *slash = strrchr(directory, '/');
	if (slash)
		slash[slash == directory] = '\0';
	if (statvfs(slash ? directory : ".", &info) != 0)
		return UINT64_MAX;
	const uint64_t left = (uint64_t)info.f_bavail * info.f_frsize;
	return left > progress->reserve_bytes ? left - progress->reserve_bytes : 0;
}

static size_t terminal_columns(void)
{
	struct winsize size;
	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col
									   : COLUMNS_USUAL;
}

/* Does the terminal accept output? One that was stopped (^S) must not keep heaptap in the
 * target. */
static bool takes_words(void)
{
	struct pollfd terminal = {.fd = STDERR_FILENO, .events = POLLOUT};
	return poll(&terminal, 1, 0) == 1 && terminal.revents & POLLOUT;
}

/* Overwrites the rest of a longer line with blanks, which any terminal understands. */
static void put(struct progress *progress, const char *text)
{
	const int length = (int)strlen(text);
	const int rest = (int)progress->shown > length ? (int)progress->shown - length : 0;
	if (!takes_words())
		return;
	fprintf(stderr, "\r%s%*s", text, rest, "");
	if (rest)
		fprintf(stderr, "\r%s", text);
	fflush(stderr);
	progress->shown = (size_t)length;
}

void progress_show(void *context, const struct control_reply *status)
{
	struct progress *progress = context;
	char text[PROGRESS_BYTES];
	if (status->phase != CONTROL_RECORDING)
		return;
	progress_text(status, free_of(progress), terminal_columns() - 1, text);
	put(progress, text);
}

static struct progress *current;

void progress_begin(struct progress *progress)
{
	current = progress;
}

void progress_say(const char *line)
{
	if (current)
		progress_clear(current);
	if (takes_words())
		print_text(stderr, "heaptap: %s\n", line);
}

void progress_clear(struct progress *progress)
{
	if (!progress->shown)
		return;
	put(progress, "");
	if (takes_words()) {
		fputc('\r', stderr);
		fflush(stderr);
	}
}
