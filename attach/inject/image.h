/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's image: the embedded ELF file, the memfd into which it is loaded, and the daemon's own
 * mapping of that memfd. The target maps the same file, so it sees what the daemon writes. Only a
 * jump page of an earlier capture is written through /proc/PID/mem.
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
	uint64_t hook_off[ABI_TAP_COUNT]; /* offset of each hook or guard from the image's start */
	/* Offsets of the hooks for ABI_NEWS in a sampling capture that also hooks functions at
	 * their entry: an operator new may end in a jump to such a function. */
	uint64_t sample_frame_off[ABI_ALLOCATOR_COUNT];
	uint64_t sample_off[ABI_ALLOCATOR_COUNT]; /* of all hooks in a sampling capture, where
						     sample_frame_off does not apply */
	uint8_t build_id[20];
};

HT_MUST_CHECK
struct ht_err *agent_elf_read(struct agent_elf *ret);

/* Identifies the memfd among all files. */
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
	struct abi_thunk *thunk;       /* what heaptap wrote there, as the target may change it.
					  ABI_THUNK_MAX, owned */
	const struct proc *adopted_in; /* the process in which an adopted page is; NULL: the page is
					  the image's own */
	enum abi_paused paused;	       /* not NO: allocating thunks lead to the real functions */
	bool forked; /* inherited by fork: the memfd is another process's, and only read */
};

/* Maps the memfd, which it takes over (closed after an error), seals its size, and copies the
 * agent's text into it. No code in it runs before a slot is hooked. */
HT_MUST_CHECK
struct ht_err *image_init(struct image *image, const struct agent_elf *elf, raddr_t base,
	uint32_t slot_max, int memfd);
/* As image_init, for an image that is in use: writes nothing. `thunks`: address of its thunk page;
 * 0: the image's own. If `proc` inherited the image by fork, writes must reach neither the parent
 * nor its daemon: the mapping here is private, and the thunk page is written in `proc` itself. */
HT_MUST_CHECK
struct ht_err *image_open(
	struct image *image, const struct proc *proc, raddr_t base, raddr_t thunks, int memfd);
/*
 * For a child that the target forked, perhaps while the first stub ran, so that any part of the
 * image may be missing. Nothing is shared with the parent: image->local is private, zeroed memory,
 * and the thunk page is written in `proc` itself. `thunks`: address of the thunk page; 0: none.
 * `file`: device and inode of the memfd. Call image_deinit also after an error.
 */
HT_MUST_CHECK
struct ht_err *image_open_forked(struct image *image, const struct proc *proc, raddr_t base,
	raddr_t thunks, const struct image_file *file);
/* Gives back all memory of the memfd except the thunk page, which stays mapped in the target and
 * would keep the whole file, and the near areas, whose bridges children may still run. Does nothing
 * for an inherited image. Read what the image holds before this. */
void image_keep_thunks(struct image *image);
void image_deinit(struct image *image); /* unmaps here and closes; the target keeps what it has */

/* Uses the jump page of an earlier capture, at `thunks`, instead of the image's own page. Addresses
 * in the page that the target still holds then lead to the agent again, and there is never a second
 * jump page. HT_ERR_REFUSED if the page was not left by this version of heaptap; then the image is
 * unchanged. */
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

/* The next thread record from `index` on that was ever used; slot_max or more: none. Do not read
 * other records: reading would allocate their pages. */
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
	raddr_t usable; /* measures blocks of this function; 0: none. Ignored if the image has no
			   room for it */
	raddr_t plain; /* for ABI_NEWS, never 0: the function that the hook calls instead; 0 for all
			  others */
};

/* Returns in `ret` the entry of the thunk for (hook, real), and makes it if there is none. The
 * thunk forwards to `real` until image_enable. HT_ERR_REFUSED if the page is full, or if the image
 * has no room for `plain`. */
HT_MUST_CHECK
struct ht_err *image_thunk(struct image *image, const struct image_thunk *want, raddr_t *ret);
/* Lets calls through the thunk entry `addr` reach the agent's hook; with abi_config.sample_bytes,
 * the hook for samples. */
HT_MUST_CHECK
struct ht_err *image_enable(struct image *image, const struct agent_elf *elf, raddr_t addr);
/*
 * Stops recording new blocks; ABI_PAUSED_NO resumes it. Thunks of functions that only allocate
 * (abi_only_allocates) jump to the real function or to the hook, also thunks that are enabled
 * later; abi_config.paused serves for the other functions. Frees are always recorded. Do not call
 * it once thunks are disabled. After an error some thunks are unchanged.
 */
HT_MUST_CHECK
struct ht_err *image_pause(
	struct image *image, const struct agent_elf *elf, enum abi_paused paused);
/* image_disable_hooks makes every thunk jump straight to the real function, except those of guards;
 * image_disable_all disables those, too. */
HT_MUST_CHECK
struct ht_err *image_disable_hooks(struct image *image);
HT_MUST_CHECK
struct ht_err *image_disable_all(struct image *image);
/* The real function behind the thunk entry `addr`; 0: `addr` is no thunk entry. */
raddr_t image_real(const struct image *image, raddr_t addr);
