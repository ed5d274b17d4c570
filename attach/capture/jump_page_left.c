/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/jump_page_left.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/got/relocs.h"

#define NAMES_BYTES 96u
#define KEPT_BYTES  200u

/* The name of the allocator function that the thunk is for; NULL: unknown. */
static const char *name_of(const struct image *image, size_t thunk)
{
	unsigned hook = thunk < image->thunk_count ? image->thunk[thunk].hook : ABI_TAP_COUNT;
	return hook < ABI_TAP_COUNT ? hook_name((enum abi_hook)hook) : NULL;
}

/* "free, malloc", or "allocator functions" if some are unknown or the names do not fit. */
static void name_functions(const struct image *image, uint64_t thunks, char ret[NAMES_BYTES])
{
	size_t length = 0;
	ret[0] = '\0';
	for (size_t i = 0; i < ABI_THUNK_MAX; i++) {
		if (!(thunks >> i & 1))
			continue;
		const char *name = name_of(image, i);
		if (name && length + strlen(name) + 3 < NAMES_BYTES) {
			length += (size_t)snprintf(ret + length, NAMES_BYTES - length, "%s%s",
				length ? ", " : "", name);
			continue;
		}
		length = 0;
		break;
	}
	if (!length)
		snprintf(ret, NAMES_BYTES, "allocator functions");
}

static void describe_what_keeps_it(
	const struct image *image, const struct detach_report *result, char ret[KEPT_BYTES])
{
	char names[NAMES_BYTES];
	if (result->escaped) {
		name_functions(image, result->found.thunks, names);
		snprintf(ret, KEPT_BYTES, "the program keeps addresses of %s", names);
	} else if (result->unread_bytes) {
		snprintf(ret, KEPT_BYTES,
			"%" PRIu64 " KiB of the program's memory (swapped out, or not readable) "
			"could not be searched for addresses of allocator functions",
			result->unread_bytes >> 10);
	} else {
		snprintf(ret, KEPT_BYTES,
			"memory of a file system that does not answer could not be searched for "
			"addresses of allocator functions");
	}
}

void jump_page_left_note(struct jump_page_left *left, const struct detach_report *result,
	struct session_report *report)
{
	pid_t pid = left->proc->pid;
	char kept[KEPT_BYTES], goes[KEPT_BYTES];

	report->page = left->image->thunks;
	describe_what_keeps_it(left->image, result, kept);
	if (left->linger_ns && result->found.count && !linger_reaches(pid)) {
		left->plan.time_ns = report->linger_ns = left->linger_ns;
		linger_plan_add(
			&left->plan, pid, left->proc->start_ticks, report->page, &result->found);
		snprintf(goes, sizeof(goes),
			"if the program drops these addresses within %.3g s, heaptap removes the "
			"page; later, `heaptap cleanup -p %d` or the next capture does",
			(double)report->linger_ns / 1e9, pid);
	} else {
		snprintf(goes, sizeof(goes),
			"`heaptap cleanup -p %d` or the next capture removes it when the program "
			"keeps no such address",
			pid);
	}
	snprintf(report->why, sizeof(report->why),
		"one page of 4 KiB stays at 0x%" PRIx64 ": %s. It is harmless; %s", report->page,
		kept, goes);
}

void jump_page_left_add_children(struct jump_page_left *left, struct session_report *report)
{
	const struct children_report *children = &report->children;
	if (!left->linger_ns)
		return;
	for (size_t i = 0; i < children->pages && i < CHILDREN_NAMED_MAX; i++) {
		const struct children_page *page = &children->page[i];
		if (linger_reaches(page->pid))
			continue;
		linger_plan_add(&left->plan, page->pid, page->start_ticks, page->page, NULL);
		left->plan.time_ns = report->linger_ns = left->linger_ns;
	}
}

bool jump_page_left_is_all(const struct session_report *report)
{
	bool page = report->detached && report->level == DETACH_TOMBSTONE;
	return (page || report->children.pages) && !report->children.left &&
	       !report->guardian_left &&
	       (page ? report->verify.page_only : !report->detached || report->verify.equal);
}
