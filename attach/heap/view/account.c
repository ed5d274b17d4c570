/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/view/account.h"

#include <stdarg.h>
#include <stdio.h>

void account_explain(struct heap_account *account, const char *fmt, ...)
{
	va_list args;
	if (account->reason[0])
		return;
	va_start(args, fmt);
	vsnprintf(account->reason, sizeof(account->reason), fmt, args);
	va_end(args);
}

void account_value(struct heap_account *account, enum memory_kind kind, uint64_t bytes)
{
	if (account->value_count < HEAP_VALUES_MAX)
		account->value[account->value_count++] = (struct heap_value){kind, bytes};
}
