/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/journal.h"

#include <unistd.h>

struct journal journal_of(uint8_t *image_local)
{
	struct journal_header *header = (void *)(image_local + ABI_JOURNAL_OFF);
	return (struct journal){.header = header, .slot = (void *)(header + 1)};
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
	};
}

struct ht_err *journal_check(const struct journal *journal)
{
	const struct journal_header *h = journal->header;

	if (h->magic != JOURNAL_MAGIC || h->version != ABI_VERSION)
		return ht_err_new(HT_ERR_REFUSED, "the journal in the target is not of this "
						  "version of heaptap; use the one that "
						  "attached");
	if (h->slot_count > JOURNAL_SLOTS_MAX || h->slack_bytes > JOURNAL_SLACK_BYTES)
		return ht_err_new(HT_ERR_REFUSED, "the journal in the target is damaged");
	return NULL;
}

void journal_forget_undoing(struct journal *journal)
{
	for (uint32_t i = 0; i < journal->header->slot_count; i++)
		journal->slot[i].state = JOURNAL_SLOT_INTENDED;
}

static struct journal_slot *find(const struct journal *journal, raddr_t addr)
{
	for (uint32_t i = 0; i < journal->header->slot_count; i++)
		if (journal->slot[i].addr == addr)
			return &journal->slot[i];
	return NULL;
}

struct ht_err *journal_add(struct journal *journal, const struct journal_slot *entry)
{
	struct journal_slot *slot = find(journal, entry->addr);

	if (!slot) {
		if (journal->header->slot_count == JOURNAL_SLOTS_MAX)
			return ht_err_new(HT_ERR_REFUSED,
				"the target has more than %zu allocator slots", JOURNAL_SLOTS_MAX);
		slot = &journal->slot[journal->header->slot_count];
	}
	*slot = *entry;
	slot->state = JOURNAL_SLOT_INTENDED;
	if (slot == &journal->slot[journal->header->slot_count])
		__atomic_store_n(&journal->header->slot_count, journal->header->slot_count + 1,
			__ATOMIC_RELEASE);
	return NULL;
}

void journal_set_phase(struct journal *journal, enum journal_phase phase)
{
	__atomic_store_n(&journal->header->phase, (uint32_t)phase, __ATOMIC_RELEASE);
}

bool journal_has(const struct journal *journal, raddr_t addr)
{
	return find(journal, addr) != NULL;
}
