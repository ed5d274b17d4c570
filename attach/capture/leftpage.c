/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/leftpage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/got/relocs.h"

#define NAMES_BYTES 96u
#define KEPT_BYTES  200u

/* The function whose calls the thunk sees; NULL: none that is known. */
static const char *name_of(const struct session *s, size_t thunk)
{
	unsigned hook = thunk < s->image.thunk_count ? s->image.thunk[thunk].hook : ABI_TAP_COUNT;
	return hook < ABI_TAP_COUNT ? hook_name((enum abi_hook)hook) : NULL;
}

/* "free, malloc", or "allocator functions" where not all are known or there are too many. */
static void name_functions(const struct session *s, uint64_t thunks, char ret[NAMES_BYTES])
{
	size_t length = 0;
	ret[0] = '\0';
	for (size_t i = 0; i < ABI_THUNK_MAX; i++) {
		if (!(thunks >> i & 1))
			continue;
		const char *name = name_of(s, i);
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

static void say_what_keeps_it(
	const struct session *s, const struct detach_report *result, char ret[KEPT_BYTES])
{
	char names[NAMES_BYTES];
	if (result->escaped) {
		name_functions(s, result->found.thunks, names);
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

void leftpage_note(struct session *s, const struct detach_report *result)
{
	struct session_report *report = s->report;
	pid_t pid = s->options->pid;
	char kept[KEPT_BYTES], goes[KEPT_BYTES];

	report->page = s->image.thunks;
	say_what_keeps_it(s, result, kept);
	if (s->options->linger_ns && result->found.count && !linger_reaches(pid)) {
		s->linger.time_ns = report->linger_ns = s->options->linger_ns;
		linger_plan_add(
			&s->linger, pid, s->survey.proc.start_ticks, report->page, &result->found);
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

void leftpage_add_children(struct session *s)
{
	const struct children_report *children = &s->report->children;
	if (!s->options->linger_ns)
		return;
	for (size_t i = 0; i < children->pages && i < CHILDREN_NAMED_MAX; i++) {
		const struct children_page *page = &children->page[i];
		if (linger_reaches(page->pid))
			continue;
		linger_plan_add(&s->linger, page->pid, page->start_ticks, page->page, NULL);
		s->linger.time_ns = s->report->linger_ns = s->options->linger_ns;
	}
}

bool leftpage_is_all(const struct session_report *report)
{
	bool page = report->detached && report->level == DETACH_TOMBSTONE;
	return (page || report->children.pages) && !report->children.left &&
	       !report->guardian_left &&
	       (page ? report->verify.page_only : !report->detached || report->verify.equal);
}
