# SPDX-License-Identifier: Apache-2.0
#
# Programs that tests attach to. Never built with sanitizers, and not with the user's flags: a test
# says what its target is made of. NAME-VARIANT is NAME's source built in another way.

t := $O/tests/targets

RUSTC ?= /usr/bin/rustc

target_warn = -iquote . -g -MMD -MP -MT $@ -MF $@.d -Wall -Wextra
# Without builtins: every call in the source is a call in the program.
target_c    = -std=gnu11 -D_GNU_SOURCE $(target_warn) -fno-builtin
target_cxx  = -std=gnu++17 -D_GNU_SOURCE $(target_warn) -fno-builtin

# COMPILER-OPTIMISATION[-fp]: gcc-O2-fp keeps frame pointers, the others give them up.
chain_variants   := gcc-O0 gcc-O1 gcc-O2 gcc-O3 gcc-O2-fp clang-O0 clang-O1 clang-O2 clang-O3 clang-O2-fp
chainxx_variants := gcc-O0 gcc-O2 gcc-O3 clang-O0 clang-O2 clang-O3
variant_flags = -$(firstword $(subst -, ,$*)) \
	$(if $(filter %-fp,$*),-fno-omit-frame-pointer,-fomit-frame-pointer)

chain_bin   := $(addprefix $t/chain-,$(chain_variants))
chainxx_bin := $(addprefix $t/chainxx-,$(chainxx_variants))

target_bin := $(addprefix $t/,ledger ledger-lazy ledger-nopie ledger-own ledger-jemalloc \
	ledger-tcmalloc busy escape awkward hoist sleepy actor actor-static plughost libplug.so \
	libunwound.so idle32 cxx rust) $(chain_bin) $(chainxx_bin)

$(target_bin) $t/libownalloc.so: tests/targets/targets.mk
$(shell mkdir -p $t)

build = $(call quiet,TARGET)$(1) -o $@ $(filter %.c %.cc,$^)

$t/lib%.so: tests/targets/%.c
	$(call build,gcc $(target_c) -O2 -fPIC -shared)

# Full RELRO and PIE, as distributions build; then other ways of binding, and other allocators.
$t/ledger: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2) -Wl,-z,now
$t/ledger-lazy: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2) -Wl,-z,lazy
$t/ledger-nopie: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2 -fno-pie -no-pie)
$t/ledger-own: tests/targets/ledger.c $t/libownalloc.so
	$(call build,gcc $(target_c) -O2) -L$t -lownalloc -Wl,-rpath,'$$ORIGIN'
$t/ledger-jemalloc: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2) -Wl,-z,now -Wl,--no-as-needed -ljemalloc
$t/ledger-tcmalloc: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2) -Wl,-z,now -Wl,--no-as-needed -ltcmalloc_minimal

$(filter $t/chain-gcc-%,$(chain_bin)): $t/chain-gcc-%: tests/targets/chain.c
	$(call build,gcc $(target_c) $(variant_flags))
$(filter $t/chain-clang-%,$(chain_bin)): $t/chain-clang-%: tests/targets/chain.c
	$(call build,clang-14 $(target_c) $(variant_flags))
$(filter $t/chainxx-gcc-%,$(chainxx_bin)): $t/chainxx-gcc-%: tests/targets/chainxx.cc
	$(call build,g++ $(target_cxx) $(variant_flags))
$(filter $t/chainxx-clang-%,$(chainxx_bin)): $t/chainxx-clang-%: tests/targets/chainxx.cc
	$(call build,clang++-14 $(target_cxx) $(variant_flags))

$t/busy $t/sleepy $t/actor $t/plughost: $t/%: tests/targets/%.c
	$(call build,gcc $(target_c) -O2)
$t/actor-static: tests/targets/actor.c
	$(call build,gcc $(target_c) -O2 -static)
# Calls and addresses straight from the GOT; clang keeps them in registers around a loop.
$t/awkward: tests/targets/awkward.c
	$(call build,gcc $(target_c) -O2 -fno-plt -fPIE -pie)
$t/escape: tests/targets/escape.c
	$(call build,gcc $(target_c) -O2 -fno-plt -fPIE -pie)
$t/hoist: tests/targets/hoist.c
	$(call build,clang-14 $(target_c) -O2 -fno-plt -fPIE -pie)
$t/cxx: tests/targets/cxx.cc
	$(call build,g++ $(target_cxx) -O2)
$t/rust: tests/targets/rust.rs
	$(call quiet,TARGET)$(RUSTC) --edition 2021 -O -g -o $@ $<
$t/libunwound.so: tests/targets/unwound.c
	$(call build,gcc $(target_c) -O2 -fPIC -shared) -lunwind-x86_64 -lunwind
$t/idle32: tests/targets/idle32.S
	$(call quiet,TARGET)as --32 -o $@.o $< && ld -m elf_i386 -o $@ $@.o
