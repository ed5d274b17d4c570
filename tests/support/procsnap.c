/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/procsnap.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/facts.h"
#include "tests/support/gotwords.h"
#include "tests/support/looks.h"
#include "tests/support/run.h"

#define NAMES_ONLY (1u << 31) /* no hash of the program's text */

#define READ_ONLY_MAX (4u << 20) /* hashes no larger read-only data; RELRO is smaller */
#define LITTLE_BYTES  (1u << 20)
#define ALONE_BYTES   (64u << 20) /* programs leave such gaps only on purpose */

struct procsnap {
	pid_t pid;
	unsigned flags;
	struct facts maps, pages, text, fds, threads, robust, process, sockets;
	struct gotwords words;
};

static FILE *proc_open_text(pid_t pid, const char *name)
{
	char path[400];
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return fopen(path, "re");
}

/* Hashes the memory's current contents: FNV-1a over words. */
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

static bool is_changing(const struct procsnap *snap, const char *path)
{
	return ((snap->flags & PROCSNAP_PLUG_CHANGES) && strstr(path, "/libplug.so")) ||
	       ((snap->flags & PROCSNAP_FILE_CHANGES) && strstr(path, "/memfd:mapped"));
}

/* True for code, constants and RELRO, whose bytes must not change. */
static bool has_fixed_bytes(const char perms[8], uint64_t bytes)
{
	return perms[0] == 'r' && perms[1] != 'w' &&
	       (perms[2] == 'x' || (perms[3] == 'p' && bytes <= READ_ONLY_MAX));
}

struct span {
	uint64_t lo, hi;
	bool anonymous;
};

static void note_alone(
	struct facts *alone, const struct span *before, const struct span *at, uint64_t next_lo)
{
	char key[64];
	if (!at->anonymous || at->hi - at->lo > LITTLE_BYTES || at->lo - before->hi < ALONE_BYTES ||
		next_lo - at->hi < ALONE_BYTES)
		return;
	snprintf(key, sizeof(key), "%" PRIx64 "-%" PRIx64, at->lo, at->hi);
	facts_add(alone, key, "alone");
}

static void find_alone(pid_t pid, struct facts *ret)
{
	char line[4400], path[8];
	struct span before = {0}, last = {0};
	uint64_t lo, hi, inode;
	FILE *maps = proc_open_text(pid, "maps");
	while (maps && fgets(line, sizeof(line), maps)) {
		path[0] = '\0';
		int fields = sscanf(line, "%lx-%lx %*s %*s %*s %lu %7s", &lo, &hi, &inode, path);
		ck_assert_int_ge(fields, 3);
		note_alone(ret, &before, &last, lo);
		before = last;
		last = (struct span){lo, hi, !inode && !path[0]};
	}
	if (maps)
		fclose(maps);
}

/* Ignores most anonymous memory, which every program maps and unmaps. A small mapping between wide
 * gaps is different: a part of heaptap's image would look so. Reads twice and keeps what both
 * readings show, because a single reading may show only one part of an arena that is growing. */
static void read_alone(struct procsnap *snap)
{
	struct facts once = {0}, twice = {0};
	if (snap->flags & PROCSNAP_JIT)
		return;
	find_alone(snap->pid, &once);
	if (once.count)
		find_alone(snap->pid, &twice);
	for (size_t i = 0; i < twice.count; i++)
		if (facts_find(&once, twice.fact[i].key))
			facts_add(&snap->maps, twice.fact[i].key, "alone");
	facts_deinit(&once);
	facts_deinit(&twice);
}

/* The code mappings of files that one pass over maps or smaps has met so far. */
struct code {
	struct {
		uint64_t inode, from, to; /* offsets in the file */
	} part[512];
	size_t count;
};

/* V8 maps the code of its builtins a second time, into the code range of each new isolate. With
 * PROCSNAP_JIT the comparison ignores such mappings, like generated code. */
static bool is_second(const struct procsnap *snap, struct code *code, const char *perms,
	uint64_t inode, uint64_t from, uint64_t to)
{
	if (!(snap->flags & PROCSNAP_JIT) || perms[2] != 'x' || !inode)
		return false;
	for (size_t i = 0; i < code->count; i++)
		if (code->part[i].inode == inode && code->part[i].from <= from &&
			to <= code->part[i].to)
			return true;
	if (code->count < HT_ARRAY_SIZE(code->part)) {
		code->part[code->count].inode = inode;
		code->part[code->count].from = from;
		code->part[code->count++].to = to;
	}
	return false;
}

