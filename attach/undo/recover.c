/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/elf/modules.h"
#include "attach/inject/claims.h"
#include "attach/inject/near.h"
#include "attach/inject/ownfds.h"
#include "attach/stub/stub_layout.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "attach/proc/proc_status.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/descriptor.h"
#include "attach/process/proc_open.h"

#define RECOVER_DEADLINE_NS (30 * CLOCK_NS_PER_S)

static struct ht_err *open_memfd(const struct proc *proc, raddr_t base, int *ret)
{
	char name[64];
	raddr_t lo = base + ABI_TABLES_OFF;

	snprintf(name, sizeof(name), "map_files/%lx-%lx", (unsigned long)lo,
		(unsigned long)(lo + ABI_TABLES_BYTES));
	int fd = openat(proc->dir_fd, name, O_RDWR | O_CLOEXEC);
	if (fd < 0 && (errno == EPERM || errno == EACCES))
		return ht_err_new(HT_ERR_PERMISSION,
			"cannot remove what an earlier heaptap left in process %d: only root may "
			"open its mappings (/proc/%d/map_files); run sudo heaptap recover -p %d",
			proc->pid, proc->pid, proc->pid);
	if (fd < 0)
		return ht_err_sys(
			errno, "cannot open what an earlier heaptap left in process %d", proc->pid);
	*ret = fd;
	return NULL;
}

/* Returns the address of the thunk page; 0: unknown. Without a journal of the daemon's the address
 * is the target's claim, which image_open checks. */
static raddr_t find_thunks(int memfd, const struct journal *own)
{
	struct journal_header header;
	if (own)
		return journal_is_begun(own) ? own->header->thunks : 0;
	bool whole = pread(memfd, &header, sizeof(header), ABI_JOURNAL_OFF) == sizeof(header) &&
		     header.magic == JOURNAL_MAGIC;
	return whole ? header.thunks : 0;
}

static struct ht_err *map_image(const struct proc *proc, int memfd, raddr_t base,
	const struct journal *own, struct image *ret)
{
	if (memfd < 0)
		HT_TRY(open_memfd(proc, base, &memfd));
	else
		memfd = fcntl(memfd, F_DUPFD_CLOEXEC, 3);
	return image_open(ret, proc, base, find_thunks(memfd, own), memfd);
}

/* Returns the inode of a socket that the stub made; 0: `fd` is none, as the program may have reused
 * the number. */
static uint64_t socket_inode(const struct proc *proc, int fd)
{
	struct stat stat;
	pid_t living;
	bool none = ht_err_drop(proc_living_tid(proc, &living)) || !living || fd <= 0;
	FD_GUARD int own = none ? -1 : descriptor_take(proc, living, fd);

	return own >= 0 && fcntl(own, F_GETSIG) == STUB_MARK && fstat(own, &stat) == 0 &&
			       S_ISSOCK(stat.st_mode)
		       ? stat.st_ino
		       : 0;
}

/* Adds the agent's socket to the journal. The stub reports its number last of all; before that
 * report the number means nothing. */
static void find_agent_fd(
	struct journal *journal, const struct proc *proc, const struct image *image)
{
	const struct abi_control *control = image_control(image);
	int fd = control->stub_fds[0];
	uint64_t inode = control->stub_status > 0 ? socket_inode(proc, fd) : 0;

	if (inode)
		journal_set_sockets(journal, fd, inode, 0);
}

static void add_slack(struct journal *journal, const struct remote_slack *slack)
{
	if (slack && journal->header->slack == 0)
		journal_set_slack(journal, slack->addr, slack->left, slack->original, slack->bytes);
}

/* The journal may miss near areas: they are recorded after they are mapped. */
static struct ht_err *find_near(
	struct journal *journal, const struct proc *proc, const struct image_file *file)
{
	raddr_t near[ABI_NEAR_MAX];
	HT_TRY(near_find(proc, file, near));
	journal_set_near(journal, near);
	return NULL;
}

/* Completes a journal of a daemon that died after mapping the image and before beginning the
 * journal: then only the stub's place is known. */
