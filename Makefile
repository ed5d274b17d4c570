# SPDX-License-Identifier: Apache-2.0
#
# make            heaptap (agent embedded) and heaptap-analyze in out/release
# make test       unit and integration tests        make asan   the same under ASan and UBSan
# make lint       format, layers, banned functions, agent rules
# make bench      ratios against heaptrack           make install PREFIX= DESTDIR=
# make fuzz       libFuzzer programs in out/fuzz/tests/fuzz; needs clang
# make static     both programs without libraries: scripts/release
#
# Non-recursive. CC CFLAGS CPPFLAGS LDFLAGS LDLIBS of the user are appended, never replaced; they do
# not reach the agent, which runs in other people's processes.

VARIANT ?= release
-include config.mk

O      := out/$(VARIANT)
PREFIX ?= /usr/local
bindir     := $(PREFIX)/bin
libexecdir := $(PREFIX)/libexec/heaptap
mandir     := $(PREFIX)/share/man/man1
compdir    := $(PREFIX)/share/bash-completion/completions

VERSION := 0.1.0

format_src   := $(wildcard format/*.c format/*/*.c)
agent_src    := $(wildcard agent/*.c)
agent_asm    := $(wildcard agent/*.S)
attach_src   := $(wildcard attach/*.c attach/*/*.c attach/*/*/*.c)
attach_asm   := $(wildcard attach/inject/*.S attach/stub/*.S)
# The server of heaptap serve; without libmicrohttpd there is none.
microhttpd   := $(shell pkg-config --exists libmicrohttpd 2>/dev/null && echo yes)
analyzer_src := $(filter-out $(if $(microhttpd),analyzer/serve/absent.c,$(addprefix \
	analyzer/serve/,events.c exchange.c queue.c reply.c server.c stream.c)),$(wildcard analyzer/*.c analyzer/*/*.c))
# The terminal of heaptap top; without ncursesw it prints tables as text.
ncursesw     := $(shell pkg-config --exists ncursesw 2>/dev/null && echo yes)
analyzer_src := $(filter-out analyzer/top/$(if $(ncursesw),display_absent,display).c,$(analyzer_src))
analyzer_asm := $(wildcard analyzer/ui/*.S analyzer/page/*.S)
support_src  := $(wildcard tests/support/*.c)
unit_src     := $(filter-out $(if $(microhttpd),,tests/unit/analyzer/test_events.c),$(wildcard \
	tests/unit/*/test_*.c))
integration_src := $(wildcard tests/integration/test_*.c)

warn := -Wall -Wextra -Wshadow -Wundef -Wvla -Wmissing-prototypes -Wstrict-prototypes \
        -Wswitch-enum -Wwrite-strings -Wpointer-arith -Werror=unused-result \
        -Werror=implicit-function-declaration $(if $(DEVELOPER),-Werror)
base := -std=gnu11 -D_GNU_SOURCE -DHEAPTAP_VERSION='"$(VERSION)"' -O2 -g -MMD -MP $(warn)
san_asan := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
san_fuzz := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
	-fno-omit-frame-pointer
san  := $(san_$(VARIANT))

pkg_cflags := $(shell pkg-config --cflags liblz4 libelf libdw jansson 2>/dev/null)
# The decoder of entry hooks; without it there are none.
zydis := $(shell printf '\043include <Zydis/Zydis.h>\n' | $(CC) -E -x c - >/dev/null 2>&1 && echo yes)
pkg_cflags += $(if $(zydis),-DHEAPTAP_ZYDIS)
attach_libs   := $(if $(zydis),-lZydis) -llz4 -lelf -lunwind-ptrace -lunwind-x86_64 -lunwind -ljansson
analyzer_libs := -llz4 -ldw -lelf -llzma -liberty -ljansson -lm -lpthread \
	$(if $(microhttpd),-lmicrohttpd) $(if $(ncursesw),-lncursesw -ltinfo)
check_libs    := $(shell pkg-config --libs check 2>/dev/null) -lpthread

