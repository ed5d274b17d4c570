/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "analyzer/ui/chain.h"
#include "analyzer/ui/page.h"

/* "1.0 MiB accessible (256.0 KiB of files), 4.0 GiB reserved" */
static void put_mapped(struct line *line, const struct mappings_bytes *bytes)
{
	line_put(line, "%s accessible", text_bytes(mappings_accessible(bytes)).text);
	if (bytes->file)
		line_put(line, " (%s of files)", text_bytes(bytes->file).text);
	if (bytes->reserved)
		line_put(line, ", %s reserved", text_bytes(bytes->reserved).text);
}

static void write_summary(const struct page *page)
{
	const struct mappings *mappings = &page->view->analysis->mappings;
	const uint64_t *calls = mappings->calls;
	struct line line;
	line_begin(&line, page->text);
	line_put(&line, "    at the end   ");
	put_mapped(&line, &mappings->live);
	line_end(&line);
	line_print(page->text, "    peak         %s accessible at +%s",
		text_bytes(mappings->peak_bytes).text, text_time(mappings->peak_time_ns).text);
	line_print(page->text, "    calls        %s mapped, %s unmapped, %s remapped, %s protected",
		text_count(calls[ABI_CALL_MAP]).text, text_count(calls[ABI_CALL_UNMAP]).text,
		text_count(calls[ABI_CALL_MOVE_TO]).text, text_count(calls[ABI_CALL_PROTECT]).text);
	line_print(page->text, "    older        unmapped in the window, mapped earlier: %s",
		text_bytes(mappings->before_bytes).text);
	line_print(page->text, "    given back   %s in %s calls of madvise, and still mapped",
		text_bytes(mappings->advised_bytes).text, text_count(calls[ABI_CALL_ADVISE]).text);
}

static void write_stack(const struct page *page, const struct mappings_stack *stack)
{
	const struct view *view = page->view;
	const uint32_t node = tree_leaf(&view->tree, &view->analysis->model.nodes, stack->node);
	struct line line;
	line_begin(&line, page->text);
	line_put(&line, "    ");
	put_mapped(&line, &stack->live);
	line_put(&line, ", of %s in %s calls", text_bytes(stack->made_bytes).text,
		text_count(stack->calls).text);
	line_end(&line);
	if (page->options->shows_stacks) {
		chain_write(page->text, view, node);
		return;
	}
	line_begin(&line, page->text);
	line_put(&line, "      ");
	chain_put(&line, view, node, true, CHAIN_CALLERS);
	line_end(&line);
}

struct ht_err *mappings_text_write(const struct page *page)
{
	const struct mappings *mappings = &page->view->analysis->mappings;
	const size_t limit = page->options->limit, count = mappings->stack_count;
	uint32_t *order;
	if (!analysis_has_mappings(page->view->analysis))
		return NULL;
	HT_TRY(mappings_order(mappings, &order));
	fputc('\n', page->text->out);
	line_wrap(page->text, "", "    ",
		"Mappings: memory that the program and its allocators mapped; it contains the "
		"blocks",
		0);
	write_summary(page);
	for (size_t i = 0; i < count && (!limit || i < limit); i++) {
		const struct mappings_stack *stack = &mappings->stack[order[i]];
		if (!mappings_accessible(&stack->live) && !stack->live.reserved)
			break;
		write_stack(page, stack);
	}
	free(order);
	return NULL;
}
