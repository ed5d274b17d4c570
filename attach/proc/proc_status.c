/* SPDX-License-Identifier: Apache-2.0
 *
 * What status, stat, syscall and schedstat of /proc say about a process and its threads.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/proc/proc.h"
#include "attach/proc/proc_file.h"

#define STATUS_MAX_BYTES  (1u << 16)
#define SYSCALL_MAX_BYTES 512u
#define STAT_MAX_BYTES	  2048u
#define STAT_NAME	  2u
#define STAT_START	  22u
#define STAT_CORE	  39u

static uint64_t number(const char *value, int base)
{
	return strtoull(value, NULL, base);
}

static void comm_copy(const char *value, char *ret, size_t ret_bytes)
{
	snprintf(ret, ret_bytes, "%s", value);
}

static void numbers_parse(const char *value, struct proc_status *ret)
{
	size_t count = 0;
	for (char *end; *value; value = end) {
		long parsed = strtol(value, &end, 10);
		if (end == value)
			break;
		ret->ns_tid = (pid_t)parsed;
		count++;
	}
	ret->ns_alone = count == 1;
}

static bool has_word(const char *value, const char *word)
{
	size_t length = strlen(word);
	for (const char *at = strstr(value, word); at; at = strstr(at + 1, word))
		if ((at == value || isspace((unsigned char)at[-1])) &&
			(!at[length] || isspace((unsigned char)at[length])))
			return true;
	return false;
}

static void ids_parse(const char *value, unsigned *real, unsigned *effective, unsigned *saved)
{
	if (sscanf(value, "%u %u %u", real, effective, saved) != 3)
		*real = *effective = *saved = ~0u;
}

static void line_parse(const char *key, const char *value, struct proc_status *ret, pid_t *tgid)
{
	if (!strcmp(key, "Name"))
		comm_copy(value, ret->comm, sizeof(ret->comm));
	else if (!strcmp(key, "State"))
		ret->state = value[0];
	else if (!strcmp(key, "Tgid"))
		*tgid = (pid_t)number(value, 10);
	else if (!strcmp(key, "PPid"))
		ret->ppid = (pid_t)number(value, 10);
	else if (!strcmp(key, "TracerPid"))
		ret->tracer = (pid_t)number(value, 10);
	else if (!strcmp(key, "Uid"))
		ids_parse(value, &ret->ruid, &ret->euid, &ret->suid);
	else if (!strcmp(key, "Gid"))
		ids_parse(value, &ret->rgid, &ret->egid, &ret->sgid);
	else if (!strcmp(key, "NSpid"))
		numbers_parse(value, ret);
	else if (!strcmp(key, "VmRSS"))
		ret->rss_bytes = number(value, 10) * 1024;
	else if (!strcmp(key, "VmSize"))
		ret->vm_bytes = number(value, 10) * 1024;
	else if (!strcmp(key, "VmData"))
		ret->data_bytes = number(value, 10) * 1024;
	else if (!strcmp(key, "VmLck"))
		ret->locked_bytes = number(value, 10) * 1024;
	else if (!strcmp(key, "CapEff"))
		ret->cap_eff = number(value, 16);
	else if (!strcmp(key, "Threads"))
		ret->threads = (unsigned)number(value, 10);
	else if (!strcmp(key, "SigBlk"))
		ret->sig_blk = number(value, 16);
	else if (!strcmp(key, "SigIgn"))
		ret->sig_ign = number(value, 16);
	else if (!strcmp(key, "SigCgt"))
		ret->sig_cgt = number(value, 16);
	else if (!strcmp(key, "SigPnd"))
		ret->sig_pnd = number(value, 16);
	else if (!strcmp(key, "ShdPnd"))
		ret->shd_pnd = number(value, 16);
	else if (!strcmp(key, "NoNewPrivs"))
		ret->no_new_privs = number(value, 10) != 0;
	else if (!strcmp(key, "voluntary_ctxt_switches"))
		ret->sleeps = number(value, 10);
	else if (!strcmp(key, "Seccomp"))
		ret->seccomp = (int)number(value, 10);
	else if (!strcmp(key, "x86_Thread_features"))
		ret->shadow_stack = has_word(value, "shstk");
}

/* The kernel escapes newlines in Name, so a line is a key. */
static struct ht_err *status_parse(
	const struct proc *proc, char *text, struct proc_status *ret, pid_t *ret_tgid)
{
	*ret = (struct proc_status){0};
	*ret_tgid = 0;
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n"));) {
		char *value = strchr(line, ':');
		if (!value)
			continue;
		*value++ = '\0';
		value += strspn(value, "\t ");
		line_parse(line, value, ret, ret_tgid);
	}
	if (!ret->state || !*ret_tgid)
		return ht_err_new(HT_ERR_FORMAT,
			"cannot parse /proc/%d/status: State or Tgid is missing", proc->pid);
	return NULL;
}

