/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/procsnap.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/gotwords.h"
#include "tests/support/run.h"

/* One comparable fact: `key` says about what, `value` says what. Ordered as the kernel lists them.
 */
struct fact {
	char *key, *value;
};

struct facts {
	struct fact *fact;
	size_t count;
};

struct procsnap {
	pid_t pid;
	unsigned flags;
	struct facts maps, text, fds, threads;
	struct gotwords words;
};

static void facts_add(struct facts *facts, const char *key, const char *value)
{
	facts->fact = realloc(facts->fact, (facts->count + 1) * sizeof(*facts->fact));
	ck_assert_ptr_nonnull(facts->fact);
	facts->fact[facts->count++] = (struct fact){strdup(key), strdup(value)};
}

static void facts_deinit(struct facts *facts)
{
	for (size_t i = 0; i < facts->count; i++) {
		free(facts->fact[i].key);
		free(facts->fact[i].value);
	}
	free(facts->fact);
}

static const char *facts_find(const struct facts *facts, const char *key)
{
	for (size_t i = 0; i < facts->count; i++)
		if (!strcmp(facts->fact[i].key, key))
			return facts->fact[i].value;
	return NULL;
}

static FILE *proc_open_text(pid_t pid, const char *name)
{
	char path[400];
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return fopen(path, "re");
}

/* A hash of what is mapped there now: FNV-1a over words. */
static uint64_t hash_memory(int mem_fd, uint64_t lo, uint64_t hi)
{
	static uint64_t buffer[1 << 15];
	uint64_t hash = 0xcbf29ce484222325u;
	while (lo < hi) {
		size_t want = hi - lo < sizeof(buffer) ? hi - lo : sizeof(buffer);
		ssize_t got = pread(mem_fd, buffer, want, (off_t)lo);
		if (got <= 0)
			return hash ^ lo; /* past the end of the file: nothing is there */
		for (size_t i = 0; i < (size_t)got / 8; i++)
			hash = (hash ^ buffer[i]) * 0x100000001b3u;
		lo += (uint64_t)got;
	}
	return hash;
}

static void read_maps(struct procsnap *snap)
{
	char line[4400], path[4096], perms[8], key[64], value[4300];
	snprintf(line, sizeof(line), "/proc/%d/mem", snap->pid);
	int mem_fd = open(line, O_RDONLY | O_CLOEXEC);
	FILE *maps = proc_open_text(snap->pid, "maps");
	ck_assert_msg(maps && mem_fd >= 0, "process %d cannot be read", snap->pid);
	uint64_t lo, hi, offset, inode;
	while (fgets(line, sizeof(line), maps)) {
		path[0] = '\0';
		int fields = sscanf(line, "%lx-%lx %7s %lx %*s %lu %4095[^\n]", &lo, &hi, perms,
			&offset, &inode, path);
		ck_assert_int_ge(fields, 5);
		bool exec = perms[2] == 'x';
		bool ours = strstr(path, "heaptap-") != NULL;
		if (!ours && inode == 0 && (!exec || (snap->flags & PROCSNAP_JIT)))
			continue;
		snprintf(key, sizeof(key), "%" PRIx64 "-%" PRIx64, lo, hi);
		snprintf(value, sizeof(value), "%s %" PRIx64 " %" PRIu64 " %s", perms, offset,
			inode, path);
		facts_add(&snap->maps, key, value);
		if (exec && perms[1] != 'w' && inode) {
			snprintf(value, sizeof(value), "%016" PRIx64, hash_memory(mem_fd, lo, hi));
			facts_add(&snap->text, key, value);
		}
	}
	fclose(maps);
	close(mem_fd);
}

static void read_fds(struct procsnap *snap)
{
	char path[320], link[4096];
	snprintf(path, sizeof(path), "/proc/%d/fd", snap->pid);
	DIR *dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", snap->pid, entry->d_name);
		ssize_t length = readlink(path, link, sizeof(link) - 1);
		if (length <= 0)
			continue;
		link[length] = '\0';
		if (!(snap->flags & PROCSNAP_FDS_CHANGE) || strstr(link, "heaptap-"))
			facts_add(&snap->fds, entry->d_name, link);
	}
	closedir(dir);
}

