# SPDX-License-Identifier: Apache-2.0
#
# heaptap and heaptap-analyze linked so that they need nothing but a kernel, for scripts/release, which
# names a directory with Zydis' source: ZYDIS=DIR. Debian has every other library as an archive.
# $O/static/NAME.linked lists the files that went into NAME; their licences go into the tarball.

S := $O/static
ZYDIS ?= out/zydis

zydis_obj := $(patsubst %,$S/zydis/%.o,Decoder DecoderData MetaInfo Register Segment SharedData Utils)
# Debian has no archive of GnuTLS. The server never asks libmicrohttpd for TLS; each function fails.
gnutls = $(shell nm -u $$($(CC) -print-file-name=libmicrohttpd.a) 2>/dev/null | \
	grep -o 'gnutls_[a-z0-9_]*' | LC_ALL=C sort -u)
static_ld  = $(LDFLAGS) -s -Wl,--build-id=sha1,--gc-sections,-t
static_elf := -lelf -llzma -lbz2 -lz

.PHONY: static
static: $S/heaptap $S/heaptap-analyze

# Its assertions name their file: by the same name wherever ZYDIS is.
$S/zydis/%.o: $(ZYDIS)/src/%.c scripts/release.mk
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) -O2 -ffile-prefix-map=$(ZYDIS)/=zydis/ -DZYDIS_STATIC_BUILD -I$(ZYDIS)/include -I$(ZYDIS)/src -c -o $@ $<

$S/no_tls.o: scripts/release.mk
	@mkdir -p $(@D)
	$(call quiet,CC)echo 'int no_tls(void) { return -1; }' | $(CC) -O2 -fPIE -x c -c -o $@ -

# libunwind-ptrace's archive is not position-independent.
$S/heaptap: $O/attach/main.o $(attach_lib) $(attach_asm_o) $(format_obj) $(zydis_obj)
	$(call quiet,LINK)$(CC) -static $(static_ld) -o $@ $^ $(filter-out -lZydis,$(attach_libs)) \
		$(static_elf) $(LDLIBS) >$@.linked

$S/heaptap-analyze: $O/analyzer/main.o $(analyzer_lib) $(format_obj) $S/no_tls.o
	$(call quiet,LINK)$(CC) -static-pie $(static_ld) $(patsubst %,-Wl$(comma)--defsym=%=no_tls,$(gnutls)) \
		-o $@ $^ $(analyzer_libs) $(static_elf) $(LDLIBS) >$@.linked

comma := ,
