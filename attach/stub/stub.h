/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the bytes of a bootstrap stub (stub_code.S): a list of system calls for one thread of the
 * target, its undo list, and the registers with which the thread continues. Only makes bytes;
 * stub/remote runs the stub.
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

/* Addresses and sizes for the stub that maps the agent's image; all in the target. */
struct stub_map {
	raddr_t image; /* page-aligned; image_bytes are free there */
	uint64_t image_bytes;
	raddr_t near[ABI_NEAR_MAX]; /* near areas, `near_count` of them: free, page-aligned */
	size_t near_count;
	int fd_floor;		  /* the agent's socket gets this number or a higher one */
	uint64_t lease_ns;	  /* how long the thread waits for an answer before it undoes all */
	uint32_t memfd_flags;	  /* besides MFD_CLOEXEC: MFD_NOEXEC_SEAL if the kernel knows it */
	char name[STUB_NAME_MAX]; /* of the memfd */
};

/* The state of the thread that runs the stub, as it was stopped. */
struct stub_thread {
	struct user_regs_struct resume; /* the registers with which it continues */
	uint64_t signal_mask; /* its blocked signals. The stub blocks all: a handler that jumps away
				 would leave it unfinished */
	/* How long the thread waits at the stub's end to be put back by the tracer, in exactly the
	 * state in which it was stopped; 0: it restores itself at once. */
	uint32_t hold_ms;
	/* heaptap may need the core on which the thread waits, and the thread's timers are precise:
	 * the thread sleeps. Otherwise it yields. */
	bool together;
};

/* Makes the stub for address `at` that maps the image and makes the socket pair. */
HT_MUST_CHECK
struct ht_err *stub_make_map(
	const struct stub_map *map, raddr_t at, const struct stub_thread *thread, struct stub *ret);

/* Mappings and descriptors that the last stub unmaps and closes. */
struct stub_unmap {
	/* Ranges in the order of unmapping; lo == hi: unused. */
	raddr_t lo[STUB_UNMAP_RANGES], hi[STUB_UNMAP_RANGES];
	int fd[STUB_UNMAP_FDS]; /* closed only if they lead to a file with STUB_MARK */
	size_t fd_count;
};

/* Makes the stub for address `at` that unmaps and closes. */
HT_MUST_CHECK
struct ht_err *stub_make_unmap(const struct stub_unmap *unmap, raddr_t at,
	const struct stub_thread *thread, struct stub *ret);

/* Do these bytes begin with a stub of this version of heaptap? */
bool stub_is_at_start(const uint8_t *bytes, size_t length);

/* The number of bytes that either stub needs at most, with so many near areas: the slack must be
 * that long. */
size_t stub_map_bytes(size_t near_count);
