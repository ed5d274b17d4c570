/* SPDX-License-Identifier: Apache-2.0
 *
 * Which functions only pass allocations on: names as compilers mangle them, legacy and v0 for Rust.
 */
#include "analyzer/symbols/wrapper.h"

#include <stdlib.h>

#include "analyzer/symbols/demangle.h"
#include "tests/support/ht_check.h"

struct name {
	const char *text; /* mangled if it begins with _Z or _R */
	bool wrapper;
};

static void check(const struct name *name, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *readable = demangle(name[i].text);
		bool mangled = name[i].text[0] == '_' &&
			       (name[i].text[1] == 'Z' || name[i].text[1] == 'R');
		ck_assert_msg(!mangled == !readable, "%s", name[i].text);
		const char *shown = readable ? readable : name[i].text;
		ck_assert_msg(wrapper_is(shown) == name[i].wrapper, "%s is %sa wrapper", shown,
			name[i].wrapper ? "not " : "");
		free(readable);
	}
}

HT_TEST(cxx)
{
	static const struct name name[] = {
		{"_Znwm", true},
		{"_ZnamRKSt9nothrow_t", true},
		{"_ZNSt15__new_allocatorIcE8allocateEmPKv", true},
		{"_ZN9__gnu_cxx13new_allocatorIcE8allocateEmPKv", true},
		{"_ZNSt6vectorIiSaIiEE17_M_realloc_insertIJiEEEvN9__gnu_cxx17__normal_"
		 "iteratorIPiS1_"
		 "EEDpOT_",
			true}, /* void std::vector<..>::_M_realloc_insert<..>(..) */
		{"_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm", true},
		{"_ZSt11make_uniqueIiJiEENSt8__detail9_MakeUniqIT_E15__single_objectEDpOT0_", true},
		{"__cxa_allocate_exception", true},
		/* gcc names no parameters of what a lambda's type makes: scope.h */
		{"std::_Base_manager<f(int)::<lambda(int)> >::_M_create<f(int)::<lambda(int)> "
		 ">(...)",
			true},
		{"_ZN5mylib4makeEi", false},
		/* std::vector<..> mylib::make<int>(int): the return type is not part of the name */
		{"_ZN5mylib4makeIiEESt6vectorIT_SaIS2_EES2_", false},
		{"_ZN5mylib6BuffernwEm", false}, /* the class's own operator new */
		{"_ZN5mylib6BufferlsERKSt6vectorIiSaIiEE", false},
		{"_ZZN5mylib4makeEvENKUlSt6vectorIiSaIiEEE_clES1_", false},
		{"_ZN12_GLOBAL__N_14makeESt6vectorIiSaIiEE", false},
		/* C++ programs may have namespaces core and alloc, too. */
		{"_ZN4core4Node4growEv", false},
		{"_ZN5alloc5arena3getEm", false},
		{"std::vector<int>& mylib::operator+=<int>(std::vector<int>&, int)", false},
		{"decltype (x.f()) std::invoke<A>(A&&)", true},
		{"decltype(auto) mylib::invoke<std::vector<int> >(A&&)", false},
		{"(anonymous namespace)::pool::allocate(unsigned long)", false},
		{"std::thread::_M_start_thread(std::unique_ptr<X>, void (*)()) [clone .cold]",
			true},
	};
	check(name, HT_ARRAY_SIZE(name));
}

HT_TEST(rust_legacy)
{
	static const struct name name[] = {
		{"__rust_alloc", true},
		{"__rust_realloc", true},
		{"__rdl_alloc_zeroed", true},
		{"__rg_alloc", true},
		{"_ZN5alloc7raw_vec11finish_grow17h29670bc8d8346527E.llvm.12147610521193969065",
			true},
		{"_ZN63_$LT$alloc..alloc..Global$u20$as$u20$core..alloc..Allocator$GT$"
		 "8allocate17h0123456789abcdefE",
			true},
		{"_ZN45_$LT$T$u20$as$u20$alloc..string..ToString$GT$9to_string"
		 "17h0123456789abcdefE",
			true},
		{"_ZN9hashbrown3raw21RawTable$LT$T$C$A$GT$14reserve_rehash17h0123456789abcdefE",
			true},
		{"_ZN3std3sys4unix5alloc81_$LT$impl$u20$core..alloc..global..GlobalAlloc$u20$for$"
		 "u20$"
		 "std..alloc..System$GT$5alloc17h0123456789abcdefE",
			true},
		{"<jemallocator::Jemalloc as core::alloc::global::GlobalAlloc>::alloc", true},
		{"mycrate::counting::<impl core::alloc::global::GlobalAlloc for mycrate::A>::alloc",
			true},
		{"alloc::fmt::format::format_inner", true},
		{"core::option::Option<T>::map_or_else", true},
		{"std::collections::hash::map::HashMap<K,V,S>::insert", true},
		{"_ZN4rust4fill17h0123456789abcdefE", false},
		{"_ZN4rust3run28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE", false},
		{"<mycrate::Block as core::clone::Clone>::clone", false},
		{"<alloc::vec::Vec<T> as mycrate::Extra>::collect_more", false},
		{"<alloc::vec::Vec<T,A> as core::clone::Clone>::clone", true},
		{"mycrate::x::<impl core::clone::Clone for mycrate::x::Y>::clone", false},
		{"alloc_more::Vec<T>::push", false},
		{"std::thread::Builder::spawn_unchecked_", false},
		{"std::io::buffered::bufreader::BufReader<R>::new", false},
		{"<std::thread::Thread as core::clone::Clone>::clone", false},
		{"malloc_it", false},
		{"", false},
	};
	check(name, HT_ARRAY_SIZE(name));
	ck_assert(!wrapper_is(NULL));
}

