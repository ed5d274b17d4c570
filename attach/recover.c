/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/target/clock.h"

#define RECOVER_DEADLINE_NS (30 * CLOCK_NS_PER_S)
#define MEMFD_PREFIX	    "/memfd:heaptap-"

static bool is_ours(const struct proc_map *map)
{
	return strncmp(map->name, MEMFD_PREFIX, strlen(MEMFD_PREFIX)) == 0;
}

struct ht_err *recover_find(const struct proc *proc, struct recover_found *ret)
{
	struct recover_found found = {0};
	struct proc_maps maps;
	struct ht_err *err = proc_maps_read(proc, &maps);
	if (err)
		return err;
	for (size_t i = 0; i < maps.count; i++) {
		const struct proc_map *map = &maps.map[i];
		if (!is_ours(map))
			continue;
		if (map->offset == ABI_THUNKS_OFF && !found.image) {
			found.tombstone = true;
			found.base = map->lo;
			found.daemon_pid =
				(pid_t)strtol(map->name + strlen(MEMFD_PREFIX), NULL, 10);
		} else if (map->offset == ABI_TABLES_OFF) {
			found.image = true;
			found.base = map->lo - ABI_TABLES_OFF;
			found.daemon_pid =
				(pid_t)strtol(map->name + strlen(MEMFD_PREFIX), NULL, 10);
		}
	}
	found.tombstone &= !found.image;
	proc_maps_deinit(&maps);
	*ret = found;
	return NULL;
}

static struct ht_err *open_memfd(const struct proc *proc, raddr_t base, int *ret)
{
	char name[64];
	raddr_t lo = base + ABI_TABLES_OFF;

	snprintf(name, sizeof(name), "map_files/%lx-%lx", (unsigned long)lo,
		(unsigned long)(lo + ABI_TABLES_BYTES));
	int fd = openat(proc->dir_fd, name, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return ht_err_sys(errno,
			"cannot open what an earlier heaptap left in process %d (root is needed)",
			proc->pid);
	*ret = fd;
	return NULL;
}

static struct ht_err *map_image(const struct proc *proc, int memfd, raddr_t base, struct image *ret)
{
	struct journal_header header;
	if (memfd < 0) {
		struct ht_err *err = open_memfd(proc, base, &memfd);
		if (err)
			return err;
	} else {
		memfd = fcntl(memfd, F_DUPFD_CLOEXEC, 3);
	}
	bool whole = pread(memfd, &header, sizeof(header), ABI_JOURNAL_OFF) == sizeof(header) &&
		     header.magic == JOURNAL_MAGIC;
	return image_open(ret, proc, base, whole ? header.thunks : 0, memfd);
}

/* The socket that the stub reported last of all; without that report the number means nothing. */
static void find_agent_fd(
	struct journal_header *header, const struct proc *proc, const struct image *image)
{
	const struct abi_control *control = image_control(image);
	int fd = control->stub_fds[0];
	unsigned long inode;
	char name[32];
	char *link = NULL;

	if (control->stub_status <= 0 || fd <= 0)
		return;
	snprintf(name, sizeof(name), "fd/%d", fd);
	struct ht_err *err = proc_link(proc, name, &link);
	if (!err && sscanf(link, "socket:[%lu]", &inode) == 1) {
		header->agent_fd = fd;
		header->agent_fd_inode = inode;
	}
	ht_err_free(err);
	free(link);
}

/* The daemon died between mapping and beginning the journal: only the place of the stub is known.
 */
static void complete_journal(struct journal *journal, const struct proc *proc,
	const struct image *image, const struct remote_slack *slack)
{
	if (journal->header->magic != JOURNAL_MAGIC)
		journal_begin(journal, image->base, image->bytes, image->thunks);
	if (slack && journal->header->slack == 0) {
		journal->header->slack = slack->addr;
		journal->header->slack_bytes = (uint32_t)slack->bytes;
		memcpy(journal->header->slack_original, slack->original, sizeof(slack->original));
	}
	if (journal->header->agent_fd < 0 && journal->header->phase == JOURNAL_MAPPED)
		find_agent_fd(journal->header, proc, image);
}

static struct ht_err *detach_image(const struct proc *proc, struct image *image,
	const struct remote_slack *slack, struct recover_report *report)
{
	struct detach detach = {.proc = proc,
		.image = image,
		.journal = journal_of(image->local),
		.suspend_seccomp = proc_any_seccomp(proc),
		.deadline_mono_ns = clock_mono_ns() + RECOVER_DEADLINE_NS};

	complete_journal(&detach.journal, proc, image, slack);
	struct ht_err *err = journal_check(&detach.journal);
	if (!err && image->forked)
		journal_forget_undoing(&detach.journal);
	if (!err)
		err = detach_untap(&detach, &report->detach);
	if (!err)
		err = detach_unmap(&detach, &report->detach);
	if (err)
		return err;
	switch (report->detach.level) {
	case DETACH_PROVEN:
	case DETACH_RETRIED:
		report->outcome = RECOVER_DONE;
		break;
	case DETACH_TOMBSTONE:
		report->outcome = RECOVER_TOMBSTONE;
		break;
	case DETACH_INCOMPLETE:
		report->outcome = RECOVER_INCOMPLETE;
		break;
	}
	return NULL;
}

struct ht_err *recover_run(const struct proc *proc, int memfd, const struct remote_slack *slack,
	struct recover_report *ret)
{
	struct recover_report report = {.outcome = RECOVER_NOTHING};
	struct recover_found found;
	struct image image;

	struct ht_err *err = recover_find(proc, &found);
	/* Nothing mapped, or not yet, or not any more: the stub's place is all there is to restore.
	 * When that is done no stub runs, and what is mapped now stays. */
	if (!err && !found.image && slack) {
		err = detach_slack(
			proc, slack, proc_any_seccomp(proc), clock_mono_ns() + RECOVER_DEADLINE_NS);
		if (!err)
			err = recover_find(proc, &found);
	}
	if (!err && found.image) {
		err = map_image(proc, memfd, found.base, &image);
		if (!err) {
			err = detach_image(proc, &image, slack, &report);
			image_deinit(&image);
		}
	} else if (!err) {
		report.outcome = found.tombstone ? RECOVER_TOMBSTONE
				 : slack	 ? RECOVER_DONE
						 : RECOVER_NOTHING;
	}
	if (!err)
		*ret = report;
	return err;
}
