/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/naming.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "attach/proc/proc.h"
#include "attach/proc/proc_status.h"
#include "attach/process/proc_open.h"

#define DEFAULT_PATTERN "heaptap.%c.%p.%t.htap"
#define LETTERS		"pcht%n"
#define SUFFIX		".htap"
#define NUMBER_MAX	1000000u

/* The values of the letters in a pattern. */
struct facts {
	pid_t pid;
	char comm[64], host[256], when[32];
	unsigned number; /* 0: not determined yet */
};

/* Replaces characters that mean something to a shell, or lead into another directory. */
static void make_plain(char *text)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	for (; *text; text++)
		if (!strchr(plain, *text))
			*text = '_';
}

struct ht_err *naming_check(const char *pattern)
{
	for (const char *at = strchr(pattern, '%'); at; at = strchr(at + 2, '%'))
		if (!at[1] || !strchr(LETTERS, at[1]))
			return ht_err_new(HT_ERR_USAGE,
				"%s: %% must be followed by p, c, h, t, n or another %%", pattern);
	return NULL;
}

static bool has_letter(const char *pattern, char letter)
{
	pattern = pattern ? pattern : DEFAULT_PATTERN;
	for (const char *at = strchr(pattern, '%'); at && at[1]; at = strchr(at + 2, '%'))
		if (at[1] == letter)
			return true;
	return false;
}

bool naming_has_pid(const char *pattern)
{
	return has_letter(pattern, 'p');
}

bool naming_tells_windows_apart(const char *pattern)
{
	return has_letter(pattern, 't') || has_letter(pattern, 'n');
}

/* If the process has ended, nothing was touched: makes HT_ERR_TARGET_GONE a refusal. */
static struct ht_err *refuse_ended(pid_t pid, struct ht_err *err)
{
	if (err->code != HT_ERR_TARGET_GONE)
		return err;
	ht_err_free(err);
	return ht_err_new(HT_ERR_REFUSED, "process %d ended before heaptap touched it", (int)pid);
}

static struct ht_err *read_comm(pid_t pid, char comm[64])
{
	struct proc proc;
	struct proc_status status;
	struct ht_err *err = proc_open(pid, &proc);
	HT_THEN(err, proc_status(&proc, 0, &status));
	proc_close(&proc);
	if (err)
		return refuse_ended(pid, err);
	memcpy(comm, status.comm, sizeof(status.comm));
	make_plain(comm);
	return NULL;
}

static struct ht_err *read_facts(pid_t pid, struct facts *ret)
{
	time_t now = time(NULL);
	struct tm local;

	*ret = (struct facts){.pid = pid};
	if (gethostname(ret->host, sizeof(ret->host) - 1) < 0)
		snprintf(ret->host, sizeof(ret->host), "localhost");
	make_plain(ret->host);
	if (localtime_r(&now, &local))
		strftime(ret->when, sizeof(ret->when), "%Y%m%dT%H%M%S", &local);
	return read_comm(pid, ret->comm);
}

static void put(FILE *out, char letter, struct facts *facts)
{
	facts->number += letter == 'n' && facts->number == 0;
	if (letter == 'p' || letter == 'n')
		fprintf(out, "%u", letter == 'p' ? (unsigned)facts->pid : facts->number);
	else
		fputs(letter == 'c'	? facts->comm
			: letter == 'h' ? facts->host
			: letter == 't' ? facts->when
					: "%",
			out);
}

static char *fill_in(const char *pattern, struct facts *facts)
{
	char *name = NULL;
	size_t length;
	FILE *out = open_memstream(&name, &length);

	if (!out)
		return NULL;
	for (const char *at = pattern; *at; at++)
		if (*at == '%')
			put(out, *++at, facts);
		else
			fputc(*at, out);
	if (fclose(out) == 0)
		return name;
	free(name);
	return NULL;
}

struct ht_err *naming_expand(const char *pattern, pid_t pid, char **ret)
{
	struct facts facts;

	pattern = pattern ? pattern : DEFAULT_PATTERN;
	HT_TRY(naming_check(pattern));
	HT_TRY(read_facts(pid, &facts));
	*ret = fill_in(pattern, &facts);
	while (*ret && facts.number && facts.number < NUMBER_MAX &&
		faccessat(AT_FDCWD, *ret, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		free(*ret);
		facts.number++;
		*ret = fill_in(pattern, &facts);
	}
	return *ret ? NULL : ht_err_new(HT_ERR_NOMEM, "no memory for the name of the trace");
}

char *naming_number(const char *name, unsigned number, int digits)
{
	char *numbered;
	size_t length = strlen(name), end = sizeof(SUFFIX) - 1;
	size_t stem = length > end && !strcmp(name + length - end, SUFFIX) ? length - end : length;
	int got = asprintf(&numbered, "%.*s.%0*u%s", (int)stem, name, digits, number, name + stem);
	return got < 0 ? NULL : numbered;
}
