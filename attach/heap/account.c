/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/account.h"

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
