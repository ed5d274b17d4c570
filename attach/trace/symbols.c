/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/trace/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/daemon/apart.h"
#include "attach/trace/handover.h"
#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "format/helper.h"

#define SYMBOLS_DEADLINE_NS (60 * CLOCK_NS_PER_S)
#define SYMBOLS_BYTES_MAX   (256u << 20)
#define READ_BYTES	    65536u
#define PATH_BYTES	    4200u

int symbols_open_analyzer(char *path, size_t path_bytes)
{
	static const char *const places[] = {
		"heaptap-analyze", "../libexec/heaptap/heaptap-analyze"};
	char self[4096];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length <= 0)
		return -1;
	self[length] = '\0';
	char *slash = strrchr(self, '/');
	if (!slash)
		return -1;
	*slash = '\0';
	for (size_t i = 0; i < HT_ARRAY_SIZE(places); i++) {
		snprintf(path, path_bytes, "%s/%s", self, places[i]);
		int fd = open(path, O_PATH | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

struct ht_err *symbols_need_analyzer(const char *option)
{
	char path[PATH_BYTES];
	FD_GUARD int fd = symbols_open_analyzer(path, sizeof(path));
	return fd >= 0 ? NULL
		       : ht_err_new(HT_ERR_SYS,
				 "%s needs heaptap-analyze, which is not beside heaptap; install "
				 "both",
				 option);
}

void symbols_become_analyzer(char *const argv[])
{
	char path[PATH_BYTES];
	FD_GUARD int fd = symbols_open_analyzer(path, sizeof(path));
	if (fd >= 0)
		execv(path, argv);
}

static time_t start_of(const struct proc *proc)
{
	struct timespec since_boot, now;
	clock_gettime(CLOCK_BOOTTIME, &since_boot);
	clock_gettime(CLOCK_REALTIME, &now);
	time_t start = (time_t)(proc->start_ticks / (uint64_t)sysconf(_SC_CLK_TCK));
	/* One second earlier, because file times are those of the last tick. */
	return now.tv_sec - since_boot.tv_sec + start - 1;
}

struct symbols_target symbols_target_of(const struct proc *proc, const struct proc_status *status)
{
	struct stat own, its;
	return (struct symbols_target){.uid = status->ruid,
		.gid = status->rgid,
		.own_rights = status->ruid == status->euid && status->ruid == status->suid,
		.pid = proc->pid,
		.ns_pid = status->ns_tid,
		.same_mounts = stat("/proc/self/ns/mnt", &own) == 0 &&
			       fstatat(proc->dir_fd, "ns/mnt", &its, 0) == 0 &&
			       own.st_ino == its.st_ino,
		.started = start_of(proc)};
}

/* Leaves only the rights of the target's user, without capabilities even if that user is root. */
static void drop_rights(pid_t parent, uid_t uid, gid_t gid)
{
	/* A sanitizer needs terabytes of address space. */
#ifndef __SANITIZE_ADDRESS__
	const struct rlimit memory = {4ull << 30, 4ull << 30};
	setrlimit(RLIMIT_AS, &memory);
#endif
	if (!apart_drop_rights(uid, gid))
		_exit(1);
	/* Set it here: a change of the user clears it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

static void exec_analyzer(pid_t parent, int analyzer, int trace, int files, int out,
	const struct symbols_target *target)
{
	char fd_text[16], files_text[16], map[64], since[24];
	const char *argv[12] = {"heaptap-analyze", "symbols", "--emit", "--fd", fd_text};
	const char *const envp[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", NULL};
	size_t count = 5;

	snprintf(fd_text, sizeof(fd_text), "%d", trace);
	snprintf(since, sizeof(since), "%ld", (long)target->started);
	/* The target's pid in its own namespace, by which it names the file in its own /tmp. */
	snprintf(map, sizeof(map), "/tmp/perf-%d.map", target->ns_pid);
	/* The process runs as the target's user, and another process of that user could take these
	 * files from it. They were opened with our rights: hand them over only if the target has
	 * its user's rights and no more. */
	files = target->own_rights ? handover_pass_on(files) : -1;
	snprintf(files_text, sizeof(files_text), "%d", files);
	if (files >= 0) {
		argv[count++] = "--files";
		argv[count++] = files_text;
	}
	if (target->same_mounts || (target->has_root && files >= 0)) {
		argv[count++] = "--own-map";
		argv[count++] = map;
		argv[count++] = "--since";
		argv[count++] = since;
	}
	helper_silence(0);
	dup2(out, 1);
	helper_silence(2);
	fcntl(trace, F_SETFD, 0);
	sigset_t mask;
	sigemptyset(&mask);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	drop_rights(parent, target->uid, target->gid);
	syscall(SYS_execveat, analyzer, "", argv, envp, AT_EMPTY_PATH);
	_exit(127);
}

/* Moves whole records from `in` to the trace. Records other than names are refused. */
static struct ht_err *put_symbols(struct store *store, struct bytes_out *in)
{
	struct bytes view = bytes_of(in->data, in->length);
	struct rec rec;

	while (bytes_left(&view)) {
		struct ht_err *err = rec_decode(&view, &rec);
		if (err) {
			ht_err_free(err);
			break;
		}
		if (rec.kind != REC_SYMBOL && rec.kind != REC_NAMES)
			return ht_err_new(HT_ERR_FORMAT,
				"heaptap-analyze sent a record that is not a symbol");
		HT_TRY(store_put(store, &rec, 0));
	}
	in->length = bytes_left(&view);
	memmove(in->data, view.at, in->length);
	return NULL;
}

static struct ht_err *read_symbols(struct store *store, int fd)
{
	uint64_t deadline = clock_mono_ns() + SYMBOLS_DEADLINE_NS;
	struct bytes_out in = {0};
	uint64_t total = 0;
	struct ht_err *err = NULL;

	while (!err) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		int ready = poll(&wait, 1, 200);
		if (clock_mono_ns() > deadline || total > SYMBOLS_BYTES_MAX) {
			err = ht_err_new(HT_ERR_SYS, "looking up names took too long");
			break;
		}
		if (ready <= 0)
			continue;
		err = bytes_out_reserve(&in, READ_BYTES);
		if (err)
			break;
		ssize_t got = read(fd, in.data + in.length, READ_BYTES);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		in.length += (size_t)got;
		total += (uint64_t)got;
		err = put_symbols(store, &in);
	}
	if (!err && in.length)
		err = ht_err_new(HT_ERR_FORMAT, "heaptap-analyze ended in the middle of a record");
	bytes_out_deinit(&in);
	return err;
}

static struct ht_err *run_analyzer(struct store *store, int analyzer, int trace, int files,
	const struct symbols_target *target)
{
	int out[2];
	if (pipe2(out, O_CLOEXEC) < 0)
		return ht_err_sys(errno, "cannot make a pipe");
	pid_t parent = getpid();
	pid_t child = fork();
	if (child == 0)
		exec_analyzer(parent, analyzer, trace, files, out[1], target);
	int sys = errno;
	close(out[1]);
	struct ht_err *err =
		child < 0 ? ht_err_sys(sys, "cannot fork") : read_symbols(store, out[0]);
	close(out[0]);
	if (child < 0)
		return err;
	if (err)
		kill(child, SIGKILL);
	int status = helper_wait(child);
	/* If there is no status, because SIGCHLD is ignored, the end of the pipe counts. Status 7
	 * means that the trace is incomplete, which is normal while it is being written. */
	bool is_read =
		status < 0 ||
		(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 7));
	if (!err && !is_read)
		err = ht_err_new(
			HT_ERR_SYS, "heaptap-analyze failed (status %x)", (unsigned)status);
	return err;
}

struct ht_err *symbols_append(struct store *store, const struct symbols_target *target, int files,
	char *problem, size_t problem_bytes)
{
	char path[PATH_BYTES];

	problem[0] = '\0';
	HT_TRY(store_flush(store));
	FD_GUARD int trace = store_reopen(store);
	if (trace < 0)
		return NULL;
	FD_GUARD int analyzer = symbols_open_analyzer(path, sizeof(path));
	if (analyzer < 0) {
		snprintf(problem, problem_bytes,
			"the trace has no names: heaptap-analyze is not beside heaptap; install "
			"both");
		return NULL;
	}
	struct ht_err *err = run_analyzer(store, analyzer, trace, files, target);
	if (!err || err->code == HT_ERR_NOMEM)
		return err;
	snprintf(problem, problem_bytes, "names are missing: %s", err->message);
	ht_err_free(err);
	return NULL;
}
