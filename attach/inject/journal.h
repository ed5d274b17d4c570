/* SPDX-License-Identifier: Apache-2.0
 *
 * The changes in the target. Each is written down before it is made, in memory that daemon
 * and guardian share and the target cannot reach. A copy lies in the image's memfd for `heaptap
 * recover`, when both are dead; it is the target's to damage, and read only through journal_read
 * and checked. Positions and values only; undoing is inject/patch and inject/detach.
 */
#pragma once

#include "attach/allocators/given.h"
#include "format/abi_control.h"
#include "format/err.h"

#define JOURNAL_MAGIC	    0x6c616e72756f6a68ull
#define JOURNAL_SLACK_BYTES 3648u

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
	JOURNAL_SLOT_CHANGED, /* the program stored something of its own: left alone */
	JOURNAL_SLOT_GONE,    /* unloaded; something else may be there */
};

struct journal_slot {
	raddr_t addr;
	uint64_t original;
	uint64_t thunk;
	uint64_t real;	     /* the function that the thunk leads to; of code: what it jumps to */
	uint64_t dev, inode; /* of the file that it is mapped from; 0, 0: none */
	uint64_t offset;     /* of the word in that file */
	uint32_t state;	     /* enum journal_state */
	uint16_t hook;
	/* Not a slot, but code: of the word `original`, which became `thunk`, these bytes are ours.
	 * code_bytes 0: a slot. */
	uint8_t code_at, code_bytes;
};

struct journal_header {
	uint64_t magic;
	uint32_t version;
	uint32_t phase;
	uint32_t daemon_pid;
	uint32_t slot_count;
	uint64_t image, image_bytes;
	uint64_t thunks; /* address of the thunk page: the image's own, or an adopted one */
	uint64_t near[ABI_NEAR_MAX]; /* addresses of the near areas; 0: none */
	uint64_t slack, slack_left;  /* the stub's place (choose_slack) */
	uint32_t slack_bytes;
	uint32_t unloaded; /* slots whose entry was used again: their libraries are gone */
	int32_t agent_fd;  /* descriptor in the target; -1: none */
	uint64_t agent_fd_inode, daemon_fd_inode; /* of both ends of the socket pair */
	uint8_t slack_original[JOURNAL_SLACK_BYTES];
	struct given_list given; /* by these names some of the slots were found */
};

#define JOURNAL_SLOTS_MAX                                                                          \
	((ABI_JOURNAL_BYTES - sizeof(struct journal_header)) / sizeof(struct journal_slot))

/* Changed by the functions below only, which keep the copy equal. */
struct journal {
	struct journal_header *header;
	struct journal_slot *slot;
	uint8_t *shown; /* the copy in the image, never read; NULL: none */
};

/* Memory for a journal, empty: processes forked from here on share it. */
HT_MUST_CHECK
struct ht_err *journal_create(struct journal *ret);
void journal_destroy(struct journal *journal); /* accepts a zeroed one */
/* One of our own with the same entries, nothing of which has been undone: for a process that was
 * forked by the one that `from` is about. */
HT_MUST_CHECK
struct ht_err *journal_copy(const struct journal *from, struct journal *ret);
/* From here on every change is copied into the image, too (ABI_JOURNAL_BYTES at ABI_JOURNAL_OFF of
 * `image_local`). */
void journal_show(struct journal *journal, uint8_t *image_local);
/* Takes over what stands in the image; to be checked. */
void journal_read(struct journal *journal, const uint8_t *image_local);
/* Begins it: there is an image, nothing is tapped. */
void journal_begin(struct journal *journal, raddr_t image, uint64_t image_bytes, raddr_t thunks);
bool journal_is_begun(const struct journal *journal);
/* Nothing of it has been undone in this process: whatever it says happened in the parent. */
void journal_forget_undoing(struct journal *journal);
/* A journal that was read from a target: are its counts within bounds? */
HT_MUST_CHECK
struct ht_err *journal_check(const struct journal *journal);

/* Writes down a change that is about to be made; HT_ERR_REFUSED when the journal is full. An entry
 * for the same address is used again, and one whose slot is gone. */
HT_MUST_CHECK
struct ht_err *journal_add(struct journal *journal, const struct journal_slot *entry);
void journal_set_phase(struct journal *journal, enum journal_phase phase);
/* The stub's place, at most JOURNAL_SLACK_BYTES, what was there, and what is left of it on a stack.
 */
void journal_set_slack(
	struct journal *journal, raddr_t addr, raddr_t left, const uint8_t *original, size_t bytes);
void journal_set_near(struct journal *journal, const raddr_t near[ABI_NEAR_MAX]);
/* The agent's socket in the target, and the inode of the other end. */
void journal_set_sockets(
	struct journal *journal, int agent_fd, uint64_t agent_inode, uint64_t daemon_inode);
/* What became of entry `index`. */
void journal_set_state(struct journal *journal, uint32_t index, enum journal_state state);
/* Was the word at `addr` ever tapped, according to the journal? */
bool journal_has(const struct journal *journal, raddr_t addr);