HT_TEST(rust_v0)
{
	static const struct name name[] = {
		{"_RNvCsfLfy6EI15iL_7___rustc12___rust_alloc", true},
		{"_RNvMs4_NtCslNYArtu3iFV_5alloc7raw_vecNtB5_11RawVecInner11finish_growB7_", true},
		{"_RINvXs_NvMNtCslNYArtu3iFV_5alloc5sliceSp9to_vec_inhNtB5_10ConvertVec6to_"
		 "vecNtNtBa_"
		 "5alloc6GlobalECsjrHSEGnQ3l9_3std",
			true},
		{"_RINvNtCsihNoVIYWwLU_5alloc7raw_vec11finish_growNtNtB4_"
		 "5alloc6GlobalECsf3wKYa3P19e_"
		 "4rust.llvm.15449263005878194407",
			true},
		{"_RINvNtCsdyIG5SqMl5y_3std6thread5spawnNvCsf3wKYa3P19e_4rust3runuEBB_", false},
		{"_RNvMNtCs1234_5alloc3vecINtB2_3VechE4push",
			true}, /* <alloc::vec::Vec<u8>>::push */
		{"_RNvXNtCs1234_5alloc5allocNtB2_6GlobalNtNtCs5678_4core5alloc9Allocator8allocate",
			true},
		{"<[u64]>::to_vec_in::<alloc::alloc::Global>", true},
		{"<u64 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>", true},
		{"<&mut core::iter::traits::iterator::Iterator::for_each::call<(u64, &str)> as "
		 "core::ops::function::FnMut<(u64,)>>::call_mut",
			true},
		{"<fn(u8) -> u16 as core::ops::function::FnOnce<(u8,)>>::call_once", true},
		{"<dyn core::fmt::Write as core::fmt::Write>::write_fmt", true},
		{"_RNvCs1234_4rust4fill", false},
		{"_RNCNvCs1234_4rust3run0B3_", false}, /* rust::run::{closure#0} */
		{"<mycrate::Block as core::clone::Clone>::clone", false},
		{"<&mut rust::run::{closure#1} as core::ops::function::FnOnce<(&u8,)>>::call_once",
			false},
		{"<fn(u8) -> mycrate::B as mycrate::Maker>::make", false},
		{"mycrate::operator::push::<alloc::vec::Vec<u8>>", false},
		{"<std::sys::thread::unix::Thread>::new::thread_start", false},
	};
	check(name, HT_ARRAY_SIZE(name));
}

/* Returns how many frames, from the innermost outwards, only pass allocations on. */
static uint32_t wrapper_count(const struct symbol_frame *frame, uint32_t count)
{
	uint32_t wrappers = 0;
	while (wrappers < count && wrapper_is(frame[wrappers].function))
		wrappers++;
	return wrappers;
}

HT_TEST(names_of_no_sense_are_none)
{
	static const char *const name[] = {"<", "<<<<", ">>>>", "(", ")", " ", "operator",
		"operator new", "->", "<-", "< as ", "<T as ", "foo(", "::", "&*[(", "<&mut "};
	for (size_t i = 0; i < HT_ARRAY_SIZE(name); i++) {
		struct symbol_frame frame[] = {{.function = name[i]}, {.function = "foo"}};
		ck_assert_uint_le(wrapper_count(frame, HT_ARRAY_SIZE(frame)), 1);
	}
}

HT_TEST(the_first_ones_are_counted)
{
	const struct symbol_frame frame[] = {{.function = "alloc::alloc::alloc"},
		{.function = "alloc::vec::Vec<T>::push"}, {.function = "mycrate::add"},
		{.function = "core::option::Option<T>::map"}};
	ck_assert_uint_eq(wrapper_count(frame, 4), 2);
	ck_assert_uint_eq(wrapper_count(frame, 2), 2);
	ck_assert_uint_eq(wrapper_count(frame + 2, 2), 0);
	ck_assert_uint_eq(wrapper_count(NULL, 0), 0);
}

HT_SUITE("analyzer/wrapper")
