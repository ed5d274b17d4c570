/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of functions that are too wide: what is left out first.
 */
#include "analyzer/ui/name.h"

#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/random.h"

static void check(const char *function, size_t columns, const char *want)
{
	char name[NAME_BYTES];
	name_shorten(function, columns, name);
	ck_assert_str_eq(name, want);
}

HT_TEST(short_names_stay)
{
	check("void app::f<int>(int)", 21, "void app::f<int>(int)");
	check("main", 4, "main");
	check("", 10, "");
}

HT_TEST(return_type_parameters_arguments_namespaces)
{
	static const char function[] = "void app::net::Queue<int>::push<char>(int, char const*)";
	check(function, 54, "app::net::Queue<int>::push<char>(int, char const*)");
	check(function, 40, "app::net::Queue<int>::push<char>");
	check(function, 30, "app::net::Queue<>::push<>");
	check("app::net::Queue::push(int)", 15, "..Queue::push");
	check("app::net::Queue::push(int)", 6, "..push");
	check("app::net::Queue::push(int)", 3, "..push");
	check("f(int) const", 3, "f");
}

HT_TEST(operators_keep_their_names)
{
	check("app::Table::operator()(int) const", 25, "app::Table::operator()");
	check("app::Table::operator<<(int)", 26, "app::Table::operator<<");
	check("app::P<int>::operator->() const", 21, "app::P<>::operator->");
	check("app::(anonymous namespace)::run(int)", 32, "app::(anonymous namespace)::run");
}

HT_TEST(rust_keeps_type_and_trait)
{
	check("<app::Cache<app::Key, app::Value> as app::Store<u8>>::put", 40,
		"<app::Cache<> as app::Store<>>::put");
}

/* A name of any bytes gives a string within its bounds. */
HT_TEST(nonsense_is_harmless)
{
	static const char part[] = "<>():. a-*&~operator{}";
	uint64_t seed = 1;
	for (int i = 0; i < 20000; i++) {
		char function[80], name[NAME_BYTES];
		const size_t length = random_below(&seed, sizeof(function) - 1);
		for (size_t k = 0; k < length; k++)
			function[k] = part[random_below(&seed, sizeof(part) - 1)];
		function[length] = '\0';
		name_shorten(function, random_below(&seed, 60), name);
		ck_assert_uint_le(strlen(name), length);
	}
}

HT_TEST(long_names_keep_both_ends)
{
	char function[5000], name[NAME_BYTES];
	memset(function, 'a', sizeof(function));
	memcpy(function, "begin", 5);
	memcpy(function + sizeof(function) - 4, "end", 4);
	name_shorten(function, 4999, name);
	ck_assert_uint_lt(strlen(name), NAME_BYTES);
	ck_assert(!strncmp(name, "begin", 5) && !strcmp(name + strlen(name) - 3, "end"));
}

HT_SUITE("analyzer/name")
