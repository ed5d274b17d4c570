/* SPDX-License-Identifier: Apache-2.0
 *
 * What all but the agent knows of the processor: how ELF files name it, and its clock. What else a
 * port supplies stands in CONTRIBUTING.md.
 */
#pragma once

#include <elf.h>
#include <stdint.h>
#include <x86intrin.h>

#define ARCH_ELF_MACHINE EM_X86_64

/* Relocations of a word that becomes an address: of a named symbol, wherever it stands; of one, in
 * the GOT; of a function that is called through the PLT, perhaps not bound yet; of a place in the
 * module itself. */
#define ARCH_RELOC_WORD	    R_X86_64_64
#define ARCH_RELOC_GOT	    R_X86_64_GLOB_DAT
#define ARCH_RELOC_PLT	    R_X86_64_JUMP_SLOT
#define ARCH_RELOC_RELATIVE R_X86_64_RELATIVE

/* The clock of the agent's stamps, constant and the same on all cores; its rate is measured
 * (receiver.c). */
static inline uint64_t arch_tsc(void)
{
	return __rdtsc();
}
