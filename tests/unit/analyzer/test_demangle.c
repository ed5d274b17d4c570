/* SPDX-License-Identifier: Apache-2.0
 *
 * C++ and both manglings of Rust.
 */
#include "analyzer/symbols/demangle.h"

#include <stdlib.h>

#include "tests/support/ht_check.h"

static void check(const char *mangled, const char *readable)
{
	HT_FREED char *got = demangle(mangled);
	if (readable)
		ck_assert_str_eq(got, readable);
	else
		ck_assert_ptr_null(got);
}

HT_TEST(cxx)
{
	check("_ZN3foo3barEi", "foo::bar(int)");
	check("_ZNSt6vectorIiSaIiEE9push_backERKi",
		"std::vector<int, std::allocator<int> >::push_back(int const&)");
	check("_Znwm", "operator new(unsigned long)");
}

HT_TEST(lambdas)
{
	check("_ZZ4mainENKUliE_clEi", "lambda in main()");
	check("_ZZ4mainENKUliE0_clEi", "lambda in main()");
	check("_ZZN3foo3barEiENKUlvE_clEv", "lambda in foo::bar(int)");
	check("_ZZNK3foo3barEiENKUlvE_clEv", "lambda in foo::bar(int) const");
	/* copies that gcc makes */
	check("_ZZ4mainENKUlvE8_clEv.isra.0", "lambda in main()");
	check("_ZN3foo3barEi.part.0.cold", "foo::bar(int)");
	/* names that clang gives */
	check("_ZZ4mainENK3$_0clEi", "lambda in main()");
	check("_ZZ4mainENKUlT_E_clIiEEDaS_", "lambda in main()");
	check("_ZZ4mainENK3$_0clIiEEDaT_", "lambda in main()");
	check("_ZZNK3app1S2goEiENKUlT_E_clIiEEDaS1_", "lambda in app::S::go(int) const");
	/* Not a lambda: the call operator of a class. */
	check("_ZNK1aclEi", "a::operator()(int) const");
}

HT_TEST(rust)
{
	check("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
	check("_RNvCs1234_7mycrate3foo", "mycrate::foo");
}

HT_TEST(plain_and_broken_names_stay)
{
	check("malloc", NULL);
	check("", NULL);
	check("_", NULL);
	check("_Z", NULL);
	check("_ZN3foo", NULL);
	check("_R", NULL);
}

HT_SUITE("analyzer/demangle")
