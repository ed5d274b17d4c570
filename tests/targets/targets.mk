# SPDX-License-Identifier: Apache-2.0
#
# Programs that tests attach to. Never built with sanitizers, and not with the user's flags: a test
# depends on the flags of its target. NAME-VARIANT is NAME's source built in another way.

t := $O/tests/targets
comma := ,

RUSTC ?= /usr/bin/rustc
GO    ?= /usr/bin/go
JDK   ?= /usr/lib/jvm/java-17-openjdk-amd64

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

# Ways to link the ledger; mold and musl only where they are installed.
linked_variants := gold lld relr sysv gnu noplt bare $(if $(shell command -v mold),mold) \
	$(if $(shell command -v musl-gcc),musl)
linked_gold  := -fuse-ld=gold -Wl,-z,lazy
linked_lld   := -fuse-ld=lld -Wl,-z,now
linked_mold  := -fuse-ld=mold -Wl,-z,lazy
linked_relr  := -Wl,-z,pack-relative-relocs,-z,now
linked_sysv  := -Wl,--hash-style=sysv,-z,lazy,-z,norelro
linked_gnu   := -Wl,--hash-style=gnu,-z,lazy,-z,relro
linked_noplt := -fno-plt -Wl,-z,now
linked_bin   := $(patsubst %,$t/linked-%,$(linked_variants))

# Ways to bind a library's slots.
burst_variants := lazy now noplt sysv
burst_lazy  := -Wl,-z,lazy
burst_now   := -Wl,-z,now,-z,relro
burst_noplt := -fno-plt
burst_sysv  := -Wl,-z,lazy,-z,norelro,--hash-style=sysv
burst_lib   := $(patsubst %,$t/libburst-%.so,$(burst_variants))

target_bin := $(addprefix $t/,ledger ledger-lazy ledger-nopie ledger-own ledger-jemalloc \
	ledger-tcmalloc ledger-tcnames extended busy renamed outsider flags reflexes changer crowd escape awkward hoist sleepy mute actor actor-static confined plughost libplug.so visit libguest.so libguest-large.so \
	libunwound.so idle32 cxx cxx-tcmalloc rust rust-v0 rust-lto jumper storm rewire canaries) $(chain_bin) $(chainxx_bin) $(burst_lib)
# Operators new and delete that are the allocator's own: in a library, and linked in.
operators_bin := $(addprefix $t/operators-,tcmalloc tcmalloc-debug tcmalloc-direct jemalloc jemalloc-direct mimalloc)
target_bin += $(operators_bin) $t/deepstack-O2 $t/deepstack-O0
target_bin += $t/coroutines $t/throwing $t/throwing-tcmalloc $t/hostile $t/served $t/parent $t/waits $t/waits-escape
target_bin += $(linked_bin) $t/linked-static $t/linked-static-pie $t/libcounting.so $t/libwrapping.so $t/libwrapping-versions.so $t/sized $t/libfailing.so $t/libownalloc-sysv.so \
	$(if $(filter musl,$(linked_variants)),$t/linked-musl-static)
target_bin += $t/mapper $t/pooled $t/queued $t/faraway $t/states $t/waiter $t/holder $t/resident $t/leaky $t/service $t/stepwise $t/holder-mi $t/holder-tc $t/libburst-counted.so
target_bin += $t/textrel $t/become $t/brood $t/libauditor.so $t/early $t/early-lazy $t/libearly.so $(if $(filter musl,$(linked_variants)),$t/libearly-musl.so $t/early-musl)

# C that other languages call.
target_bin += $t/foreign-go $t/pure-go $t/libforeign-jni.so $t/foreign-py.so $t/java/Foreign.class

# An allocator linked in, under the prefix that Rust's crate gives it, called through anonymous GOT words.
rjem_bin := $t/rust-jemalloc $t/rust-jemalloc-lto $t/rust-jemalloc-stripped $t/extended-static $t/extended-fixed $t/extended-shared \
	$t/holder-rjem
target_bin += $(rjem_bin)
# An allocator linked in and called directly: no slot leads there.
direct_bin := $t/extended-direct $t/extended-direct-fixed $t/ledger-direct $t/ledger-own-direct $t/busy-direct \
	$t/chain-direct $t/leafalloc $t/comeback $t/steps $t/stepwise-direct $t/arena-direct $t/arena-stripped \
	$t/arena-twice $t/arena-words $t/arena-fixed
