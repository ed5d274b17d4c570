/* SPDX-License-Identifier: Apache-2.0
 *
 * The script of flame graphs, embedded.
 */
	.section .rodata
	.globl flame_script, flame_script_end
	.hidden flame_script, flame_script_end
flame_script:
	.incbin "analyzer/ui/flame.js"
flame_script_end:

	.section .note.GNU-stack, "", @progbits