static void read_maps(struct procsnap *snap)
{
	struct code code = {.count = 0};
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
		bool ours = strstr(path, FACTS_OURS) != NULL;
		if (is_changing(snap, path) ||
			is_second(snap, &code, perms, inode, offset, offset + (hi - lo)))
			continue;
		if (!ours && inode == 0 && (!exec || (snap->flags & PROCSNAP_JIT)) &&
			!(snap->flags & PROCSNAP_STILL))
			continue;
		snprintf(key, sizeof(key), "%" PRIx64 "-%" PRIx64, lo, hi);
		snprintf(value, sizeof(value), "%s %" PRIx64 " %" PRIu64 " %s", perms, offset,
			inode, path);
		facts_add(&snap->maps, key, value);
		if (inode && has_fixed_bytes(perms, hi - lo) && !(snap->flags & NAMES_ONLY)) {
			snprintf(value, sizeof(value), "%016" PRIx64, hash_memory(mem_fd, lo, hi));
			facts_add(&snap->text, key, value);
		}
	}
	fclose(maps);
	close(mem_fd);
	read_alone(snap);
}

/* Reads, of read-only mappings of files, VmFlags, which madvise and mlock change, and the size of
 * the pages that were written to. Not that size for code: the page that held a stub stays a private
 * copy with the file's bytes. */
static void read_pages(struct procsnap *snap)
{
	static const char *const wanted[] = {"VmFlags:", "Anonymous:"};
	char line[4400], path[4096], key[64] = "", perms[8] = "", value[512] = "";
	struct code code = {.count = 0};
	FILE *smaps = proc_open_text(snap->pid, "smaps");
	ck_assert_ptr_nonnull(smaps);
	bool kept = false;
	while (fgets(line, sizeof(line), smaps)) {
		uint64_t lo, hi, offset, inode;
		line[strcspn(line, "\n")] = '\0';
		path[0] = '\0';
		if (sscanf(line, "%lx-%lx %7s %lx %*s %lu %4095[^\n]", &lo, &hi, perms, &offset,
			    &inode, path) >= 5) {
			kept = inode && perms[1] != 'w' && !is_changing(snap, path) &&
			       !is_second(snap, &code, perms, inode, offset, offset + (hi - lo));
			snprintf(key, sizeof(key), "%" PRIx64 "-%" PRIx64, lo, hi);
			value[0] = '\0';
			continue;
		}
		size_t used = strlen(value);
		for (size_t i = 0; kept && i < (perms[2] == 'x' ? 1 : HT_ARRAY_SIZE(wanted)); i++)
			if (!strncmp(line, wanted[i], strlen(wanted[i])))
				snprintf(value + used, sizeof(value) - used, "%.120s ", line);
		if (kept && !strncmp(line, "VmFlags:", 8))
			facts_add(&snap->pages, key, value);
	}
	fclose(smaps);
}

/* Adds the sockets that heaptap has bound for this process. They are abstract: heaptap makes no
 * socket files. Closes `file`. */
static void add_sockets(struct procsnap *snap, FILE *file)
{
	char line[512], lock[32], agent[32];
	snprintf(lock, sizeof(lock), "@heaptap-%d-", snap->pid);
	snprintf(agent, sizeof(agent), "@heaptap-agent-%d-", snap->pid);
	while (file && fgets(line, sizeof(line), file)) {
		char *name = strchr(line, '@');
		line[strcspn(line, "\n")] = '\0';
		if (name && (!strncmp(name, lock, strlen(lock)) ||
				    !strncmp(name, agent, strlen(agent))))
			facts_add(&snap->sockets, name, "");
	}
	if (file)
		fclose(file);
}

/* Adds the contents of `file` as one line. Closes `file`. */
static void add_text(struct facts *facts, const char *key, FILE *file)
{
	char text[4096];
	size_t got = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[got] = '\0';
	for (char *end; (end = strchr(text, '\n'));)
		*end = ';';
	facts_add(facts, key, text);
	if (file)
		fclose(file);
}

