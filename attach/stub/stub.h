/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the bytes of a bootstrap stub (stub_code.S): a list of system calls for one thread of the
 * target, its undo list, and the registers with which that thread goes on. Bytes only; running it
 * is stub/remote.
 */
#pragma once

#include <sys/user.h>

#include "format/abi_control.h"
#include "format/err.h"

#define STUB_BYTES_MAX	  3648u
#define STUB_NAME_MAX	  24u
#define STUB_UNMAP_RANGES (ABI_NEAR_MAX + 2u)
#define STUB_UNMAP_FDS	  4u /* as many as the first stub has open at once */

struct stub {
	uint8_t bytes[STUB_BYTES_MAX];
	size_t length;
	size_t call_count;
};

/* Where everything goes when the agent's image is mapped; addresses in the target. */
struct stub_map {
	raddr_t image; /* page-aligned; image_bytes free bytes there */
	uint64_t image_bytes;
	raddr_t near[ABI_NEAR_MAX]; /* the near areas, `near_count` of them: free, page-aligned */
	size_t near_count;
	int fd_floor;	      /* the agent's socket gets a number from here on */
	uint64_t lease_ns;    /* so long the thread waits for our answer before it undoes all */
	uint32_t memfd_flags; /* beside MFD_CLOEXEC: MFD_NOEXEC_SEAL where the kernel knows it */
	char name[STUB_NAME_MAX]; /* of the memfd */
};

/* The thread that runs the stub, as it was stopped. */
struct stub_thread {
	struct user_regs_struct resume; /* with which it goes on */
	uint64_t signal_mask; /* blocked signals. All are while the stub runs: a handler that
			       * jumps away would leave it unfinished */
	/* So long it waits at the end for a tracer that puts it back in the very state in which
	 * it was stopped; 0: it restores itself at once. */
	uint32_t hold_ms;
	/* The answering process may need the core on which the thread waits, and the thread's
	 * timers are punctual: the thread sleeps. Otherwise it yields. */
	bool together;
};

/* The stub that makes and maps the image, and the socket pair, at address `at`. */
HT_MUST_CHECK
struct ht_err *stub_make_map(
	const struct stub_map *map, raddr_t at, const struct stub_thread *thread, struct stub *ret);

/* What the last stub takes out. */
struct stub_unmap {
	/* Ranges, in the order of unmapping; lo == hi: none. */
	raddr_t lo[STUB_UNMAP_RANGES], hi[STUB_UNMAP_RANGES];
	int fd[STUB_UNMAP_FDS]; /* to be closed if they lead to a file with STUB_MARK */
	size_t fd_count;
};

HT_MUST_CHECK
struct ht_err *stub_make_unmap(const struct stub_unmap *unmap, raddr_t at,
	const struct stub_thread *thread, struct stub *ret);

/* Do these bytes begin with the code of a stub, of this version of heaptap? */
bool stub_is_at_start(const uint8_t *bytes, size_t length);

/* Most bytes that either stub needs, with so many near areas: the slack must be that long. */
size_t stub_map_bytes(size_t near_count);
