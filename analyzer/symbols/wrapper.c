/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/wrapper.h"

#include <string.h>

/*
 * A function belongs here if all memory allocated below it is allocated for its caller.
 *
 * C++: the operators, and all of the standard library, because its names do not show which
 * functions keep memory themselves. If it calls back into the program, the program's frame is
 * nearer to the allocation and is found first.
 */
static const char *const cxx[] = {
	"operator new",
	"std::",
	"__gnu_cxx::",
};

/* Functions of language runtimes, whose names are not mangled. */
static const char *const runtime[] = {
	"__cxa_allocate_exception",
	"__rust_alloc",
	"__rust_realloc",
	"__rdl_",
	"__rg_",
};

/*
 * Rust: the allocator's entry, the crate alloc (Vec, String, Box, Rc, BTreeMap, fmt::format), the
 * hash tables, and core, which has no allocator and can only pass allocations on (iterators,
 * conversions, fmt::write). The rest of std allocates for itself, for example for a thread or a
 * file.
 */
static const char *const rust[] = {
	"__rustc::",
	"alloc::",
	"core::",
	"hashbrown::",
	"std::alloc::",
	"std::collections::",
	"std::sys::alloc::",
	"std::sys::unix::alloc::",
	"std::sys::pal::unix::alloc::",
};

/* A type that implements these traits is an allocator: GlobalAlloc, Allocator. */
static const char rust_allocator[] = "core::alloc::";

static bool begins(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool begins_any(const char *text, const char *const *prefix, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (begins(text, prefix[i]))
			return true;
	return false;
}

static bool is_word(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z');
}

/* Whether the name is one that C programs give their functions around malloc: zmalloc, xcalloc,
 * g_malloc0, PyMem_Malloc, CRYPTO_strdup, zrealloc_usable. */
static bool is_c_wrapper(const char *name)
{
	static const char *const word[] = {
		"malloc", "calloc", "realloc", "memalign", "memdup", "strdup", "strndup"};
	static const char *const after[] = {"", "0", "n", "z", "_n", "_usable", "_array",
		"_internal", "_impl", "_zero", "_aligned", "_default"};
	char lower[64];
	const size_t length = strlen(name);
	if (length >= sizeof(lower))
		return false;
	for (size_t i = 0; i <= length; i++) {
		if (name[i] && !is_word(name[i]))
			return false;
		lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 32) : name[i];
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(word); i++) {
		const char *found = strstr(lower, word[i]);
		for (size_t k = 0; found && k < HT_ARRAY_SIZE(after); k++)
			if (strcmp(found + strlen(word[i]), after[k]) == 0)
				return true;
	}
	return false;
}

/* --- where a name begins -------------------------------------------------------------------------
 */

/* Whether C++'s "operator" is at `at`; a function or module of Rust may also have this name. */
static bool is_operator(const char *name, const char *at)
{
	char after = begins(at, "operator") ? at[8] : '\0';
	return after && !is_word(after) && after != ':' && (at == name || !is_word(at[-1]));
}

/* Whether the outer parenthesis at `at` is part of the name, so that it does not begin the
 * parameters. */
static bool is_in_name(const char *name, const char *at)
{
	static const char word[] = "decltype";
	const char *end = at > name && at[-1] == ' ' ? at - 1 : at;
	size_t before = (size_t)(end - name);
	return begins(at, "(anonymous namespace)") ||
	       (before >= strlen(word) && begins(end - strlen(word), word));
}

/*
 * The name without the return type that demangled templates begin with. `*ret_is_cxx`: parameters
 * or an operator follow, which only C++ names have.
 */
static const char *find_name(const char *name, bool *ret_is_cxx)
{
	const char *from = name;
	unsigned depth = 0;
	*ret_is_cxx = false;
	for (const char *at = name; *at && !begins(at, " [clone"); at++) {
		if (depth == 0 &&
			(is_operator(name, at) || (*at == '(' && !is_in_name(name, at)))) {
			*ret_is_cxx = true;
			break;
		}
		if (depth == 0 && *at == ' ' && at[1] != '(')
			from = at + 1;
		if (*at == '-' && at[1] == '>')
			at++; /* fn(u8) -> u8 */
		else if (strchr("<([{", *at))
			depth++;
		else if (strchr(">)]}", *at) && depth)
			depth--;
	}
	return from;
}

