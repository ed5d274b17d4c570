/* SPDX-License-Identifier: Apache-2.0
 *
 * The changes in the target. Each is recorded before it is made, in memory that daemon and guardian
 * share and the target cannot reach. A copy is in the image's memfd, for `heaptap recover` when
 * both are dead. The target can damage the copy: it is read only by journal_read, and checked. The
 * journal holds positions and values only; inject/patch and undo/detach undo the changes.
 */
#pragma once

#include "attach/allocators/given.h"
#include "format/abi_control.h"
#include "format/err.h"

#define JOURNAL_MAGIC	    0x6c616e72756f6a68ull
#define JOURNAL_SLACK_BYTES 3648u

enum journal_phase {
	JOURNAL_EMPTY,
	JOURNAL_MAPPED,	   /* the image is mapped, no slot is hooked */
	JOURNAL_TAPPED,	   /* slots may be hooked */
	JOURNAL_DETACHING, /* thunks forward, slots are being restored */
	JOURNAL_TOMBSTONE, /* only the jump page stays */
};

enum journal_state {
	JOURNAL_SLOT_INTENDED, /* the write may or may not have happened */
	JOURNAL_SLOT_RESTORED,
	JOURNAL_SLOT_CHANGED, /* the program stored another word: left alone */
	JOURNAL_SLOT_GONE,    /* its library was unloaded; something else may be there */
};

struct journal_slot {
	raddr_t addr;
	uint64_t original;
	uint64_t thunk;
	uint64_t real;	     /* the thunk's real function; for code: where the jump leads */
	uint64_t dev, inode; /* of the file that the word is mapped from; 0, 0: none */
	uint64_t offset;     /* of the word in that file */
	uint32_t state;	     /* enum journal_state */
	uint16_t hook;
	/* For code: the bytes of the word `original` that became those of `thunk`. code_bytes 0: a
	 * slot. */
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
	uint64_t near[ABI_NEAR_MAX]; /* addresses of the near areas; 0: no more */
	uint64_t slack, slack_left;  /* the stub's place and the address in it that stays on a stack
					(choose.h); 0: none */
	uint32_t slack_bytes;
	uint32_t unloaded; /* slots whose libraries were unloaded and whose entries were reused */
	int32_t agent_fd;  /* descriptor in the target; -1: none */
	uint64_t agent_fd_inode, daemon_fd_inode; /* of both ends of the socket pair */
	uint8_t slack_original[JOURNAL_SLACK_BYTES];
	struct given_list given; /* names given by the user, by which some slots were found */
};

#define JOURNAL_SLOTS_MAX                                                                          \
	((ABI_JOURNAL_BYTES - sizeof(struct journal_header)) / sizeof(struct journal_slot))

/* Only the functions below change a journal: they keep the copy equal. */
struct journal {
	struct journal_header *header;
	struct journal_slot *slot;
	uint8_t *shown; /* the copy in the image, never read; NULL: none */
};

/* Allocates an empty journal in memory that processes forked from here on share. */
HT_MUST_CHECK
struct ht_err *journal_create(struct journal *ret);
void journal_destroy(struct journal *journal); /* accepts a zeroed one */
/* Makes a new journal with the same entries, none of them undone yet: for a process that was forked
 * by the process of `from`. */
HT_MUST_CHECK
struct ht_err *journal_copy(const struct journal *from, struct journal *ret);
/* From here on copies every change into the image as well: ABI_JOURNAL_BYTES at ABI_JOURNAL_OFF of
 * `image_local`. */
void journal_show(struct journal *journal, uint8_t *image_local);
/* Copies the journal from the image; the caller must check it (claims_check). */
void journal_read(struct journal *journal, const uint8_t *image_local);
/* Begins the journal: the image is mapped, no slot is hooked. */
void journal_begin(struct journal *journal, raddr_t image, uint64_t image_bytes, raddr_t thunks);
bool journal_is_begun(const struct journal *journal);
/* Marks every change as still to be undone: what the journal calls undone was undone in the parent
 * only. */
void journal_forget_undoing(struct journal *journal);
/* For a journal that was read from a target: are its counts within bounds? */
HT_MUST_CHECK
struct ht_err *journal_check(const struct journal *journal);

/* Records a change that is about to be made. Reuses an entry for the same address, or one whose
 * slot is gone. HT_ERR_REFUSED if the journal is full. */
HT_MUST_CHECK
struct ht_err *journal_add(struct journal *journal, const struct journal_slot *entry);
void journal_set_phase(struct journal *journal, enum journal_phase phase);
/* Sets the stub's place, of at most JOURNAL_SLACK_BYTES, its original bytes, and the return address
 * into it that stays on a stack (choose_slack_left). */
void journal_set_slack(
	struct journal *journal, raddr_t addr, raddr_t left, const uint8_t *original, size_t bytes);
void journal_set_near(struct journal *journal, const raddr_t near[ABI_NEAR_MAX]);
/* Sets the agent's socket in the target, and the inodes of both ends. */
void journal_set_sockets(
	struct journal *journal, int agent_fd, uint64_t agent_inode, uint64_t daemon_inode);
/* Sets the state of entry `index`. */
void journal_set_state(struct journal *journal, uint32_t index, enum journal_state state);
/* Does the journal have an entry for the word at `addr`? */
bool journal_has(const struct journal *journal, raddr_t addr);