host   = $(base) -iquote . $(san) $(pkg_cflags) $(CPPFLAGS) $(CFLAGS)
hosted = $(base) -iquote tests/hosted -iquote . $(san) $(CPPFLAGS) $(CFLAGS)
agent_cc = -std=gnu11 -O2 -g -MMD -MP $(warn) -iquote . -ffreestanding -fno-builtin -fPIC \
           -fvisibility=hidden -fno-stack-protector -fno-omit-frame-pointer -fcf-protection=branch \
           -mgeneral-regs-only -fno-asynchronous-unwind-tables -fno-exceptions -fno-jump-tables \
           -fno-plt -ftls-model=local-exec -fstack-usage -ffile-prefix-map=$(CURDIR)=.
agent_ld = -nostdlib -shared -Wl,-T,agent/agent.lds,-Bsymbolic,-z,defs,-z,now,-z,noexecstack \
           -Wl,--build-id=sha1,--hash-style=gnu

ifndef V
quiet = @printf '  %-7s %s\n' $(1) $@;
endif

.PHONY: all test test-programs list-tests unit-test integration-test asan bench bench-programs fuzz \
	lint install uninstall clean
.DELETE_ON_ERROR:

all: $O/heaptap $O/heaptap-analyze $O/heaptap.bash $O/man/made

obj = $(patsubst %,$O/%.o,$(basename $(1)))

format_obj   := $(call obj,$(format_src))
attach_lib   := $(filter-out $O/attach/main.o,$(call obj,$(attach_src)))
attach_asm_o := $(call obj,$(attach_asm))
analyzer_lib := $(filter-out $O/analyzer/main.o,$(call obj,$(analyzer_src) $(analyzer_asm)))
agent_obj    := $(patsubst agent/%,$O/agent-so/%.o,$(basename $(agent_src) $(agent_asm)))
hosted_agent := $(patsubst agent/%,$O/agent-hosted/%.o,$(basename \
	$(filter-out agent/mem.c,$(agent_src)) $(agent_asm)))
support      := $O/tests/support.a

$O/heaptap: $O/attach/main.o $(attach_lib) $(attach_asm_o) $(format_obj)
	$(call quiet,LINK)$(CC) $(san) $(LDFLAGS) -o $@ $^ $(attach_libs) $(LDLIBS)

$O/heaptap-analyze: $O/analyzer/main.o $(analyzer_lib) $(format_obj)
	$(call quiet,LINK)$(CC) $(san) $(LDFLAGS) -o $@ $^ $(analyzer_libs) $(LDLIBS)

# From the tables of commands and options in the programs.
$O/heaptap.bash: attach/heaptap.bash $O/heaptap $O/heaptap-analyze
	$(call quiet,GEN)cat $< >$@ && $O/heaptap completion >>$@ && $O/heaptap-analyze completion >>$@
$O/man/made: $O/heaptap-analyze
	$(call quiet,GEN)rm -rf $(@D) && mkdir $(@D) && for command in $$($< man); do \
		$< man $$command >$(@D)/heaptap-$$command.1 || exit; done && touch $@

$O/agent.so: $(agent_obj) agent/agent.lds
	$(call quiet,AGENT)$(CC) $(agent_ld) -o $@ $(filter %.o,$^)

$O/attach/inject/agent_image.o: $O/agent.so

$O/analyzer/ui/flame_script.o: analyzer/ui/flame.js