/* Reads properties of the whole process, which heaptap must not change, and the kernel's taint. */
static void read_process(struct procsnap *snap)
{
	static const char *const files[] = {"limits", "personality", "timerslack_ns",
		"oom_score_adj", "cgroup", "coredump_filter", "autogroup"};
	static const char *const links[] = {"cwd", "root", "exe", "ns/user", "ns/pid_for_children",
		"ns/mnt", "ns/net", "ns/ipc", "ns/uts", "ns/cgroup"};
	char path[64], text[4096];
	for (size_t i = 0; i < HT_ARRAY_SIZE(files); i++)
		add_text(&snap->process, files[i], proc_open_text(snap->pid, files[i]));
	add_text(&snap->process, "tainted", fopen("/proc/sys/kernel/tainted", "re"));
	/* heaptap's network namespace is the test's; the process may have its own. */
	add_sockets(snap, fopen("/proc/net/unix", "re"));
	add_sockets(snap, proc_open_text(snap->pid, "net/unix"));
	for (size_t i = 0; i < HT_ARRAY_SIZE(links); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", snap->pid, links[i]);
		ssize_t length = readlink(path, text, sizeof(text) - 1);
		text[length > 0 ? length : 0] = '\0';
		facts_add(&snap->process, links[i], text);
	}
}

/* Did the target inherit this open file from the test? The test's other children share it and may
 * move its offset. */
static bool is_inherited(const struct procsnap *snap, const char *fd)
{
	unsigned long number = strtoul(fd, NULL, 10);
	return !syscall(SYS_kcmp, getpid(), snap->pid, KCMP_FILE, number, number);
}

/* Reads what dup, fcntl, read and locks change of a descriptor. `task`: "" or "task/TID/". */
static void read_fd_info(
	const struct procsnap *snap, const char *task, const char *fd, char *value, size_t bytes)
{
	char name[320], line[256];
	snprintf(name, sizeof(name), "%sfdinfo/%s", task, fd);
	FILE *info = proc_open_text(snap->pid, name);
	size_t used = strlen(value);
	bool moves = (snap->flags & PROCSNAP_FILES_MOVE) || is_inherited(snap, fd);
	while (info && used < bytes && fgets(line, sizeof(line), info)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "flags:", 6) || !strncmp(line, "lock:", 5) ||
			(!strncmp(line, "pos:", 4) && !moves))
			used += (size_t)snprintf(value + used, bytes - used, " %s", line);
	}
	if (info)
		fclose(info);
}

/* Adds a descriptor of the process's table (task ""), or one of a thread's own table that the
 * process's table lacks or has with another value. */
static void add_fd(struct procsnap *snap, const char *task, const char *fd, const char *value)
{
	char key[320];
	const char *shared = facts_find(&snap->fds, fd);
	snprintf(key, sizeof(key), "%s%s", task, fd);
	if (!task[0] || !shared || strcmp(shared, value) != 0)
		facts_add(&snap->fds, key, value);
}

static void read_table(struct procsnap *snap, const char *task)
{
	char path[360], link[4096];
	snprintf(path, sizeof(path), "/proc/%d/%sfd", snap->pid, task);
	DIR *dir = opendir(path);
	ck_assert(dir || task[0]);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		snprintf(path, sizeof(path), "/proc/%d/%sfd/%s", snap->pid, task, entry->d_name);
		ssize_t length = readlink(path, link, sizeof(link) - 1);
		if (length <= 0)
			continue;
		link[length] = '\0';
		if (!(snap->flags & PROCSNAP_FDS_CHANGE))
			read_fd_info(snap, task, entry->d_name, link, sizeof(link));
		if (!(snap->flags & PROCSNAP_FDS_CHANGE) || strstr(link, FACTS_OURS))
			add_fd(snap, task, entry->d_name, link);
	}
	if (dir)
		closedir(dir);
}

static void read_fds(struct procsnap *snap)
{
	char path[300];
	read_table(snap, "");
	snprintf(path, sizeof(path), "/proc/%d/task", snap->pid);
	DIR *dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		snprintf(path, sizeof(path), "task/%d/", tid);
		if (tid && syscall(SYS_kcmp, snap->pid, tid, KCMP_FILES, 0, 0) > 0)
			read_table(snap, path);
	}
	closedir(dir);
}