target_bin += $(direct_bin) $t/arena-shared $t/libarenalloc.so
# What unit tests start, or read.
unit_target_bin := $(addprefix $t/,waits libauditor.so linked-static extended-direct rust-jemalloc)

# Static programs: at fixed addresses, and position-independent (-pie).
static_bin := $(foreach p,busy chain confined plughost,$t/$p-static $t/$p-static-pie) $t/cxx-static $t/cxx-static-pie \
	$t/ownloader $t/rust-static $t/linked-static-stripped $t/linked-jemalloc-static $t/linked-jemalloc-static-pie
target_bin += $(static_bin)

$(target_bin) $t/libownalloc.so: tests/targets/targets.mk
$(shell mkdir -p $t)

build = $(call quiet,TARGET)$(1) -o $@ $(filter %.c %.cc,$^)

$t/libguest-large.so: tests/targets/guest.c
	$(call build,gcc $(target_c) -O2 -fPIC -shared -DGUEST_FUNCTIONS=400000)

$t/lib%.so: tests/targets/%.c
	$(call build,gcc $(target_c) -O2 -fPIC -shared)

$(burst_lib): $t/libburst-%.so: tests/targets/burst.c
	$(call build,gcc $(target_c) -O2 -fPIC -shared $(burst_$*))

# Linked with the shim, which it uses if it is loaded with RTLD_DEEPBIND.
$t/libburst-counted.so: tests/targets/burst.c $t/libcounting.so
	$(call build,gcc $(target_c) -O2 -fPIC -shared) -L$t -lcounting -Wl,-rpath,'$$ORIGIN'

# With symbol versions, as a preloaded part of the C library has them.
$t/libwrapping-versions.so: tests/targets/wrapping.c tests/targets/wrapping.map
	$(call build,gcc $(target_c) -O2 -fPIC -shared) -Wl,--version-script=tests/targets/wrapping.map
$t/sized: tests/targets/sized.c $t/libwrapping.so
	$(call build,gcc $(target_c) -O2) -L$t -lwrapping -Wl,-rpath,'$$ORIGIN'

$(filter-out %-bare %-musl,$(linked_bin)): $t/linked-%: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2) $(linked_$*)
# Without section headers: e_shoff, e_shnum and e_shstrndx are 0.
$t/linked-bare: $t/ledger-lazy
	$(call quiet,TARGET)cp $< $@ && head -c 8 /dev/zero | dd of=$@ bs=1 seek=40 conv=notrunc status=none && \
		head -c 4 /dev/zero | dd of=$@ bs=1 seek=60 conv=notrunc status=none
# musl has no pvalloc; with -l the ledger never calls it.
$t/linked-musl: tests/targets/ledger.c
	$(call build,musl-gcc $(target_c) -Dpvalloc=valloc -O2)
$t/linked-musl-static: tests/targets/ledger.c
	$(call build,musl-gcc $(target_c) -Dpvalloc=valloc -O2 -static)
$t/linked-static: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2 -static)
$t/linked-static-pie: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2 -static-pie)

$t/libearly.so: tests/targets/early.c
	$(call build,gcc $(target_c) -O2 -fPIC -shared -DLIBRARY)
$t/textrel: tests/targets/textrel.c
	$(call build,gcc $(target_c) -O2) -pie -Wl,-z,notext -Wl,-z,now
$t/early: tests/targets/early.c $t/libearly.so
	$(call build,gcc $(target_c) -O2) -Wl,-z,now -L$t -learly -Wl,-rpath,'$$ORIGIN'
$t/early-lazy: tests/targets/early.c $t/libearly.so
	$(call build,gcc $(target_c) -O2) -Wl,-z,lazy -L$t -learly -Wl,-rpath,'$$ORIGIN'
$t/libearly-musl.so: tests/targets/early.c
	$(call build,musl-gcc $(target_c) -O2 -fPIC -shared -DLIBRARY)
$t/early-musl: tests/targets/early.c $t/libearly-musl.so
	$(call build,musl-gcc $(target_c) -O2) -L$t -learly-musl -Wl,-rpath,'$$ORIGIN'