static struct ht_err *complete_journal(struct journal *journal, const struct proc *proc,
	const struct image *image, const struct remote_slack *slack)
{
	if (!journal_is_begun(journal))
		journal_begin(journal, image->base, image->bytes, image->thunks);
	add_slack(journal, slack);
	bool begun_only = journal->header->phase == JOURNAL_MAPPED;
	if (begun_only && journal->header->agent_fd < 0)
		find_agent_fd(journal, proc, image);
	/* For a journal that the target could write, the near areas are found anew: the target's
	 * claims are no proof. */
	return begun_only || journal->shown ? find_near(journal, proc, &image->file) : NULL;
}

/* No heaptap that knew the target lives: use the target's copy of the journal, checked. */
static struct ht_err *read_journal(
	const struct proc *proc, const struct image *image, struct journal *ret)
{
	HT_TRY(journal_create(ret));
	journal_show(ret, image->local);
	journal_read(ret, image->local);
	if (!journal_is_begun(ret))
		return NULL;
	struct ht_err *err = claims_check(proc, image, ret);
	if (err)
		journal_destroy(ret);
	return err;
}

struct ht_err *recover_find_slack(const struct proc *proc, bool wanted, struct remote_slack *space,
	const struct remote_slack **ret)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	HT_CLEANUP(modules_deinit) struct modules modules = {0};
	struct choose_slack place;
	HT_TRY(proc_maps_read(proc, &maps));
	HT_TRY(modules_read(proc, &maps, &modules));
	bool is_left = remote_find_stub(proc, &modules, &maps, &place);
	if (!is_left && !wanted)
		return NULL;
	*ret = space;
	return is_left ? remote_slack_from_file(proc, &maps, &place, space)
		       : remote_slack_prepare(proc, &modules, &maps, 0, space);
}

static struct detach detach_of(const struct proc *proc, struct image *image,
	const struct journal *journal, const struct recover_options *options)
{
	return (struct detach){.proc = proc,
		.image = image,
		.journal = *journal,
		.deadline_mono_ns = options->deadline_mono_ns};
}

static struct ht_err *ask_for_filters(struct detach *detach)
{
	return detach->suspend_seccomp ? NULL
				       : proc_any_seccomp(detach->proc, &detach->suspend_seccomp);
}

/* The slots are restored by now, so a refusal is an incomplete detach: the process is not
 * untouched. */
static struct ht_err *untapped_only(struct ht_err *err)
{
	if (err->code != HT_ERR_REFUSED)
		return err;
	struct ht_err *incomplete = ht_err_new(HT_ERR_INCOMPLETE,
		"%s; meanwhile heaptap's code stays mapped and only forwards calls", err->message);
	ht_err_free(err);
	return incomplete;
}

static struct ht_err *detach_image(struct detach *detach, struct recover_report *report)
{
	static const enum recover_outcome outcome[] = {[DETACH_PROVEN] = RECOVER_DONE,
		[DETACH_RETRIED] = RECOVER_DONE,
		[DETACH_TOMBSTONE] = RECOVER_TOMBSTONE,
		[DETACH_INCOMPLETE] = RECOVER_INCOMPLETE};
	struct ht_err *err = detach_untap(detach, &report->detach);
	HT_THEN(err, ask_for_filters(detach));
	HT_THEN(err, detach_unmap(detach, &report->detach));
	if (err)
		return untapped_only(err);
	report->outcome = outcome[report->detach.level];
	return NULL;
}

static struct ht_err *recover_image(const struct proc *proc, const struct recover_options *options,
	raddr_t base, struct recover_report *report)
{
	const struct journal *own = options->own;
	HT_CLEANUP(image_deinit) struct image image = {0};
	HT_CLEANUP(journal_destroy) struct journal theirs = {0};
	HT_TRY(map_image(proc, options->memfd, base, own, &image));
	if (!own)
		HT_TRY(read_journal(proc, &image, &theirs));
	const struct journal *journal = own ? own : &theirs;
	const struct remote_slack *slack = options->slack;
	struct remote_slack lost;
	if (!slack && !(journal_is_begun(journal) && journal->header->slack))
		HT_TRY(recover_find_slack(proc, true, &lost, &slack));
	struct detach detach = detach_of(proc, &image, journal, options);
	struct ht_err *err = complete_journal(&detach.journal, proc, &image, slack);
	if (image.forked)
		journal_forget_undoing(&detach.journal);
	HT_THEN(err, detach_image(&detach, report));
	if (!err && report->outcome == RECOVER_TOMBSTONE)
		image_keep_thunks(&image);
	return err;
}

