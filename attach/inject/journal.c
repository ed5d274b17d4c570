/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/journal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct ht_err *journal_create(struct journal *ret)
{
	void *memory = mmap(
		NULL, ABI_JOURNAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return ht_err_sys(errno, "cannot map memory for the journal");
	*ret = (struct journal){
		.header = memory, .slot = (void *)((struct journal_header *)memory + 1)};
	return NULL;
}

void journal_destroy(struct journal *journal)
{
	if (journal->header)
		munmap(journal->header, ABI_JOURNAL_BYTES);
	*journal = (struct journal){0};
}

struct ht_err *journal_copy(const struct journal *from, struct journal *ret)
{
	HT_TRY(journal_create(ret));
	memcpy(ret->header, from->header, ABI_JOURNAL_BYTES);
	journal_forget_undoing(ret);
	return NULL;
}

/* Copies `bytes` bytes at `at` in the journal to the copy in the image. */
static void show(const struct journal *journal, const void *at, size_t bytes)
{
	if (journal->shown)
		memcpy(journal->shown + ((const uint8_t *)at - (uint8_t *)journal->header), at,
			bytes);
}

/* Stores a word by which a reader judges other parts: the copy has those parts already. */
static void store_last(const struct journal *journal, uint32_t *at, uint32_t value)
{
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_RELEASE);
	show(journal, at, sizeof(*at));
}

void journal_show(struct journal *journal, uint8_t *image_local)
{
	journal->shown = image_local + ABI_JOURNAL_OFF;
}

void journal_read(struct journal *journal, const uint8_t *image_local)
{
	memcpy(journal->header, image_local + ABI_JOURNAL_OFF, ABI_JOURNAL_BYTES);
}

void journal_begin(struct journal *journal, raddr_t image, uint64_t image_bytes, raddr_t thunks)
{
	*journal->header = (struct journal_header){
		.magic = JOURNAL_MAGIC,
		.version = ABI_VERSION,
		.phase = JOURNAL_MAPPED,
		.daemon_pid = (uint32_t)getpid(),
		.image = image,
		.image_bytes = image_bytes,
		.thunks = thunks,
		.agent_fd = -1,
		.given = *given_used(),
	};
	show(journal, journal->header, sizeof(*journal->header));
}

bool journal_is_begun(const struct journal *journal)
{
	return journal->header->magic == JOURNAL_MAGIC;
}

struct ht_err *journal_check(const struct journal *journal)
{
	const struct journal_header *h = journal->header;

	if (h->magic != JOURNAL_MAGIC || h->version != ABI_VERSION)
		return ht_err_new(HT_ERR_REFUSED,
			"another version of heaptap attached to the process; use that version");
	if (h->slot_count > JOURNAL_SLOTS_MAX || h->slack_bytes > JOURNAL_SLACK_BYTES ||
		!given_is_whole(&h->given))
		return ht_err_new(HT_ERR_REFUSED, "heaptap's journal in the process is damaged");
	return NULL;
}

void journal_forget_undoing(struct journal *journal)
{
	for (uint32_t i = 0; i < journal->header->slot_count; i++)
		journal_set_state(journal, i, JOURNAL_SLOT_INTENDED);
}

static struct journal_slot *find(const struct journal *journal, raddr_t addr)
{
	for (uint32_t i = 0; i < journal->header->slot_count; i++)
		if (journal->slot[i].addr == addr)
			return &journal->slot[i];
	return NULL;
}

static struct journal_slot *find_gone(const struct journal *journal)
{
	for (uint32_t i = 0; i < journal->header->slot_count; i++)
		if (journal->slot[i].state == JOURNAL_SLOT_GONE)
			return &journal->slot[i];
	return NULL;
}

struct ht_err *journal_add(struct journal *journal, const struct journal_slot *entry)
{
	struct journal_slot *slot = find(journal, entry->addr);

	if (!slot)
		slot = find_gone(journal);
	if (slot && slot->state == JOURNAL_SLOT_GONE) {
		journal->header->unloaded++;
		show(journal, &journal->header->unloaded, sizeof(journal->header->unloaded));
	}
	if (!slot) {
		if (journal->header->slot_count == JOURNAL_SLOTS_MAX)
			return ht_err_new(HT_ERR_REFUSED,
				"the process keeps addresses of allocator functions in more than "
				"%zu places",
				JOURNAL_SLOTS_MAX);
		slot = &journal->slot[journal->header->slot_count];
	}
	*slot = *entry;
	slot->state = JOURNAL_SLOT_INTENDED;
	show(journal, slot, sizeof(*slot));
	if (slot == &journal->slot[journal->header->slot_count])
		store_last(journal, &journal->header->slot_count, journal->header->slot_count + 1);
	return NULL;
}

void journal_set_phase(struct journal *journal, enum journal_phase phase)
{
	store_last(journal, &journal->header->phase, (uint32_t)phase);
}

void journal_set_slack(
	struct journal *journal, raddr_t addr, raddr_t left, const uint8_t *original, size_t bytes)
{
	struct journal_header *h = journal->header;
	h->slack = addr;
	h->slack_left = left;
	h->slack_bytes = (uint32_t)bytes;
	memcpy(h->slack_original, original, bytes);
	show(journal, h, sizeof(*h));
}

void journal_set_near(struct journal *journal, const raddr_t near[ABI_NEAR_MAX])
{
	memcpy(journal->header->near, near, sizeof(journal->header->near));
	show(journal, journal->header->near, sizeof(journal->header->near));
}

void journal_set_sockets(
	struct journal *journal, int agent_fd, uint64_t agent_inode, uint64_t daemon_inode)
{
	journal->header->agent_fd = agent_fd;
	journal->header->agent_fd_inode = agent_inode;
	journal->header->daemon_fd_inode = daemon_inode;
	show(journal, journal->header, sizeof(*journal->header));
}

void journal_set_state(struct journal *journal, uint32_t index, enum journal_state state)
{
	store_last(journal, &journal->slot[index].state, (uint32_t)state);
}

bool journal_has(const struct journal *journal, raddr_t addr)
{
	return find(journal, addr) != NULL;
}