# Full RELRO and PIE, as distributions build; then other ways of binding, and other allocators.
$t/ledger: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2) -Wl,-z,now
$t/ledger-lazy: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2) -Wl,-z,lazy
$t/ledger-nopie: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2 -fno-pie -no-pie)
# Its functions are found by DT_HASH alone.
$t/libownalloc-sysv.so: tests/targets/ownalloc.c
	$(call build,gcc $(target_c) -O2 -fPIC -shared) -Wl,--hash-style=sysv
$t/ledger-own: tests/targets/ledger.c $t/libownalloc.so
	$(call build,gcc $(target_c) -O2) -L$t -lownalloc -Wl,-rpath,'$$ORIGIN'
$t/jumper: tests/targets/jumper.c $t/libownalloc.so
	$(call build,gcc $(target_c) -O2) -L$t -lownalloc -Wl,-rpath,'$$ORIGIN'
$t/ledger-jemalloc: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2) -Wl,-z,now -Wl,--no-as-needed -ljemalloc
$t/ledger-tcmalloc: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2) -Wl,-z,now -Wl,--no-as-needed -ltcmalloc_minimal

# Calls an allocator by its own names (tc_malloc), in a library.
$t/ledger-tcnames: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2 $(foreach f,malloc calloc realloc free posix_memalign memalign valloc pvalloc,-D$f=tc_$f)) -Wl,--no-as-needed -ltcmalloc_minimal
$t/extended: tests/targets/extended.c
	$(call build,gcc $(target_c) -O2 -DPREFIX=) -Wl,-z,now -Wl,--no-as-needed -ljemalloc

jemalloc_api := malloc calloc realloc free posix_memalign aligned_alloc memalign valloc malloc_usable_size \
	mallocx rallocx xallocx sallocx dallocx sdallocx nallocx mallctl mallctlnametomib mallctlbymib \
	malloc_stats_print malloc_conf malloc_message
jemalloc_archive := $(shell gcc -print-file-name=libjemalloc_pic.a)
$t/librjem.a: tests/targets/targets.mk
	$(call quiet,TARGET)objcopy $(foreach f,$(jemalloc_api),--redefine-sym $f=_rjem_$f) $(jemalloc_archive) $@

rjem_link := -L$t -l:librjem.a -lstdc++ -lm -lc
# As rustc does it, the linker must not turn calls through the GOT into direct ones.
$t/extended-static: tests/targets/extended.c $t/librjem.a
	$(call build,gcc $(target_c) -O2 -DPREFIX=_rjem_ -fno-plt -fPIE -pie -Wa$(comma)-mrelax-relocations=no) $(rjem_link)
$t/extended-fixed: tests/targets/extended.c $t/librjem.a
	$(call build,gcc $(target_c) -O2 -DPREFIX=_rjem_ -fno-plt -fPIE -no-pie -Wa$(comma)-mrelax-relocations=no) $(rjem_link)
# The allocator in a library: slots have its names as symbols.
$t/librjem.so: $t/librjem.a
	$(call quiet,TARGET)gcc -shared -o $@ -Wl,--whole-archive $< -Wl,--no-whole-archive -lstdc++ -lm
$t/extended-shared: tests/targets/extended.c $t/librjem.so
	$(call build,gcc $(target_c) -O2 -DPREFIX=_rjem_) -L$t -lrjem -Wl,-rpath,'$$ORIGIN'
$t/holder-rjem: tests/targets/holder.c $t/librjem.a
	$(call build,gcc $(target_c) -O2 -DPREFIX=_rjem_ -fno-plt -fPIE -pie -Wa$(comma)-mrelax-relocations=no) $(rjem_link)
$t/holder-tc: tests/targets/holder.c
	$(call build,gcc $(target_c) -O2 -fPIE -pie) -l:libtcmalloc_minimal.a -lstdc++ -lm
$t/holder-mi: tests/targets/holder.c
	$(call build,gcc $(target_c) -O2 -pthread -DLIBRARY='"libmimalloc.so.2.0"' -fPIE -pie)
$t/extended-direct: tests/targets/extended.c $t/librjem.a
	$(call build,gcc $(target_c) -O2 -DPREFIX=_rjem_ -fPIE -pie) $(rjem_link)