static struct recover_options with_deadline(const struct recover_options *options)
{
	struct recover_options with = *options;
	if (!with.deadline_mono_ns)
		with.deadline_mono_ns = clock_mono_ns() + RECOVER_DEADLINE_NS;
	return with;
}

/* Is the image without a journal? The stub, or a child that was forked while the stub ran, may not
 * even have mapped all of it. */
static bool is_part(const struct proc *proc, const struct ourmaps *found)
{
	struct journal_header header = {0};
	FD_GUARD int memfd = -1;

	if (!found->whole)
		return true;
	if (ht_err_drop(open_memfd(proc, found->base, &memfd)))
		return false;
	ssize_t got = pread(memfd, &header, sizeof(header), ABI_JOURNAL_OFF);
	return got != sizeof(header) || header.magic != JOURNAL_MAGIC;
}

/* Cleans a process that has an image without a journal, and whose heaptap is dead: a child that was
 * forked while the first stub ran, or the target of that stub itself. No code of ours runs in
 * it. */
static struct ht_err *recover_part(const struct proc *proc, const struct recover_options *options,
	pid_t daemon_pid, struct recover_report *report)
{
	struct recover_options o = *options;
	struct remote_slack lost;
	HT_CLEANUP(journal_destroy) struct journal none = {0};
	HT_TRY(journal_create(&none));
	o.own = &none;
	if (!o.slack)
		HT_TRY(recover_find_slack(proc, true, &lost, &o.slack));
	return recover_forked(proc, &o, daemon_pid, report);
}

struct ht_err *recover_slack(
	const struct proc *proc, const struct remote_slack *slack, uint64_t deadline_mono_ns)
{
	bool filtered;
	HT_TRY(proc_any_seccomp(proc, &filtered));
	return detach_slack(proc, slack, filtered, deadline_mono_ns);
}

struct ht_err *recover_run(
	const struct proc *proc, const struct recover_options *options, struct recover_report *ret)
{
	struct recover_options o = with_deadline(options);
	struct recover_report report = {.outcome = RECOVER_NOTHING};
	struct ourmaps found = {0};
	struct remote_slack lost;

	struct ht_err *err = ourmaps_read(proc, &found);
	if (!err && !found.image && !o.slack)
		err = recover_find_slack(proc, false, &lost, &o.slack);
	/* No image is mapped: it may be still to come, or gone already. Restore the stub's place
	 * first; after that no stub runs, and the mappings do not change any more. */
	if (!err && !found.image && o.slack) {
		err = recover_slack(proc, o.slack, o.deadline_mono_ns);
		HT_THEN(err, ourmaps_read(proc, &found));
	}
	if (!err && found.image && !o.own && is_part(proc, &found)) {
		err = recover_part(proc, &o, found.daemon_pid, &report);
	} else if (!err && found.image) {
		err = recover_image(proc, &o, found.base, &report);
	} else if (!err) {
		report.outcome = found.tombstone ? RECOVER_TOMBSTONE
				 : o.slack	 ? RECOVER_DONE
						 : RECOVER_NOTHING;
	}
	report.found = found;
	if (!err)
		*ret = report;
	return err;
}

/* --- children --------------------------------------------------------------------------------- */

static bool has_page(const struct proc *proc, raddr_t addr)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	bool unread = ht_err_drop(proc_maps_read(proc, &maps));
	const struct proc_map *map = unread ? NULL : proc_maps_find(&maps, addr);
	return map && map->exec;
}

/*
 * Adds the socket pair that a stub made, by the numbers that the child's copy of the stub's memory
 * holds. A stub that goes on after a fork closes the pair itself while we look; the agent's socket
 * is a duplicate of one of them, and stays. After STUB_DONE the two numbers may be the program's
 * own.
 */
