/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of a program a function belongs to, by its readable name and its file.
 */
#include "analyzer/symbols/namespace.h"

#include <string.h>

#include "tests/support/ht_check.h"

HT_TEST(names_and_files_tell)
{
	static const struct {
		const char *function, *file, *want; /* `want` NULL: the names do not tell */
	} cases[] = {
		{"app::db::open(int)", "db.cc", "app"},
		{"std::vector<int> mylib::make<int>(int)", NULL, "mylib"},
		{"operator new(unsigned long)", NULL, NULL},
		{"main", "main.c", NULL},
		{"lone<app::x>(int)", NULL, NULL},
		{"(anonymous namespace)::f()", NULL, NULL},
		{"hyper::client::send", "/src/client.rs", "hyper"},
		{"<alloc::vec::Vec<T> as mycrate::Extra>::f", NULL, "alloc"},
		{"<&mut tokio::Task as core::Future>::poll", NULL, "tokio"},
		{"handle", "/app/node_modules/express/lib/router.js", "express"},
		{"handle", "/app/node_modules/@scope/name/index.js", "@scope/name"},
		{"handle", "/app/node_modules/a/node_modules/b/index.js", "b"},
		{"handle", "/app/node_modules/", NULL},
		{"readFile", "node:fs", "node"},
		{"handle", "/app/server.js", NULL},
		{NULL, NULL, NULL},
		{NULL, "/app/node_modules/x/i.js", "x"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		char got[NAMESPACE_BYTES] = "";
		const bool found = namespace_of(cases[i].function, cases[i].file, got);
		ck_assert_msg(
			found == (cases[i].want != NULL) && (!found || !strcmp(got, cases[i].want)),
			"%s in %s: %s", cases[i].function, cases[i].file, got);
	}
}

/* Names come from a trace: they may be of any length. */
HT_TEST(a_name_without_end_is_none)
{
	char name[1000], got[NAMESPACE_BYTES];
	memset(name, 'a', sizeof(name));
	memcpy(name + sizeof(name) - 4, "::b", 4);
	ck_assert(!namespace_of(name, NULL, got));
	memcpy(name + NAMESPACE_BYTES - 1, "::b", 4);
	ck_assert(namespace_of(name, NULL, got));
	ck_assert_uint_eq(strlen(got), NAMESPACE_BYTES - 1);
}

HT_SUITE("analyzer/namespace")
