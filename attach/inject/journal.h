/* SPDX-License-Identifier: Apache-2.0
 *
 * What was changed in the target, written down before each change is made. It lies in the image's
 * memfd, so that whoever finds the image in the target's mappings (a guardian, `heaptap recover`)
 * can take everything back. Positions and values only; undoing is inject/patch and inject/detach.
 */
#pragma once

#include "format/abi_control.h"
#include "format/err.h"

#define JOURNAL_MAGIC	    0x6c616e72756f6a68ull
#define JOURNAL_SLACK_BYTES 2560u

enum journal_phase {
	JOURNAL_EMPTY,
	JOURNAL_MAPPED, /* the image is mapped, nothing is tapped */
	JOURNAL_TAPPED,
	JOURNAL_DETACHING, /* thunks forward, slots are being restored */
	JOURNAL_TOMBSTONE, /* only the thunk page stays */
};

enum journal_state {
	JOURNAL_SLOT_INTENDED, /* the write may or may not have happened */
	JOURNAL_SLOT_RESTORED,
	JOURNAL_SLOT_LOST, /* the word is not ours any more: changed by others, or unmapped */
};

struct journal_slot {
	raddr_t addr;
	uint64_t original;
	uint64_t thunk;
	uint64_t dev, inode; /* of the mapping it lies in */
	uint32_t state;	     /* enum journal_state */
	uint32_t hook;
};

struct journal_header {
	uint64_t magic;
	uint32_t version;
	uint32_t phase;
	uint32_t daemon_pid;
	uint32_t slot_count;
	uint64_t image, image_bytes;
	uint64_t thunks; /* address of the thunk page: the image's own, or an adopted one */
	uint64_t slack;	 /* address of the stub's place */
	uint32_t slack_bytes;
	int32_t agent_fd; /* descriptor in the target; -1: none */
	uint64_t agent_fd_inode;
	uint8_t slack_original[JOURNAL_SLACK_BYTES];
};

#define JOURNAL_SLOTS_MAX                                                                          \
	((ABI_JOURNAL_BYTES - sizeof(struct journal_header)) / sizeof(struct journal_slot))

/* A view; the bytes belong to the image's mapping, or to a copy read from the target. */
struct journal {
	struct journal_header *header;
	struct journal_slot *slot;
};

/* The journal in `image_local` (ABI_JOURNAL_BYTES at ABI_JOURNAL_OFF). */
struct journal journal_of(uint8_t *image_local);
/* Begins an empty journal. */
void journal_begin(struct journal *journal, raddr_t image, uint64_t image_bytes, raddr_t thunks);
/* Nothing of it has been undone in this process: whatever it says happened in the parent. */
void journal_forget_undoing(struct journal *journal);
/* A journal that was read from a target: are its counts within bounds? */
HT_MUST_CHECK
struct ht_err *journal_check(const struct journal *journal);

/* Writes down a change that is about to be made; HT_ERR_REFUSED when the journal is full. An entry
 * for the same address is used again. */
HT_MUST_CHECK
struct ht_err *journal_add(struct journal *journal, const struct journal_slot *entry);
void journal_set_phase(struct journal *journal, enum journal_phase phase);
/* Was the word at `addr` ever tapped, according to the journal? */
bool journal_has(const struct journal *journal, raddr_t addr);