# The page of heaptap html, with Debian's libjs-dygraphs in it; without that there is none.
dygraphs         := /usr/share/javascript/dygraphs
dygraphs_licence := /usr/share/doc/libjs-dygraphs/copyright
page_files       := $(wildcard analyzer/page/*.html analyzer/page/*.css analyzer/page/*.js \
	analyzer/page/views/*.js)
# The package may come or go between two builds, with files older than both.
page_made        := $O/page/$(if $(wildcard $(dygraphs)/dygraph.min.js),made,empty)
ifeq ($(wildcard $(page_made)),)
.PHONY: $(page_made)
endif
$(page_made): $(page_files) scripts/embed-page $(wildcard $(dygraphs)/dygraph.min.*)
	$(call quiet,PAGE)rm -f $(@D)/made $(@D)/empty && \
		scripts/embed-page $(@D) $(dygraphs) $(dygraphs_licence) && touch $@
$O/analyzer/page/assets.o: $(page_made)

# A walk must see where the frame of a hook begins and ends (agent/rules.c).
$O/agent-so/hooks.o $O/agent-so/sampled_hooks.o $O/agent-so/mapping.o: agent_cc += -fno-schedule-insns2 -fno-shrink-wrap -fno-ipa-icf \
	-fno-optimize-sibling-calls
# Arguments that are pointers stay so: more than six would make the size of a frame unknown.
$O/agent-so/hooks.o $O/agent-so/sampled_hooks.o $O/agent-so/mapping.o: agent_cc += -fno-ipa-sra

$O/agent-so/%.o: agent/%.c Makefile
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(agent_cc) -c -o $@ $<

$O/agent-so/%.o: agent/%.S Makefile
	@mkdir -p $(@D)
	$(call quiet,AS)$(CC) -iquote . -MMD -MP -g -ffile-prefix-map=$(CURDIR)=. -c -o $@ $<

$O/agent-hosted/%.o: agent/%.S Makefile
	@mkdir -p $(@D)
	$(call quiet,AS)$(CC) -iquote . -MMD -MP -g -ffile-prefix-map=$(CURDIR)=. -c -o $@ $<

$O/agent-hosted/%.o: agent/%.c Makefile
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(hosted) -c -o $@ $<

$O/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(host) -c -o $@ $<

$O/%.o: %.S Makefile
	@mkdir -p $(@D)
	$(call quiet,AS)$(CC) -iquote . -I$O -MMD -MP -g -c -o $@ $<

# A kept unwind table is used only by the very compiler that made it.
table_compiler := $(addprefix attach/unwind/,cfa.c cfa.h eh_frame.c eh_frame.h table.c table.h) \
	format/abi_unwind.h format/bytes.c format/bytes.h
$O/attach/unwind/cache.o: $(table_compiler)
$O/attach/unwind/cache.o: host += -DCACHE_COMPILER=0x$(shell cat $(table_compiler) | sha256sum | \
	cut -c 1-16)u

# An archive, so that a test links only what it uses.
$(support): $(call obj,$(support_src))
	$(call quiet,AR)rm -f $@ && $(AR) rcs $@ $^

# Unit tests: one program per source file, linked against everything but the two main.c.
$O/tests/unit/agent/%.o: tests/unit/agent/%.c Makefile
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(hosted) -c -o $@ $<

$O/tests/unit/format/test_%: $O/tests/unit/format/test_%.o $(support) $(format_obj)
	$(call quiet,LINK)$(CC) $(san) $(LDFLAGS) -o $@ $^ -llz4 $(check_libs)

$O/tests/unit/agent/test_%: $O/tests/unit/agent/test_%.o $(support) $(hosted_agent) $(format_obj)
	$(call quiet,LINK)$(CC) $(san) $(LDFLAGS) -o $@ $^ -llz4 $(check_libs)

$O/tests/unit/attach/test_%: $O/tests/unit/attach/test_%.o $(support) $(attach_lib) \
		$(attach_asm_o) $(format_obj)
	$(call quiet,LINK)$(CC) $(san) $(LDFLAGS) -o $@ $^ $(attach_libs) -ldw $(check_libs)

$O/tests/unit/analyzer/test_%: $O/tests/unit/analyzer/test_%.o $(support) $(analyzer_lib) \
		$(format_obj)
	$(call quiet,LINK)$(CC) $(san) $(LDFLAGS) -o $@ $^ $(analyzer_libs) $(check_libs)

$O/tests/integration/test_%: $O/tests/integration/test_%.o $(support) $(format_obj)
	$(call quiet,LINK)$(CC) $(san) $(LDFLAGS) -o $@ $^ -llz4 -ljansson $(check_libs)

unit_bin        := $(patsubst %.c,$O/%,$(unit_src))
integration_bin := $(patsubst %.c,$O/%,$(integration_src))

-include tests/targets/targets.mk
include scripts/release.mk

# What the tests start, beside themselves.
test-programs: all $(unit_bin) $(integration_bin) $(target_bin)
list-tests:
	@echo $(unit_bin) $(integration_bin)
unit-test: $(unit_bin) $(unit_target_bin)
	HEAPTAP_OUT=$O scripts/run-tests $(unit_bin)
integration-test: all $(integration_bin) $(target_bin)
	HEAPTAP_OUT=$O scripts/run-tests $(integration_bin)
test: test-programs
	HEAPTAP_OUT=$O scripts/run-tests $(unit_bin) $(integration_bin)
asan:
	$(MAKE) VARIANT=asan test
ifeq ($(VARIANT),fuzz)
fuzz: $(addprefix $O/tests/fuzz/,fuzz_trace fuzz_maps fuzz_dwarf fuzz_control fuzz_request)
$O/tests/fuzz/fuzz_%: $O/tests/fuzz/fuzz_%.o $(analyzer_lib) $(format_obj)
	$(call quiet,LINK)$(CC) $(san) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(analyzer_libs) $(LDLIBS)
else
fuzz:
	$(MAKE) VARIANT=fuzz CC=clang fuzz
endif
lint: all
	scripts/lint $O
bench: bench-programs
	scripts/bench
bench-programs: all $(addprefix $O/tests/bench/,pairs growth server parts many stop module.so)

bench_cc = $(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g -iquote . $(warn)
$O/tests/bench/pairs $O/tests/bench/growth $O/tests/bench/many $O/tests/bench/stop: $O/tests/bench/%: tests/bench/%.c \
		tests/bench/frames.h Makefile
	@mkdir -p $(@D)
	$(call quiet,CC)$(bench_cc) -fno-optimize-sibling-calls -o $@ $< -lpthread -ldl
$O/tests/bench/module.so: tests/bench/module.c Makefile
	@mkdir -p $(@D)
	$(call quiet,CC)$(bench_cc) -fPIC -shared -Wl,--build-id=sha1 -o $@ $<
$O/tests/bench/server: tests/bench/server.cc Makefile
	@mkdir -p $(@D)
	$(call quiet,CXX)$(CXX) -O2 -g -Wall -Wextra -o $@ $< -lpthread
# With the agent's objects as they are shipped.
$O/tests/bench/parts: $O/tests/bench/parts.o $(agent_obj)
	$(call quiet,LINK)$(CC) $(LDFLAGS) -o $@ $^

man_pages := $(wildcard attach/*.1 analyzer/*.1)

install: all
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(libexecdir) $(DESTDIR)$(mandir) $(DESTDIR)$(compdir)
	install -m 755 $O/heaptap $(DESTDIR)$(bindir)/heaptap
	install -m 755 $O/heaptap-analyze $(DESTDIR)$(libexecdir)/heaptap-analyze
	install -m 644 $(man_pages) $O/man/*.1 $(DESTDIR)$(mandir)
	install -m 644 $O/heaptap.bash $(DESTDIR)$(compdir)/heaptap

# Directories left empty go too, but not those that a system has anyway.
uninstall:
	rm -f $(DESTDIR)$(bindir)/heaptap $(DESTDIR)$(libexecdir)/heaptap-analyze \
		$(DESTDIR)$(mandir)/heaptap.1 $(DESTDIR)$(mandir)/heaptap-*.1 $(DESTDIR)$(compdir)/heaptap
	-rmdir $(DESTDIR)$(libexecdir) $(DESTDIR)$(compdir) $(DESTDIR)$(mandir) 2>/dev/null
	$(if $(DESTDIR)$(filter-out /usr /usr/local,$(PREFIX)),-for dir in $(bindir) $(libexecdir) \
		$(mandir) $(compdir); do mkdir -p $(DESTDIR)$$dir; \
		(cd $(DESTDIR)/ && rmdir -p .$$dir 2>/dev/null); done; :)

clean:
	rm -rf out

.SECONDARY:
-include $(shell find $O -name '*.d' 2>/dev/null)
