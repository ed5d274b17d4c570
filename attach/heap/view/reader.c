/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/view/reader.h"

#include <stdio.h>
#include <stdlib.h>

#include "format/array.h"

#define FIND_SHARE 4u /* of the budget */

struct ht_err *reader_read(const struct reader *reader, struct view *view,
	const struct module *module, struct heap_account *ret, bool *ret_found)
{
	size_t count = 0;
	HT_FREED void *found = calloc(1, reader->found_bytes);
	*ret = (struct heap_account){0};
	*ret_found = false;
	if (!found)
		return ht_err_new(
			HT_ERR_NOMEM, "no memory to read a heap of %s", reader->allocator);
	snprintf(ret->allocator, sizeof(ret->allocator), "%s", reader->allocator);
	uint64_t kept = view_limit(view, view->left / FIND_SHARE);
	struct ht_err *err = reader->find(view, module, found, &count);
	view_unlimit(view, kept);
	*ret_found = !err && count != 0;
	if (count > 1)
		account_explain(ret, "%s", reader->several);
	else if (*ret_found)
		err = reader->read(view, found, ret);
	view->spent = false;
	if (reader->deinit)
		reader->deinit(found);
	return err;
}
