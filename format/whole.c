/* SPDX-License-Identifier: Apache-2.0 */
#include "format/whole.h"

#include <errno.h>
#include <unistd.h>

ssize_t whole_read(int fd, void *ret, size_t bytes)
{
	size_t done = 0;
	while (done < bytes) {
		const ssize_t got = read(fd, (char *)ret + done, bytes - done);
		if (got < 0 && errno != EINTR)
			return -1;
		if (got == 0)
			break;
		done += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)done;
}

bool whole_write(int fd, const void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		const ssize_t put = write(fd, (const char *)data + done, bytes - done);
		if (put <= 0 && !(put < 0 && errno == EINTR))
			return false;
		done += put > 0 ? (size_t)put : 0;
	}
	return true;
}