$t/extended-direct-fixed: tests/targets/extended.c $t/librjem.a
	$(call build,gcc $(target_c) -O2 -DPREFIX=_rjem_ -fno-pie -no-pie) $(rjem_link)
# The program's malloc is the whole process's, and libraries reach it by their slots.
$t/ledger-direct: tests/targets/ledger.c
	$(call build,gcc $(target_c) -O2 -fPIE -pie) $(jemalloc_archive) -lstdc++ -lm
$t/busy-direct: tests/targets/busy.c
	$(call build,gcc $(target_c) -O2 -fPIE -pie) $(jemalloc_archive) -lstdc++ -lm
$t/ledger-own-direct: tests/targets/ledger.c tests/targets/ownalloc.c
	$(call build,gcc $(target_c) -O2 -fPIE -pie -fcf-protection)
$t/steps: tests/targets/steps.c
$t/stepwise-direct: tests/targets/stepwise.c
$t/steps $t/stepwise-direct: tests/targets/ownalloc.c
	$(call build,gcc $(target_c) -O2 -fPIE -pie -fcf-protection -pthread)
# An allocator under names of its own: called straight, or by slots.
$t/arena-direct: tests/targets/arenalloc.c tests/targets/arena.c
	$(call build,gcc $(target_c) -O2 -fPIE -pie -pthread)
# At fixed addresses jumps from the first bytes of arena_put_behind lead nowhere.
$t/arena-fixed: tests/targets/arenalloc.c tests/targets/arena.c
	$(call build,gcc $(target_c) -O2 -fno-pie -no-pie -pthread -DARENA_BEHIND)
$t/arena-shared: tests/targets/arena.c $t/libarenalloc.so
	$(call build,gcc $(target_c) -O2 -pthread) -L$t -larenalloc -Wl,-rpath,'$$ORIGIN'
# Called through anonymous words of the GOT.
$t/arena-words: tests/targets/arenalloc.c tests/targets/arena.c
	$(call build,gcc $(target_c) -O2 -fPIE -pie -pthread -fno-plt -Wa$(comma)-mrelax-relocations=no)
$t/arena-stripped: $t/arena-direct
	$(call quiet,STRIP)strip -o $@ $<
# Two functions have one name, as static functions of several files may.
$t/arena-twice: $t/arena-direct
	$(call quiet,OBJCOPY)objcopy --redefine-sym arena_forget=arena_put $< $@
$t/leafalloc: tests/targets/leafalloc.c
	$(call build,gcc $(target_c) -O2 -fPIE -pie -fipa-ra -fno-toplevel-reorder)
$t/comeback: tests/targets/comeback.c
	$(call build,gcc $(target_c) -O2 -fno-pie -no-pie -fno-builtin)
$t/chain-direct: tests/targets/chain.c
	$(call build,gcc $(target_c) -O2 -fPIE -pie) $(jemalloc_archive) -lstdc++ -lm
rustc_rjem = $(call quiet,TARGET)$(RUSTC) --edition 2021 $(1) $(foreach o,$(rjem_link),-C link-arg=$o) -o $@ $<
$t/rust-jemalloc: tests/targets/jemalloc.rs $t/librjem.a
	$(call rustc_rjem,-O -g)
$t/rust-jemalloc-lto: tests/targets/jemalloc.rs $t/librjem.a
	$(call rustc_rjem,-C opt-level=3 -C lto=fat -C codegen-units=1 -C panic=abort)
# As packages have it: the names are in a file of its own, which a test puts in its place.
$t/rust-jemalloc-stripped: $t/rust-jemalloc
	$(call quiet,TARGET)objcopy --only-keep-debug $< $@.debug && strip -o $@ $<

$t/deepstack-O2 $t/deepstack-O0: $t/deepstack-%: tests/targets/deepstack.c
	$(call build,gcc $(target_c) -$* -pthread)
$(filter $t/chain-gcc-%,$(chain_bin)): $t/chain-gcc-%: tests/targets/chain.c
	$(call build,gcc $(target_c) $(variant_flags))
$(filter $t/chain-clang-%,$(chain_bin)): $t/chain-clang-%: tests/targets/chain.c
	$(call build,clang-14 $(target_c) $(variant_flags))
