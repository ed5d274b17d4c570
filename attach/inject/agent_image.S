/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent, embedded: a single heaptap binary can be copied to a server.
 */
	.section .rodata
	.balign 64
	.globl agent_elf_begin, agent_elf_end
	.hidden agent_elf_begin, agent_elf_end
agent_elf_begin:
	.incbin "agent.so"
agent_elf_end:

	.section .note.GNU-stack, "", @progbits
