/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of an allocator that is linked into a module ("natives"), and the GOT slots that hold
 * their addresses. Most have no relocation that names them, so they are found by the symbol table
 * of the module's file or of its separate debug file.
 */
#pragma once

#include "attach/allocators/family.h"
#include "format/base.h"

struct native {
	const struct family *family;
	char *name; /* of its symbol */
	enum family_role role;
	enum abi_hook hook; /* FAMILY_HOOKED only */
	raddr_t addr;
	uint64_t bytes;	     /* of its code; 0: unknown */
	raddr_t usable_size; /* the function of its family that returns the size of a block; 0: none
			      */
	raddr_t plain;	     /* for a function of ABI_NEWS: what the hook calls instead */
	uint32_t pointers;   /* relocated words outside of the GOT that hold its address */
};

/* A GOT slot that holds a native's address after relocation. */
struct native_word {
	raddr_t addr;	/* 8-byte aligned */
	uint32_t index; /* of the native, in natives.native */
};

#define NATIVE_GUARDS_MAX 4u

/* A linked-in function that heaptap guards (ABI_GUARDS). */
struct native_guard {
	enum abi_hook hook;
	raddr_t addr;
	uint64_t bytes;
};

/* Addresses within a linked-in V8; 0: none. */
struct natives_v8 {
	raddr_t interpreter; /* code that runs functions which V8 has not compiled */
	uint64_t interpreter_bytes;
	raddr_t collector; /* collects garbage where functions are kept */
	uint64_t collector_bytes;
	raddr_t setter; /* records the kind of collection that a heap is in */
	uint64_t setter_bytes;
	bool has_isolate; /* known; set for the executable only */
	uint64_t isolate; /* distance from the start of its thread-local variables to the current
			     isolate */
};

struct startcode {
	raddr_t addr; /* 0: there is none */
	uint64_t bytes;
	raddr_t return_to; /* return address of its last call, which never returns */
};

struct natives {
	unsigned *owners;      /* their number; NULL: one */
	struct native *native; /* ascending by address, one for each address */
	size_t count;
	struct native_word *word;
	size_t word_count;
	bool partial;	    /* the file or its debug file has more than heaptap reads */
	uint32_t operators; /* references to operators new and delete of other modules */
	/* Names with an allocator's prefix that the module takes from other modules. */
	char **need;
	size_t need_count;
	struct native_guard guard[NATIVE_GUARDS_MAX];
	size_t guard_count; /* may exceed the array by one: there are more than fit */
	uint32_t given;	    /* functions that the user has named and that were found; a bit for each
			       index of given.h's list */
	uint32_t given_twice; /* those found at more than one address */
	raddr_t frees_again;  /* function that frees cached blocks again (family.h); 0: none */
	uint64_t frees_again_bytes;
	struct startcode start; /* of the executable */
	raddr_t eh_frame; /* loaded address of the section .eh_frame; 0: none, or the module has an
			     eh_frame_hdr */
	uint64_t eh_frame_bytes;
	struct natives_v8 v8;
	raddr_t debug; /* executable only: the r_debug of its own C library (linkmap.h); 0: no
			  symbol names it */
};

/* Returns another owner of the same arrays, which must not change any more. The last natives_deinit
 * frees them. */
struct natives natives_share(const struct natives *natives);
void natives_deinit(struct natives *natives);
/* Does the module take a function called `name` from another? Knows only names with an allocator's
 * prefix (`need`). */
bool natives_need(const struct natives *natives, const char *name);
/* The native that begins at `addr`, or NULL. */
const struct native *natives_find(const struct natives *natives, raddr_t addr);