/* Reads how a thread is scheduled: policy, nice value, real-time priority, time slice. */
static void read_schedule(const char *tid, char *value, size_t bytes)
{
	uint32_t words[12] = {0}; /* struct sched_attr, which glibc before 2.41 does not declare */
	if (syscall(SYS_sched_getattr, (pid_t)strtol(tid, NULL, 10), words, sizeof(words), 0))
		return;
	size_t used = strlen(value);
	snprintf(value + used, bytes - used, "policy %u nice %d priority %u turn %u", words[1],
		(int)words[4], words[5], words[6]);
}

/* May this field of a thread's status differ, because `flags` say that the program changes it by
 * itself? */
static bool is_let_pass(unsigned flags, const char *field)
{
	static const struct {
		unsigned flag;
		const char *field;
	} passes[] = {{PROCSNAP_MASKS_CHANGE, "SigBlk:"}, {PROCSNAP_MASKS_CHANGE, "SigPnd:"},
		{PROCSNAP_MASKS_CHANGE, "ShdPnd:"}, {PROCSNAP_SYSTEM_CALLED, "SigIgn:"},
		{PROCSNAP_FDS_CHANGE, "FDSize:"}, {PROCSNAP_FILTERED, "NoNewPrivs:"},
		{PROCSNAP_FILTERED, "Seccomp:"}, {PROCSNAP_FILTERED, "Seccomp_filters:"}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(passes); i++)
		if ((flags & passes[i].flag) && !strcmp(field, passes[i].field))
			return true;
	return false;
}

/* Reads one thread's tracer, whether it is stopped, the fields `wanted` of its status, and its
 * scheduling. False: it has ended. */
static bool read_thread(const struct procsnap *snap, const char *tid, char *value, size_t bytes)
{
	static const char *const wanted[] = {"TracerPid:", "SigBlk:", "SigIgn:", "SigCgt:", "Uid:",
		"Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:",
		"NoNewPrivs:", "Seccomp:", "Seccomp_filters:", "FDSize:", "Cpus_allowed:",
		"THP_enabled:", "x86_Thread_features:", "SigPnd:", "ShdPnd:", "VmLck:", "VmPin:"};
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
				!is_let_pass(snap->flags, wanted[i]))
				used += (size_t)snprintf(value + used, bytes - used, "%s ", line);
	}
	fclose(status);
	read_schedule(tid, value, bytes);
	return true;
}

/* The robust list: the kernel walks it when a thread ends with locks held. A new thread has not
 * registered a list yet. */
static void read_robust_list(struct procsnap *snap, const char *tid)
{
	void *head = NULL;
	size_t length = 0;
	char value[64];
	if (syscall(SYS_get_robust_list, (pid_t)strtol(tid, NULL, 10), &head, &length) || !head)
		return;
	snprintf(value, sizeof(value), "%p length %zu", head, length);
	facts_add(&snap->robust, tid, value);
}

static void read_threads(struct procsnap *snap)
{
	char path[64], value[2048];
	snprintf(path, sizeof(path), "/proc/%d/task", snap->pid);
	DIR *dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] != '.' &&
			read_thread(snap, entry->d_name, value, sizeof(value))) {
			facts_add(&snap->threads, entry->d_name, value);
			read_robust_list(snap, entry->d_name);
		}
	closedir(dir);
}

struct procsnap *procsnap_take(pid_t pid, unsigned flags)
{
	struct procsnap *snap = calloc(1, sizeof(*snap));
	ck_assert_ptr_nonnull(snap);
	snap->pid = pid;
	snap->flags = flags;
	looks_add(snap, pid);
	read_maps(snap);
	read_pages(snap);
	read_fds(snap);
	read_threads(snap);
	read_process(snap);
	gotwords_read(pid, &snap->words);
	return snap;
}

void procsnap_destroy(struct procsnap *snap)
{
	if (!snap)
		return;
	looks_remove(snap);
	facts_deinit(&snap->maps);
	facts_deinit(&snap->pages);
	facts_deinit(&snap->process);
	facts_deinit(&snap->sockets);
	facts_deinit(&snap->text);
	facts_deinit(&snap->fds);
	facts_deinit(&snap->threads);
	facts_deinit(&snap->robust);
	gotwords_deinit(&snap->words);
	free(snap);
}