static void find_pair(struct journal *journal, const struct proc *child, raddr_t image)
{
	struct abi_control control = {0};
	const int32_t *fds = control.stub_fds;
	uint64_t left = 0, right = 0;
	size_t got;
	ht_err_free(memory_read_some(child, image + ABI_CONTROL_OFF, &control,
		offsetof(struct abi_control, claimed), &got));
	if (control.stub_status != STUB_DONE) {
		left = socket_inode(child, fds[2]);
		right = socket_inode(child, fds[3]);
	}
	if (!left && control.stub_status > STUB_RUNNING)
		left = socket_inode(child, fds[0]);
	journal_set_sockets(journal, -1, left, right);
}

/* Copies the journal if it is about the image that the child has. Otherwise the child was forked
 * during a first attempt that was given up, or its parent was never hooked: begins a journal for
 * the child's own image. */
static struct ht_err *inherit_journal(const struct proc *proc,
	const struct recover_options *options, pid_t daemon_pid, const struct ourmaps *found,
	struct journal *ret)
{
	struct ht_err *err = NULL;
	HT_TRY(journal_copy(options->own, ret));
	if (!journal_is_begun(ret) || (found->image && ret->header->image != found->base)) {
		journal_begin(ret, found->base, abi_image_bytes(ABI_SLOT_MAX),
			found->base + ABI_THUNKS_OFF);
		if (found->image) {
			find_pair(ret, proc, found->base);
			err = find_near(ret, proc, &found->file);
		}
	}
	add_slack(ret, options->slack);
	ret->header->daemon_pid = (uint32_t)daemon_pid;
	if (err)
		journal_destroy(ret);
	return err;
}

struct ht_err *recover_has_remains(
	const struct proc *proc, const struct recover_options *options, pid_t daemon_pid, bool *ret)
{
	struct journal_header header = *options->own->header;
	int fd[STUB_UNMAP_FDS];
	size_t fd_count = 0;
	bool stub = false;

	header.daemon_pid = (uint32_t)daemon_pid;
	struct ht_err *err = remote_slack_holds_stub(proc, options->slack, &stub);
	HT_THEN(err, ownfds_find(proc, &header, true, fd, &fd_count));
	*ret = stub || fd_count > 0;
	return err;
}

static struct ht_err *recover_remains(struct detach *detach, struct recover_report *report)
{
	bool any = false;
	/* The child has no image to unmap, and the parent's addresses do not apply to it. */
	detach->journal.header->image_bytes = 0;
	memset(detach->journal.header->near, 0, sizeof(detach->journal.header->near));
	struct ht_err *err = ask_for_filters(detach);
	HT_THEN(err, detach_remains(detach, &any));
	if (any)
		report->outcome = RECOVER_DONE;
	return err;
}

/* A process that left shared memory, by its end or an exec, was the only one that could be in the
 * stub. The processes that still share the memory must not keep the stub. */
static void restore_if_left(const struct proc *proc, const struct remote_slack *slack)
{
	if (slack && proc_changed(proc) != PROC_SAME)
		ht_err_free(remote_slack_restore(proc, slack));
}

struct ht_err *recover_forked(const struct proc *proc, const struct recover_options *options,
	pid_t daemon_pid, struct recover_report *ret)
{
	struct recover_options o = with_deadline(options);
	struct recover_report report = {.outcome = RECOVER_NOTHING};
	struct ourmaps found;
	HT_CLEANUP(journal_destroy) struct journal journal = {0};
	HT_CLEANUP(image_deinit) struct image image = {0};
	HT_TRY(ourmaps_read(proc, &found));
	HT_TRY(inherit_journal(proc, &o, daemon_pid, &found, &journal));
	const struct journal_header *h = journal.header;
	bool tapped = h->slot_count && has_page(proc, h->thunks);
	struct ht_err *err =
		image_open_forked(&image, proc, h->image, tapped ? h->thunks : 0, &found.file);
	if (!err) {
		struct detach detach = detach_of(proc, &image, &journal, &o);
		err = found.image ? detach_image(&detach, &report)
				  : recover_remains(&detach, &report);
	}
	if (err)
		restore_if_left(proc, o.slack);
	if (!err && found.tombstone)
		report.outcome = RECOVER_TOMBSTONE;
	if (!err)
		*ret = report;
	return err;
}
