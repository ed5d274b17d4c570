/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts the records that describe the capture: target, window, modules.
 */
#pragma once

#include <string.h>

#include "attach/trace/handover.h"
#include "attach/inject/image.h"
#include "attach/plan/survey.h"
#include "attach/unwind/publish.h"
#include "format/record.h"

struct sink;

#define RECORDS_COPIES_MAX 64u

/* Borrows `text`. */
static inline struct rec_string records_text(const char *text)
{
	return (struct rec_string){text, strlen(text)};
}

/* The caller sets the fields up to `mappings`; what they point to outlives the struct. */
struct records {
	struct survey *survey; /* gives the ids of copies of modules */
	const struct image *image;
	const struct publish *publish; /* its epoch is the time at which a module comes or goes */
	struct handover *handover;     /* holds the files of modules for names; NULL: no names */
	struct sink *sink;
	uint64_t sample_bytes; /* this and `mappings`: as in session_options */
	bool mappings;
	uint64_t modules_put;		     /* highest module id in the trace */
	raddr_t copy_lo[RECORDS_COPIES_MAX]; /* where the second mappings of code begin that are in
						the trace */
	size_t copy_count;
};

/* Puts the target: process, command and machine. */
HT_MUST_CHECK
struct ht_err *records_put_target(const struct records *records);
/* Puts the beginning of the window, which is now. */
HT_MUST_CHECK
struct ht_err *records_put_capture(const struct records *records);
/* Puts the present mappings, before the first event of a window that records mappings. Puts nothing
 * if the target has ended. */
HT_MUST_CHECK
struct ht_err *records_put_mapped(const struct records *records);
/* Puts the total of something that the trace lacks. */
HT_MUST_CHECK
struct ht_err *records_put_counter(
	const struct records *records, enum rec_counter counter, uint64_t total);
/* Puts the modules that the trace does not have yet. `late`: loaded during the window. Adds to
 * `missed` the late ones that ran before their slots were hooked. */
HT_MUST_CHECK
struct ht_err *records_put_new_modules(struct records *records, bool late, uint64_t *missed);
/* Puts the end of those modules in `old_id` that are no longer loaded. `*ret_any`: there are such
 * modules. */
HT_MUST_CHECK
struct ht_err *records_put_gone_modules(
	const struct records *records, const uint64_t *old_id, size_t old_count, bool *ret_any);