struct ht_err *proc_status_leader(const struct proc *proc, struct proc_status *ret, pid_t *ret_tgid)
{
	char *text;
	struct ht_err *err = proc_file_read(proc, "status", STATUS_MAX_BYTES, &text, NULL);
	if (err)
		return err;
	err = status_parse(proc, text, ret, ret_tgid);
	free(text);
	return err;
}

struct ht_err *proc_status(const struct proc *proc, pid_t tid, struct proc_status *ret)
{
	char path[PROC_PATH_BYTES], *text;
	pid_t tgid;
	snprintf(path, sizeof(path), "task/%d/status", tid);
	struct ht_err *err =
		tid ? proc_file_read(proc, path, STATUS_MAX_BYTES, &text, NULL)
		    : proc_file_read_living(proc, "status", STATUS_MAX_BYTES, &text, NULL);
	if (err)
		return err;
	err = status_parse(proc, text, ret, &tgid);
	free(text);
	return err;
}

/* "running", "-1 SP PC" or "NR ARG*6 SP PC". A thread that has ended has no registers any more: SP
 * and PC are 0. */
static bool syscall_parse(const char *text, struct proc_syscall *ret)
{
	*ret = (struct proc_syscall){.where = PROC_RUNNING, .nr = -1};
	if (!strncmp(text, "running", 7))
		return true;
	if (sscanf(text, "-1 0x%" SCNx64 " 0x%" SCNx64, &ret->sp, &ret->pc) == 2) {
		ret->where = ret->sp || ret->pc ? PROC_BLOCKED_ELSEWHERE : PROC_THREAD_GONE;
		return true;
	}
	ret->where = PROC_IN_SYSCALL;
	uint64_t *arg = ret->arg;
	return sscanf(text,
		       "%ld 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64
		       " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64,
		       &ret->nr, &arg[0], &arg[1], &arg[2], &arg[3], &arg[4], &arg[5], &ret->sp,
		       &ret->pc) == 9;
}

/* Not an error only where the thread, of which `path` is a file, is gone. */
static struct ht_err *thread_failed(const struct proc *proc, int dir_fd, const char *path, int sys)
{
	bool there;
	struct ht_err *err = proc_file_exists(proc, dir_fd, path, &there);
	if (err)
		return err;
	if (there)
		return ht_err_sys(sys, "cannot read where a thread of process %d is", proc->pid);
	return proc_changed(proc) == PROC_EXITED ? proc_file_failed(proc, path, ESRCH) : NULL;
}

