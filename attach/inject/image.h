/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's image: the embedded ELF file, the memfd it is loaded into, and the daemon's own
 * mapping of that memfd, through which it writes; the target sees it because it maps the same file.
 * Only a thunk page that an earlier capture left behind (a tombstone) is written through
 * /proc/PID/mem.
 */
#pragma once

#include "attach/memory/memory.h"
#include "format/abi_control.h"
#include "format/abi_hooks.h"
#include "format/abi_thunk.h"
#include "format/err.h"

/* The embedded agent, checked. */
struct agent_elf {
	const uint8_t *text;
	size_t text_bytes;		  /* to be placed at ABI_TEXT_OFF */
	uint64_t hook_off[ABI_TAP_COUNT]; /* of each hook or guard, from the image's start */
	/* Of ABI_NEWS, where entries are hooked, too: one that ends in a jump to one of these. */
	uint64_t sample_frame_off[ABI_ALLOCATOR_COUNT];
	uint64_t sample_off[ABI_ALLOCATOR_COUNT]; /* of those for a sample */
	uint8_t build_id[20];
};

HT_MUST_CHECK
struct ht_err *agent_elf_read(struct agent_elf *ret);

/* Tells the memfd from all other files. */
struct image_file {
	uint64_t dev, inode;
};

struct image {
	raddr_t base; /* in the target */
	uint64_t bytes;
	uint32_t slot_max;
	int memfd; /* -1: unknown */
	struct image_file file;
	uint8_t *local; /* the memfd, mapped shared and writable here */
	size_t thunk_count;
	raddr_t thunks; /* the thunk page in the target: base + ABI_THUNKS_OFF, or an adopted one */
	struct abi_thunk *thunk; /* what we wrote there: nothing is read back that the target could
				  * have changed. ABI_THUNK_MAX, owned */
	const struct proc *adopted_in; /* NULL: the page is the image's own */
	enum abi_paused paused; /* not NO: thunks of functions that only allocate lead to the real
				   ones */
	bool forked; /* inherited by fork: the memfd is still another process's, and only read */
};

/* Maps the memfd (taken over) and places the agent's text in it, once the target cannot change its
 * size any more. Nothing of it runs before a slot is tapped. */
HT_MUST_CHECK
struct ht_err *image_init(struct image *image, const struct agent_elf *elf, raddr_t base,
	uint32_t slot_max, int memfd);
/*
 * As image_init for an image that is in use already: nothing is written. `thunks`: its thunk page.
 * Where `proc` got the image by fork, what is written here reaches neither the parent nor its
 * daemon: the mapping here is private, the thunk page is written in `proc` itself.
 */
HT_MUST_CHECK
struct ht_err *image_open(
	struct image *image, const struct proc *proc, raddr_t base, raddr_t thunks, int memfd);
/*
 * In a process that was forked by the one attached to, perhaps in the middle of the first stub, so
 * that any part of the image may be missing there. Nothing is shared with the parent: the agent's
 * memory is nothing but empty here, the thunk page is written in `proc` itself. `thunks`: 0 if
 * there is none. `file`: the memfd, as mapped.
 */
HT_MUST_CHECK
struct ht_err *image_open_forked(struct image *image, const struct proc *proc, raddr_t base,
	raddr_t thunks, const struct image_file *file);
/* Gives back the memory of everything but the thunk page, which stays mapped in the target as a
 * tombstone and would keep the whole file. What the image holds must have been read before. */
void image_keep_thunks(struct image *image);
void image_deinit(struct image *image); /* unmaps here and closes; the target keeps what it has */

/*
 * Uses the thunk page at `thunks`, left behind by an earlier capture, instead of the image's own:
 * pointers to its entries that the target still holds reach the agent again, and there is never a
 * second such page. HT_ERR_REFUSED when the page is not one of ours.
 */
HT_MUST_CHECK
struct ht_err *image_adopt(struct image *image, const struct proc *proc, raddr_t thunks);

static inline struct abi_config *image_config(const struct image *image)
{
	return (struct abi_config *)(image->local + ABI_CONFIG_OFF);
}

static inline struct abi_control *image_control(const struct image *image)
{
	return (struct abi_control *)(image->local + ABI_CONTROL_OFF);
}

/* Was slot `index` ever claimed? The others are not worth reading: that would make their pages. */
static inline bool image_slot_claimed(const struct image *image, uint32_t index)
{
	return __atomic_load_n(&image_control(image)->claimed[index / 64], __ATOMIC_ACQUIRE) >>
		       index % 64 &
	       1;
}

/* The next slot from `index` on that was; slot_max or more: there is none. */
static inline uint32_t image_slot_next(const struct image *image, uint32_t index)
{
	while (index < image->slot_max) {
		uint64_t claimed = __atomic_load_n(&image_control(image)->claimed[index / 64],
					   __ATOMIC_ACQUIRE) >>
				   index % 64;
		if (claimed)
			return index + (uint32_t)__builtin_ctzll(claimed);
		index = (index / 64 + 1) * 64;
	}
	return index;
}

static inline const struct abi_slot_head *image_slot_head(const struct image *image, uint32_t index)
{
	return (const void *)(image->local + ABI_SLOTS_OFF + (uint64_t)index * ABI_SLOT_BYTES);
}

/* Fills the constant part of the configuration: addresses, limits, identity. */
void image_configure(struct image *image, const struct agent_elf *elf);

struct image_thunk {
	enum abi_hook hook;
	raddr_t real;
	raddr_t real_lo; /* executable range of the module that holds it */
	uint64_t real_len;
	raddr_t usable; /* measures its blocks; 0: nothing does, or the image has no room for it */
	raddr_t plain;	/* of ABI_NEWS, not 0: what the hook calls instead */
};

/* The entry of the thunk for (hook, real), made now if there is none; it forwards to `real` until
 * image_enable. HT_ERR_REFUSED when the page is full, or the image has no room for `plain`. */
HT_MUST_CHECK
struct ht_err *image_thunk(struct image *image, const struct image_thunk *want, raddr_t *ret);
/* Lets calls through the entry `addr` reach the agent's hook; with abi_config.sample_bytes that for
 * samples. */
HT_MUST_CHECK
struct ht_err *image_enable(struct image *image, const struct agent_elf *elf, raddr_t addr);
/*
 * From here on new blocks are not recorded, or are again (ABI_PAUSED_NO): thunks of functions that
 * only allocate (abi_only_allocates) jump to the real function or to the hook, also those that are
 * enabled later, and abi_config.paused holds for the rest. Frees are recorded in either case. Not
 * to be called once thunks are disabled. After an error some are as they were.
 */
HT_MUST_CHECK
struct ht_err *image_pause(
	struct image *image, const struct agent_elf *elf, enum abi_paused paused);
/* From here on every thunk jumps straight to the real function; those of guards by the second. */
HT_MUST_CHECK
struct ht_err *image_disable_hooks(struct image *image);
HT_MUST_CHECK
struct ht_err *image_disable_all(struct image *image);
/* The real function behind the entry `addr`; 0 when it is none. */
raddr_t image_real(const struct image *image, raddr_t addr);