$(filter $t/chainxx-gcc-%,$(chainxx_bin)): $t/chainxx-gcc-%: tests/targets/chainxx.cc
	$(call build,g++ $(target_cxx) $(variant_flags))
$(filter $t/chainxx-clang-%,$(chainxx_bin)): $t/chainxx-clang-%: tests/targets/chainxx.cc
	$(call build,clang++-14 $(target_cxx) $(variant_flags))

$t/become $t/busy $t/service $t/renamed $t/flags $t/reflexes $t/mapper $t/pooled $t/queued $t/canaries $t/holder $t/resident $t/states $t/changer $t/crowd $t/sleepy $t/mute $t/actor $t/confined $t/outsider $t/plughost $t/visit $t/storm: $t/%: tests/targets/%.c
	$(call build,gcc $(target_c) -O2)
$t/leaky: tests/targets/leaky.c
	$(call build,gcc $(target_c) -O2) -lm
$t/brood: tests/targets/brood.c
	$(call build,gcc $(target_c) -O2) -Wl,-z,now
$t/rewire: tests/targets/rewire.c
	$(call build,gcc $(target_c) -O2) -Wl,-z,lazy
# Static and stripped: attach refuses, because it cannot find the allocator.
$t/actor-static: tests/targets/actor.c
	$(call build,gcc $(target_c) -O2 -static -s)
$t/ownloader: tests/targets/ownloader.c
	$(call build,gcc $(target_c) -O2 -static)
# The linker warns of dlopen, which only plughost calls.
$t/busy-static $t/confined-static $t/plughost-static: $t/%-static: tests/targets/%.c
	$(call build,gcc $(target_c) -O2 -static -Xlinker --no-warnings)
$t/busy-static-pie $t/confined-static-pie $t/plughost-static-pie: $t/%-static-pie: tests/targets/%.c
	$(call build,gcc $(target_c) -O2 -static-pie -Xlinker --no-warnings)
$t/chain-static: tests/targets/chain.c
	$(call build,gcc $(target_c) -DCHAIN_SECTION='__attribute__((section("chain_text")))' -O2 -static)
$t/chain-static-pie: tests/targets/chain.c
	$(call build,gcc $(target_c) -DCHAIN_SECTION='__attribute__((section("chain_text")))' -O2 -static-pie)
$t/cxx-static: tests/targets/cxx.cc
	$(call build,g++ $(target_cxx) -O2 -static)
$t/cxx-static-pie: tests/targets/cxx.cc
	$(call build,g++ $(target_cxx) -O2 -static-pie)
$t/rust-static: tests/targets/rust.rs
	$(call quiet,TARGET)$(RUSTC) --edition 2021 -O -g -C target-feature=+crt-static -o $@ $<
$t/linked-static-stripped: $t/linked-static
	$(call quiet,TARGET)strip -o $@ $<
# Without pvalloc, which would link glibc's malloc, too; with -l the ledger never calls it.
$t/linked-jemalloc-static: tests/targets/ledger.c
	$(call build,gcc $(target_c) -Dpvalloc=valloc -O2 -static) $(jemalloc_archive) -lstdc++ -lm
$t/linked-jemalloc-static-pie: tests/targets/ledger.c
	$(call build,gcc $(target_c) -Dpvalloc=valloc -O2 -static-pie) $(jemalloc_archive) -lstdc++ -lm
