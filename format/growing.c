/* SPDX-License-Identifier: Apache-2.0 */
#include "format/growing.h"

#include <fcntl.h>
#include <unistd.h>

/* Open file description locks: unlike a process's locks, closing another descriptor of the file
 * does not release them. */
void growing_mark(int fd)
{
	const struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	(void)fcntl(fd, F_OFD_SETLK, &lock);
}

bool growing_is_marked(int fd)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;
}
