/* SPDX-License-Identifier: Apache-2.0
 *
 * The records that say what was captured: target, window, modules.
 */
#pragma once

#include "attach/capture/session_state.h"

HT_MUST_CHECK
struct ht_err *records_put_target(struct session *s);
/* The window begins now. */
HT_MUST_CHECK
struct ht_err *records_put_capture(struct session *s);
/* Puts what is mapped now: before the first event of a window that records mappings. */
HT_MUST_CHECK
struct ht_err *records_put_mapped(struct session *s);
/* Puts the modules that the trace does not have yet. `late`: loaded during the window. */
HT_MUST_CHECK
struct ht_err *records_put_new_modules(struct session *s, bool late);
/* Puts the end of those of `old_id` that are not loaded any more. */
HT_MUST_CHECK
struct ht_err *records_put_gone_modules(
	struct session *s, const uint64_t *old_id, size_t old_count, bool *ret_any);
