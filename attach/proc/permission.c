/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proc/permission.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/proc/fd.h"
#include "attach/proc/proc_file.h"
#include "attach/proc/proc_living.h"
#include "attach/proc/proc_status.h"

#define YAMA_SCOPE "/proc/sys/kernel/yama/ptrace_scope"

static struct ht_err *judge_yama(const struct permission_facts *facts)
{
	const char *rule = facts->yama_scope == 1 ? "only a process's ancestors may attach to it"
						  : "only root (CAP_SYS_PTRACE) may attach";
	return ht_err_new(HT_ERR_PERMISSION,
		"kernel.yama.ptrace_scope is %d: %s; run heaptap as root, or sysctl "
		"kernel.yama.ptrace_scope=0",
		facts->yama_scope, rule);
}

static struct ht_err *judge_capable(const struct permission_facts *facts)
{
	if (!facts->same_user_ns)
		return ht_err_new(HT_ERR_PERMISSION,
			"it runs in another user namespace, where heaptap's capabilities do not "
			"count; run heaptap as root outside of any container");
	return ht_err_new(HT_ERR_PERMISSION,
		"a security module (SELinux, AppArmor) or the container's policy forbids it; allow "
		"ptrace there");
}

/* The kernel requires all three user ids of the target to be heaptap's effective one. Returns the
 * first that differs, or heaptap's. */
static uid_t foreign_uid(const struct permission_facts *facts)
{
	if (facts->target_euid != facts->our_euid)
		return facts->target_euid;
	return facts->target_ruid != facts->our_euid ? facts->target_ruid : facts->target_suid;
}

static struct ht_err *judge(const struct permission_facts *facts)
{
	if (facts->yama_scope >= 3)
		return ht_err_new(HT_ERR_PERMISSION,
			"kernel.yama.ptrace_scope is %d: no process may attach to another until a "
			"reboot with a lower value",
			facts->yama_scope);
	if (facts->our_cap_sys_ptrace)
		return judge_capable(facts);
	if (foreign_uid(facts) != facts->our_euid)
		return ht_err_new(HT_ERR_PERMISSION,
			"it runs as uid %u, heaptap as uid %u without CAP_SYS_PTRACE; run heaptap "
			"as root or as that user",
			foreign_uid(facts), facts->our_euid);
	if (!facts->dumpable)
		return ht_err_new(HT_ERR_PERMISSION,
			"it is not dumpable (a set-user-ID or unreadable program, or "
			"PR_SET_DUMPABLE 0), so that CAP_SYS_PTRACE is needed; run heaptap as "
			"root");
	if (facts->more_caps)
		return ht_err_new(HT_ERR_PERMISSION,
			"it holds capabilities that heaptap lacks, so that CAP_SYS_PTRACE is "
			"needed; run heaptap as root");
	return facts->yama_scope > 0 ? judge_yama(facts) : judge_capable(facts);
}

struct ht_err *permission_judge(const struct permission_facts *facts)
{
	return ht_err_wrap(
		judge(facts), "may not attach to process %d (%s)", facts->pid, facts->comm);
}

static uint64_t own_caps(void)
{
	char status[8192];
	(void)proc_file_short(AT_FDCWD, "/proc/self/status", status, sizeof(status));
	return proc_file_number(status, "\nCapEff:", 16, 0);
}

static int yama_scope(void)
{
	char text[32];
	(void)proc_file_short(AT_FDCWD, YAMA_SCOPE, text, sizeof(text));
	return (int)proc_file_number(text, "", 10, UINT64_MAX);
}

/* Does our user namespace map every id to itself? By default only the initial one does. */
static bool in_initial_user_ns(void)
{
	char text[64];
	unsigned long inside, outside, count;
	if (proc_file_short(AT_FDCWD, "/proc/self/uid_map", text, sizeof(text)) < 0)
		return true;
	return sscanf(text, "%lu %lu %lu", &inside, &outside, &count) == 3 && inside == 0 &&
	       outside == 0 && count == UINT32_MAX;
}

/* If heaptap may not read the process's namespace, the process is in another one, unless heaptap is
 * in the initial one. */
static bool same_user_ns(const struct proc *proc)
{
	struct stat ours, theirs;
	if (stat("/proc/self/ns/user", &ours) != 0)
		return true;
	if (fstatat(proc->dir_fd, "ns/user", &theirs, 0) != 0)
		return in_initial_user_ns();
	return ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

struct ht_err *permission_explain(const struct proc *proc)
{
	struct proc_status status;
	struct ht_err *err = proc_status(proc, 0, &status);
	char *text = NULL;
	HT_THEN(err, proc_text(proc, "status", &text));
	if (err)
		return err;
	uint64_t ours = own_caps();
	struct permission_facts facts = {
		.pid = proc->pid,
		.our_euid = geteuid(),
		.target_ruid = status.ruid,
		.target_euid = status.euid,
		.target_suid = status.suid,
		.our_cap_sys_ptrace = ours >> CAP_SYS_PTRACE & 1,
		.same_user_ns = same_user_ns(proc),
		.more_caps = (proc_file_number(text, "\nCapPrm:", 16, 0) & ~ours) != 0,
		.yama_scope = yama_scope(),
	};
	memcpy(facts.comm, status.comm, sizeof(facts.comm));
	/* The kernel gives the files of an undumpable process to root. */
	struct stat owner;
	facts.dumpable =
		fstatat(proc->dir_fd, "stat", &owner, 0) != 0 || owner.st_uid == status.euid;
	free(text);
	return permission_judge(&facts);
}

struct ht_err *permission_lost(const struct proc *proc, struct ht_err *err)
{
	if (!err || (err->sys != EACCES && err->sys != EPERM))
		return err;
	/* To open `mem`, the kernel requires the right to trace. */
	int fd = openat(proc->dir_fd, "mem", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 || (errno != EACCES && errno != EPERM)) {
		fd_close(&fd);
		return err;
	}
	struct ht_err *rule = permission_explain(proc);
	if (rule->code != HT_ERR_PERMISSION) {
		ht_err_free(rule);
		return err;
	}
	rule = ht_err_wrap(rule, "%s", err->message);
	ht_err_free(err);
	return rule;
}

struct ht_err *permission_check_writing(pid_t pid)
{
	const uint8_t byte = 0;
	void *page = mmap(NULL, HT_PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	bool forbidden = page != MAP_FAILED && mem >= 0 &&
			 pwrite(mem, &byte, sizeof(byte), (off_t)(uintptr_t)page) < 0 &&
			 errno == EIO;
	fd_close(&mem);
	if (page != MAP_FAILED)
		munmap(page, HT_PAGE_BYTES);
	if (!forbidden)
		return NULL;
	return ht_err_new(HT_ERR_PERMISSION,
		"may not attach to process %d: this kernel forbids writing to read-only memory of "
		"a process, such as code; boot it with proc_mem.force_override=always",
		pid);
}
