/* SPDX-License-Identifier: Apache-2.0
 *
 * C++ operators new and delete of an allocator that do not call its malloc: does a module define
 * such operators, and which functions may a hook call in place of those that throw?
 */
#pragma once

#include "attach/got/scope.h"

struct cxxops {
	bool own; /* the operators that the module defines belong to its allocator */
	raddr_t bytes,
		aligned; /* if so: functions that replace ABI_NEW_BYTES and ABI_NEW_ALIGNED */
};

/* Sets `own` only for allocators that are recognised by more than a name. Others may keep blocks of
 * new and of malloc apart, as error checkers and the debug build of gperftools' tcmalloc do; and a
 * program may have operators of its own beside a linked-in allocator. */
HT_MUST_CHECK
struct ht_err *cxxops_read(struct scope *scope, const struct module *module, struct cxxops *ret);
/* The replacement for that function of ABI_NEWS; 0: none. */
raddr_t cxxops_plain(const struct cxxops *ops, enum abi_hook hook);
