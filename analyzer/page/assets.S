/* SPDX-License-Identifier: Apache-2.0
 *
 * The page without its data, as scripts/embed-page puts it together: a single heaptap-analyze
 * writes it anywhere.
 */
	.section .rodata
	.globl page_head_begin, page_head_end, page_tail_begin, page_tail_end
	.hidden page_head_begin, page_head_end, page_tail_begin, page_tail_end
page_head_begin:
	.incbin "page/head.html"
page_head_end:
page_tail_begin:
	.incbin "page/tail.html"
page_tail_end:

	.section .note.GNU-stack, "", @progbits
