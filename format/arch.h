/* SPDX-License-Identifier: Apache-2.0
 *
 * ELF names of the processor's machine and relocations, and its clock. All parts but the agent use
 * this file. CONTRIBUTING.md lists what else a port supplies.
 */
#pragma once

#include <elf.h>
#include <stdint.h>
#include <x86intrin.h>

#define ARCH_ELF_MACHINE EM_X86_64

/* Relocations that make a word an address. WORD: of a symbol, anywhere. GOT: of a symbol, in the
 * GOT. PLT: of a function called through the PLT, possibly not bound yet. RELATIVE: of a place in
 * the same module. */
#define ARCH_RELOC_WORD	    R_X86_64_64
#define ARCH_RELOC_GOT	    R_X86_64_GLOB_DAT
#define ARCH_RELOC_PLT	    R_X86_64_JUMP_SLOT
#define ARCH_RELOC_RELATIVE R_X86_64_RELATIVE

/* The clock of the agent's stamps: of constant rate and the same on all cores. attach/capture
 * measures its rate. */
static inline uint64_t arch_tsc(void)
{
	return __rdtsc();
}
