/* SPDX-License-Identifier: Apache-2.0
 *
 * The output file: opened so that no other file can be harmed or disclosed, marked as being written
 * until its descriptor is closed, and renamed to its final name or removed. heaptap may run as
 * root, in directories that other users may write to.
 */
#pragma once

#include <sys/types.h>

#include "format/err.h"

struct output {
	char *path; /* as named by the user */
	int fd;
	bool is_regular;
	bool is_standard; /* standard output */

	/* Only for a file that output_open created; dir_fd also for a device. */
	int dir_fd;
	char *name;	  /* its current name in the directory dir_fd */
	char *final_name; /* the name that output_publish gives it; NULL: `name` is the final one */
	dev_t device;
	ino_t inode;
};

/*
 * Opens `path` for writing: "-" is standard output; the devices /dev/null and /dev/full are opened
 * as they are; any other path must be a new file, which gets mode 0600, and under sudo the invoking
 * user as owner. With `replace` the file may exist if it is regular: the new file is created under
 * another name in the same directory, and output_publish renames it. If the last part of the path
 * is a symbolic link, it is not followed. HT_ERR_USAGE names reason and remedy; HT_ERR_SYS or
 * HT_ERR_NOMEM if descriptors or memory are used up. After an error no file is left. Free with
 * output_deinit.
 */
HT_MUST_CHECK
struct ht_err *output_open(const char *path, bool replace, struct output *ret);

/* Makes a regular file durable (fsync) and gives it its final name; the descriptor stays open. Does
 * nothing for other outputs. After an error (HT_ERR_SYS) the file keeps its current name. */
HT_MUST_CHECK
struct ht_err *output_publish(struct output *output);
/* Removes a file that output_open created, if `name` still leads to that file. */
void output_discard(struct output *output);
/* Closes the descriptors and frees the names. */
void output_deinit(struct output *output);