void procsnap_drop(struct procsnap *snap)
{
	if (snap)
		looks_compared(snap);
	procsnap_destroy(snap);
}

static void diff_words(
	FILE *out, const struct gotwords *before, const struct gotwords *after, bool plug_changes)
{
	size_t j = 0;
	for (size_t i = 0; i < before->count; i++) {
		const struct gotword *old = &before->word[i];
		if (plug_changes && strstr(old->module, "/libplug.so"))
			continue;
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
	looks_compared(before);
	looks_compared(after);
	bool threads_change = flags & PROCSNAP_THREADS_CHANGE;
	facts_diff(
		out, "mapping", &before->maps, &after->maps, false, flags & PROCSNAP_MODULES_GROW);
	facts_diff(out, "text", &before->text, &after->text, false, flags & PROCSNAP_MODULES_GROW);
	facts_diff(
		out, "pages", &before->pages, &after->pages, false, flags & PROCSNAP_MODULES_GROW);
	facts_diff(out, "process", &before->process, &after->process, false, false);
	facts_diff(out, "descriptor", &before->fds, &after->fds, false, false);
	facts_diff(
		out, "thread", &before->threads, &after->threads, threads_change, threads_change);
	facts_diff(out, "robust list", &before->robust, &after->robust, threads_change, true);
	for (size_t i = 0; i < after->sockets.count; i++)
		fprintf(out, "socket %s\n", after->sockets.fact[i].key);
	diff_words(out, &before->words, &after->words, flags & PROCSNAP_PLUG_CHANGES);
	fclose(out);
	return text;
}

static void find_ours(FILE *out, const char *what, const struct facts *facts)
{
	for (size_t i = 0; i < facts->count; i++)
		if (!facts_are_clean(facts->fact[i].value))
			fprintf(out, "%s %s: \"%s\"\n", what, facts->fact[i].key,
				facts->fact[i].value);
}

char *procsnap_ours(pid_t pid)
{
	struct procsnap snap = {.pid = pid, .flags = NAMES_ONLY};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	ck_assert_ptr_nonnull(out);
	read_maps(&snap);
	read_fds(&snap);
	read_threads(&snap);
	find_ours(out, "mapping", &snap.maps);
	find_ours(out, "descriptor", &snap.fds);
	find_ours(out, "thread", &snap.threads);
	fclose(out);
	facts_deinit(&snap.maps);
	facts_deinit(&snap.fds);
	facts_deinit(&snap.threads);
	facts_deinit(&snap.robust);
	return text;
}

bool procsnap_is_clean(pid_t pid)
{
	char *ours = procsnap_ours(pid);
	bool clean = !ours[0];
	free(ours);
	return clean;
}

static bool is_expected(const char *difference, const char *const expected[])
{
	const char *line = difference;
	for (; *line && *expected; expected++) {
		const char *end = strchr(line, '\n'), *found = strstr(line, *expected);
		if (!found || !end || found > end)
			return false;
		line = end + 1;
	}
	return !*line && !*expected;
}

void procsnap_verify_but(struct procsnap *before, pid_t pid, const char *const expected[])
{
	struct procsnap *after = procsnap_take(pid, before->flags);
	char *difference = procsnap_diff(before, after);
	ck_assert_msg(is_expected(difference, expected), "process %d is not as it was:\n%.4000s",
		pid, difference);
	free(difference);
	procsnap_destroy(after);
	procsnap_destroy(before);
}

void procsnap_verify(struct procsnap *before, pid_t pid)
{
	procsnap_verify_but(before, pid, (const char *[]){NULL});
}

void procsnap_wait(const struct procsnap *before, pid_t pid, unsigned limit_ms)
{
	uint64_t end = run_now_ms() + limit_ms;
	for (;;) {
		struct procsnap *now = procsnap_take(pid, before->flags);
		char *difference = procsnap_diff(before, now);
		bool equal = !difference[0];
		procsnap_destroy(now);
		ck_assert_msg(equal || run_now_ms() < end, "process %d after %u ms: %.2000s", pid,
			limit_ms, difference);
		free(difference);
		if (equal)
			return;
		run_pause();
	}
}
