/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators new and delete of C++ that an allocator brings with it, which take from it without a
 * call of its malloc: whose they are, and which of its functions may be called in the place of
 * those that throw.
 */
#pragma once

#include "attach/got/scope.h"

struct cxxops {
	bool own;		/* the operators that the module defines are its allocator's */
	raddr_t bytes, aligned; /* then: plain functions for ABI_NEW_BYTES and ABI_NEW_ALIGNED */
};

/*
 * Only allocators that are known by more than a name: others may keep apart what comes from new and
 * what from malloc, as tools that look for errors do, among them the debug form of gperftools'
 * tcmalloc; and a program may have operators of its own beside an allocator that is linked in.
 */
HT_MUST_CHECK
struct ht_err *cxxops_read(struct scope *scope, const struct module *module, struct cxxops *ret);
/* The plain function for that one of ABI_NEWS; 0: none. */
raddr_t cxxops_plain(const struct cxxops *ops, enum abi_hook hook);
