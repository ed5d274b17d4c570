/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of an allocator that is linked into a module, and the GOT words that hold their
 * addresses: no relocation names them, so the symbol tables of the module's file do, or those of
 * its separate debug file.
 */
#pragma once

#include "attach/allocators/family.h"
#include "format/err.h"

struct native {
	const struct family *family;
	char *name; /* of its symbol */
	enum family_role role;
	enum abi_hook hook; /* FAMILY_HOOKED only */
	raddr_t addr;
	uint64_t bytes;	     /* of its code; 0: not told */
	raddr_t usable_size; /* the family's function that tells the size of a block; 0: none */
	raddr_t plain;	     /* of ABI_NEWS: what is called in its place */
	uint32_t pointers;   /* words elsewhere than in the GOT that hold its address */
};

/* A word of the GOT that holds a native's address when it is relocated. */
struct native_word {
	raddr_t addr; /* 8-byte aligned */
	uint32_t index;
};

#define NATIVE_GUARDS_MAX 4u

/* A function that is watched over (ABI_GUARDS), and is linked in. */
struct native_guard {
	enum abi_hook hook;
	raddr_t addr;
	uint64_t bytes;
};

/* Of a V8 that is linked in; 0: none. */
struct natives_v8 {
	raddr_t interpreter; /* its code that runs functions it has not compiled */
	uint64_t interpreter_bytes;
	raddr_t collector; /* what collects garbage where functions are kept */
	uint64_t collector_bytes;
	raddr_t setter; /* what notes which kind of collection a heap is in */
	uint64_t setter_bytes;
	bool has_isolate; /* of the executable: */
	uint64_t isolate; /* what its thread-local variables begin with, up to the isolate in use */
};

struct startcode {
	raddr_t addr; /* 0: there is none */
	uint64_t bytes;
	raddr_t return_to; /* what its last call, which does not return, leaves on the stack */
};

struct natives {
	struct native *native; /* ascending by address, one for each */
	size_t count;
	struct native_word *word;
	size_t word_count;
	bool partial;	    /* the file, or its debug file, has more than is looked at */
	uint32_t operators; /* of C++, new and delete, that the module takes from another */
	/* Names with an allocator's prefix that it takes from another. */
	char **need;
	size_t need_count;
	struct native_guard guard[NATIVE_GUARDS_MAX];
	size_t guard_count;   /* may be one more than there is room for */
	uint32_t given;	      /* of those that were given (given.h): bit by index, is one there? */
	uint32_t given_twice; /* or several of its name? */
	raddr_t again;	      /* the function that frees again what was freed (family.h); 0: none */
	uint64_t again_bytes;
	struct startcode start; /* of the executable */
	raddr_t eh_frame;	/* where its section of this name is loaded; 0: none */
	uint64_t eh_frame_bytes;
	struct natives_v8 v8;
	raddr_t debug; /* of the executable: what its own C library would tell a debugger of what it
			  has loaded (linkmap.h); 0: no symbol tells */
};

HT_MUST_CHECK
struct ht_err *natives_copy(const struct natives *from, struct natives *ret);
void natives_deinit(struct natives *natives);
/* Notes `name`, which the module takes from another, if it is one of an allocator with a prefix.
 * Beyond 128 names sets `partial` instead. */
HT_MUST_CHECK
struct ht_err *natives_add_need(struct natives *natives, const char *name);
/* Does the module take a function of that name from another? */
bool natives_need(const struct natives *natives, const char *name);
/* The function that begins at `addr`, or NULL. */
const struct native *natives_find(const struct natives *natives, raddr_t addr);