struct ht_err *proc_syscall_read(const struct proc *proc, pid_t tid, struct proc_syscall *ret)
{
	char path[PROC_PATH_BYTES], text[SYSCALL_MAX_BYTES];
	*ret = (struct proc_syscall){.where = PROC_THREAD_GONE, .nr = -1};
	snprintf(path, sizeof(path), "task/%d", tid);
	int fd = openat(proc->dir_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return thread_failed(proc, proc->dir_fd, path, errno);
	int file_fd = openat(fd, "syscall", O_RDONLY | O_CLOEXEC);
	ssize_t length = file_fd < 0 ? -1 : read(file_fd, text, sizeof(text) - 1);
	int sys = length < 0 ? errno : EIO;
	if (file_fd >= 0)
		close(file_fd);
	struct ht_err *err = length > 0 ? NULL : thread_failed(proc, fd, "status", sys);
	close(fd);
	if (err || length <= 0)
		return err;
	text[length] = '\0';
	if (!syscall_parse(text, ret))
		return ht_err_new(HT_ERR_FORMAT, "cannot parse /proc/%d/%s/syscall: '%.*s'",
			proc->pid, path, (int)strcspn(text, "\n"), text);
	return NULL;
}

struct ht_err *proc_turns_read(const struct proc *proc, pid_t tid, struct proc_turns *ret)
{
	char path[PROC_PATH_BYTES], *text;
	snprintf(path, sizeof(path), "task/%d/schedstat", tid);
	struct ht_err *err = proc_file_read(proc, path, STATUS_MAX_BYTES, &text, NULL);
	if (err)
		return err;
	*ret = (struct proc_turns){0};
	if (sscanf(text, "%" SCNu64 " %*u %" SCNu64, &ret->run_ns, &ret->count) != 2)
		err = ht_err_new(HT_ERR_FORMAT, "cannot parse /proc/%d/%s", proc->pid, path);
	free(text);
	return err;
}

pid_t proc_ns_tid(const struct proc *proc, pid_t tid)
{
	struct proc_status status;
	struct ht_err *err = proc_status(proc, tid, &status);

	ht_err_free(err);
	return err ? 0 : status.ns_tid;
}

uint64_t proc_ran_ns(const struct proc *proc, pid_t tid)
{
	char path[PROC_PATH_BYTES], text[96];
	snprintf(path, sizeof(path), "task/%d/schedstat", tid);
	int fd = openat(proc->dir_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (length <= 0)
		return 0;
	text[length] = '\0';
	return number(text, 10);
}

/* What of a thread's stat stands in that field, in `text`; NULL: it is gone. */
static const char *stat_field(
	const struct proc *proc, pid_t tid, unsigned field, char text[STAT_MAX_BYTES])
{
	char path[PROC_PATH_BYTES];
	snprintf(path, sizeof(path), "task/%d/stat", tid);
	int fd = openat(proc->dir_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, STAT_MAX_BYTES - 1);
	if (fd >= 0)
		close(fd);
	text[length > 0 ? length : 0] = '\0';
	/* A name may have spaces. */
	const char *at = strrchr(text, ')');
	for (unsigned i = STAT_NAME; at && i < field; i++)
		at = strchr(at + 1, ' ');
	return at;
}

int proc_core(const struct proc *proc, pid_t tid)
{
	char text[STAT_MAX_BYTES];
	const char *at = stat_field(proc, tid, STAT_CORE, text);
	return at ? (int)strtol(at, NULL, 10) : -1;
}

uint64_t proc_age_ns(const struct proc *proc, pid_t tid)
{
	char text[STAT_MAX_BYTES];
	const char *at = stat_field(proc, tid, STAT_START, text);
	const uint64_t tick_ns = CLOCK_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
	const uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME);
	const uint64_t start_ns = at ? strtoull(at, NULL, 10) * tick_ns : 0;
	return at && start_ns <= now_ns ? now_ns - start_ns : 0;
}

uint64_t proc_timer_slack_ns(pid_t tid)
{
	char path[PROC_PATH_BYTES], text[32];
	/* It is with the process of that number, also where that is a thread. */
	snprintf(path, sizeof(path), "/proc/%d/timerslack_ns", tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (length <= 0)
		return UINT64_MAX;
	text[length] = '\0';
	return number(text, 10);
}

bool proc_has_run(const struct proc *proc, pid_t tid, uint64_t ran_ns)
{
	struct proc_syscall call;
	if (!ran_ns || proc_ran_ns(proc, tid) != ran_ns)
		return true;
	struct ht_err *err = proc_syscall_read(proc, tid, &call);
	bool is_running = !err && call.where == PROC_RUNNING;
	ht_err_free(err);
	return !is_running;
}

uint64_t proc_limit(const struct proc *proc, const char *name)
{
	char *text = NULL;
	uint64_t soft = UINT64_MAX;
	struct ht_err *err = proc_text(proc, "limits", &text);

	ht_err_free(err);
	const char *line = text ? strstr(text, name) : NULL;
	if (line && sscanf(line + strlen(name), "%" SCNu64, &soft) != 1)
		soft = UINT64_MAX;
	free(text);
	return soft;
}
