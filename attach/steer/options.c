/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/steer/options.h"

#include <stdarg.h>
#include <stdio.h>

void options_tell(const struct session_options *options, const char *fmt, ...)
{
	char line[256];
	va_list args;

	if (!options->progress)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	options->progress(line);
}