waits_src := $(wildcard tests/targets/waits/*.c)
$t/waits: $(waits_src)
	$(call build,gcc $(target_c) -O2)
$t/waits-escape: $(waits_src)
	$(call build,gcc $(target_c) -O2 -DWAITS_ESCAPE)
# -fno-plt: calls use the GOT directly; clang keeps the addresses in registers around a loop.
$t/awkward: tests/targets/awkward.c
	$(call build,gcc $(target_c) -O2 -fno-plt -fPIE -pie)
$t/escape: tests/targets/escape.c
	$(call build,gcc $(target_c) -O2 -fno-plt -fPIE -pie)
$t/hoist: tests/targets/hoist.c
	$(call build,clang-14 $(target_c) -O2 -fno-plt -fPIE -pie)
$t/faraway: tests/targets/faraway.c
	$(call build,clang-14 $(target_c) -O2 -mcmodel=large -fPIC -pie)
$t/cxx $t/throwing: $t/%: tests/targets/%.cc
	$(call build,g++ $(target_cxx) -O2)
$t/cxx-tcmalloc: tests/targets/cxx.cc
	$(call build,g++ $(target_cxx) -O2) -Wl,--no-as-needed -ltcmalloc_minimal
$t/throwing-tcmalloc: tests/targets/throwing.cc
	$(call build,g++ $(target_cxx) -O2) -Wl,--no-as-needed -ltcmalloc_minimal
$t/coroutines: tests/targets/coroutines.cc
	$(call build,g++ $(target_cxx) -O2 -pthread) -lboost_context
$t/operators-tcmalloc: operators_link = -Wl,--no-as-needed -ltcmalloc_minimal
$t/operators-tcmalloc-debug: operators_link = -Wl,--no-as-needed -ltcmalloc_minimal_debug
$t/operators-jemalloc: operators_link = -Wl,--no-as-needed -ljemalloc
$t/operators-jemalloc-direct: operators_link = $(jemalloc_archive)
$t/operators-mimalloc: operators_link = -Wl,--no-as-needed -l:libmimalloc.so.2
$t/operators-tcmalloc-direct: operators_link = -l:libtcmalloc_minimal.a
$(operators_bin): tests/targets/operators.cc
	$(call build,g++ $(target_cxx) -O2 -pthread -fPIE -pie) $(operators_link)
$t/rust: tests/targets/rust.rs
	$(call quiet,TARGET)$(RUSTC) --edition 2021 -O -g -o $@ $<
$t/rust-v0: tests/targets/rust.rs
	$(call quiet,TARGET)$(RUSTC) --edition 2021 -O -g -C symbol-mangling-version=v0 -o $@ $<
# Link-time optimisation over the whole program loads malloc's slot once, before a loop.
# Without debug information, which takes two thirds of the time.
$t/rust-lto: tests/targets/rust.rs
	$(call quiet,TARGET)$(RUSTC) --edition 2021 -C opt-level=3 -C lto=fat -C codegen-units=1 -o $@ $<
$t/libforeign.a: tests/targets/foreign.c
	$(call quiet,TARGET)gcc $(target_c) -O2 -c -o $@.o $< && rm -f $@ && ar rcs $@ $@.o
# Go reuses its cached link result even if the library changed, unless a flag differs.
$t/foreign-go: tests/targets/foreign.go tests/targets/foreign.h $t/libforeign.a
	$(call quiet,TARGET)env GOCACHE=$(abspath $t)/go-cache GOENV=off GOFLAGS= GO111MODULE=off CGO_ENABLED=1 CC=gcc \
		CGO_CFLAGS='-O2 -g -iquote $(CURDIR)' CGO_LDFLAGS=-L$(abspath $t) $(GO) build \
		-ldflags="-X main.library=$$(cksum <$t/libforeign.a | cut -d' ' -f1)" -o $@ $<
$t/pure-go: tests/targets/pure.go
	$(call quiet,TARGET)env GOCACHE=$(abspath $t)/go-cache GOENV=off GOFLAGS= GO111MODULE=off CGO_ENABLED=0 \
		$(GO) build -o $@ $<
$t/libforeign-jni.so: tests/targets/foreign.c tests/targets/foreign_jni.c
	$(call build,gcc $(target_c) -O2 -fPIC -shared -I$(JDK)/include -I$(JDK)/include/linux)
$t/foreign-py.so: tests/targets/foreign.c tests/targets/foreign_py.c
	$(call build,gcc $(target_c) -O2 -fPIC -shared $(shell pkg-config --cflags python3))
$t/java/Foreign.class: tests/targets/Foreign.java
	$(call quiet,TARGET)$(JDK)/bin/javac -d $(@D) $<
$t/libunwound.so: tests/targets/unwound.c
	$(call build,gcc $(target_c) -O2 -fPIC -shared) -lunwind-x86_64 -lunwind
$t/hostile $t/served $t/parent $t/waiter $t/stepwise: $t/%: tests/targets/%.c
	$(call build,gcc $(target_c) -O2)
$t/idle32: tests/targets/idle32.S
	$(call quiet,TARGET)as --32 -o $@.o $< && ld -m elf_i386 -o $@ $@.o