/* Tracer, stopped or not, and the signal masks of one thread. */
static bool read_thread(const struct procsnap *snap, const char *tid, char *value, size_t bytes)
{
	static const char *const wanted[] = {"TracerPid:", "SigBlk:", "SigIgn:", "SigCgt:"};
	char name[320], line[256];
	snprintf(name, sizeof(name), "task/%s/status", tid);
	FILE *status = proc_open_text(snap->pid, name);
	if (!status)
		return false;
	size_t used = 0;
	value[0] = '\0';
	while (fgets(line, sizeof(line), status)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "State:\t", 7) && strchr("tT", line[7]))
			used += (size_t)snprintf(value + used, bytes - used, "stopped ");
		for (size_t i = 0; i < HT_ARRAY_SIZE(wanted); i++)
			if (!strncmp(line, wanted[i], strlen(wanted[i])) &&
				!(i == 1 && (snap->flags & PROCSNAP_MASKS_CHANGE)))
				used += (size_t)snprintf(value + used, bytes - used, "%s ", line);
	}
	fclose(status);
	return true;
}

static void read_threads(struct procsnap *snap)
{
	char path[64], value[512];
	snprintf(path, sizeof(path), "/proc/%d/task", snap->pid);
	DIR *dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] != '.' &&
			read_thread(snap, entry->d_name, value, sizeof(value)))
			facts_add(&snap->threads, entry->d_name, value);
	closedir(dir);
}

struct procsnap *procsnap_take(pid_t pid, unsigned flags)
{
	struct procsnap *snap = calloc(1, sizeof(*snap));
	ck_assert_ptr_nonnull(snap);
	snap->pid = pid;
	snap->flags = flags;
	read_maps(snap);
	read_fds(snap);
	read_threads(snap);
	gotwords_read(pid, &snap->words);
	return snap;
}

void procsnap_destroy(struct procsnap *snap)
{
	if (!snap)
		return;
	facts_deinit(&snap->maps);
	facts_deinit(&snap->text);
	facts_deinit(&snap->fds);
	facts_deinit(&snap->threads);
	gotwords_deinit(&snap->words);
	free(snap);
}

static void diff_facts(FILE *out, const char *what, const struct facts *before,
	const struct facts *after, bool may_go, bool may_come)
{
	for (size_t i = 0; i < before->count; i++) {
		const char *now = facts_find(after, before->fact[i].key);
		if (now ? strcmp(now, before->fact[i].value) != 0 : !may_go)
			fprintf(out, "%s %s: was \"%s\", is \"%s\"\n", what, before->fact[i].key,
				before->fact[i].value, now ? now : "gone");
	}
	for (size_t i = 0; i < after->count; i++) {
		const struct fact *fact = &after->fact[i];
		if (facts_find(before, fact->key))
			continue;
		bool clean = !strstr(fact->value, "heaptap-") && !strstr(fact->value, "stopped") &&
			     (!strstr(fact->value, "TracerPid:") ||
				     strstr(fact->value, "TracerPid:\t0 "));
		if (!may_come || !clean)
			fprintf(out, "%s %s: new, \"%s\"\n", what, fact->key, fact->value);
	}
}

static void diff_words(FILE *out, const struct gotwords *before, const struct gotwords *after)
{
	size_t j = 0;
	for (size_t i = 0; i < before->count; i++) {
		const struct gotword *old = &before->word[i];
		while (j < after->count && after->word[j].addr != old->addr)
			j++;
		if (j == after->count) {
			fprintf(out, "slot %s in %s at %" PRIx64 " is gone\n", old->symbol,
				old->module, old->addr);
			return;
		}
		if (after->word[j].value != old->value && !old->lazy)
			fprintf(out, "slot %s in %s: was %" PRIx64 ", is %" PRIx64 "\n",
				old->symbol, old->module, old->value, after->word[j].value);
	}
}

char *procsnap_diff(const struct procsnap *before, const struct procsnap *after)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	ck_assert_ptr_nonnull(out);
	unsigned flags = before->flags;
	bool threads_change = flags & PROCSNAP_THREADS_CHANGE;
	diff_facts(
		out, "mapping", &before->maps, &after->maps, false, flags & PROCSNAP_MODULES_GROW);
	diff_facts(out, "text", &before->text, &after->text, false, flags & PROCSNAP_MODULES_GROW);
	diff_facts(out, "descriptor", &before->fds, &after->fds, false, false);
	diff_facts(
		out, "thread", &before->threads, &after->threads, threads_change, threads_change);
	diff_words(out, &before->words, &after->words);
	fclose(out);
	return text;
}

void procsnap_verify(struct procsnap *before, pid_t pid)
{
	struct procsnap *after = procsnap_take(pid, before->flags);
	char *difference = procsnap_diff(before, after);
	ck_assert_msg(!difference[0], "process %d is not as it was:\n%s", pid, difference);
	free(difference);
	procsnap_destroy(after);
	procsnap_destroy(before);
}