/* --- Rust ----------------------------------------------------------------------------------------
 */

/* Whether a type or trait is of the libraries above, built in, or a parameter (T). For such a type,
 * another crate cannot implement a trait of the libraries. */
static bool is_library(const char *type)
{
	static const char *const before[] = {"mut ", "const ", "dyn "};
	for (size_t i = 0; i < HT_ARRAY_SIZE(before); i++) {
		type += strspn(type, "<&*[(");
		type += begins(type, before[i]) ? strlen(before[i]) : 0;
	}
	type += strspn(type, "<&*[(");
	const char *end = type;
	while (is_word(*end))
		end++;
	return !begins(end, "::") || begins_any(type, rust, HT_ARRAY_SIZE(rust));
}

/* TRAIT of "<TYPE as TRAIT>"; NULL if `name` has no such form. */
static const char *find_trait(const char *name)
{
	unsigned depth = 0;
	for (const char *at = name; *at; at++) {
		if (depth == 1 && begins(at, " as "))
			return at + 4;
		if (*at == '-' && at[1] == '>')
			at++;
		else if (strchr("<([{", *at))
			depth++;
		else if (strchr(">)]}", *at) && --depth == 0)
			break;
	}
	return NULL;
}

static bool is_rust_wrapper(const char *name)
{
	if (name[0] != '<') {
		const char *trait = strstr(name, "::<impl ");
		return begins_any(name, rust, HT_ARRAY_SIZE(rust)) ||
		       (trait && begins(trait + 8, rust_allocator));
	}
	const char *trait = find_trait(name);
	if (trait && begins(trait, rust_allocator))
		return true;
	return is_library(name) && (!trait || is_library(trait));
}

bool wrapper_is(const char *function)
{
	bool is_cxx;
	if (!function)
		return false;
	const char *name = find_name(function, &is_cxx);
	if (is_cxx)
		return begins_any(name, cxx, HT_ARRAY_SIZE(cxx));
	return is_rust_wrapper(name) || is_c_wrapper(name) ||
	       begins_any(name, runtime, HT_ARRAY_SIZE(runtime));
}

const char *wrapper_name(const char *function)
{
	bool is_cxx;
	return find_name(function, &is_cxx);
}

/* Callers of main and of a thread's function, and functions that a language inserts when code calls
 * an object. */
static const char *const plumbing_prefix[] = {
	"std::__invoke",
	"std::invoke",
	"std::_Function_handler<",
	"std::_Bind<",
	"std::thread::_Invoker<",
	"std::thread::_State_impl<",
	"std::function<",
	"core::ops::function::",
	"<core::panic::unwind_safe::AssertUnwindSafe<",
	"std::panic::catch_unwind",
	"std::panicking::try",
	"std::panicking::catch_unwind",
	"std::rt::lang_start",
	"std::sys::backtrace::__rust_begin_short_backtrace",
	"std::sys_common::backtrace::__rust_begin_short_backtrace",
	"std::sys::pal::unix::thread::Thread::new::thread_start",
	"std::sys::unix::thread::Thread::new::thread_start",
	"std::sys::thread::unix::Thread::new::thread_start",
	"std::thread::Builder::spawn_unchecked",
	"std::thread::lifecycle::spawn_unchecked",
	"<alloc::boxed::Box<F,A> as core::ops::function::",
};

static const char *const plumbing_name[] = {
	"_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main",
	"start_thread", "clone", "clone3", "__clone", "__clone3", "execute_native_thread_routine",
	"__pthread_start", "thread_start",
	"heaptap_entry", /* one of these in an anonymous trace (export/pseudonym.c) */
};

bool wrapper_is_plumbing(const char *function)
{
	bool is_cxx;
	if (!function)
		return false;
	const char *name = find_name(function, &is_cxx);
	if (begins_any(name, plumbing_prefix, HT_ARRAY_SIZE(plumbing_prefix)))
		return true;
	for (size_t i = 0; i < HT_ARRAY_SIZE(plumbing_name); i++) {
		const size_t length = strlen(plumbing_name[i]);
		if (strncmp(name, plumbing_name[i], length) == 0 &&
			(!name[length] || name[length] == '@'))
			return true;
	}
	return false;
}
