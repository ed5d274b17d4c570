/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold/shebang.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc/fd.h"

bool shebang_read(const char *path, char ret[SHEBANG_BYTES])
{
	char line[SHEBANG_BYTES + 1];
	FD_GUARD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t got = fd < 0 ? -1 : read(fd, line, SHEBANG_BYTES);
	ret[0] = '\0';
	if (got < 2 || memcmp(line, "#!", 2) != 0)
		return got >= 0;
	line[got] = '\0';
	const char *name = line + 2 + strspn(line + 2, " \t");
	snprintf(ret, SHEBANG_BYTES, "%.*s", (int)strcspn(name, " \t\n"), name);
	return true;
}
