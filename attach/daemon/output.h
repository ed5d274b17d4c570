/* SPDX-License-Identifier: Apache-2.0
 *
 * The output file: opened so that no other file can be harmed or disclosed, marked as being written
 * until its descriptor is closed, and put in its place or removed again. Runs as root in
 * directories that others may write.
 */
#pragma once

#include <sys/types.h>

#include "format/err.h"

struct output {
	char *path; /* as named by the user */
	int fd;
	bool is_regular;
	bool is_standard; /* standard output */

	/* Only for a file that was created here; otherwise dir_fd is -1. */
	int dir_fd;
	char *name;	  /* where it lies within dir_fd */
	char *final_name; /* where it is to lie; NULL: it is there */
	dev_t device;
	ino_t inode;
};

/*
 * Opens `path` for writing: "-" is standard output, /dev/null and /dev/full are themselves,
 * anything else must be a new file, which gets mode 0600 and under sudo the invoking user as owner.
 * With `replace` it may be an existing regular file: a new one is then written beside it. Symbolic
 * links are never followed. HT_ERR_USAGE with reason and remedy, or
 * HT_ERR_SYS where descriptors or memory are used up; nothing is left behind.
 */
HT_MUST_CHECK
struct ht_err *output_open(const char *path, bool replace, struct output *ret);

/* Makes it durable and puts it in its final place; the descriptor stays open. */
HT_MUST_CHECK
struct ht_err *output_publish(struct output *output);
/* Removes a file that output_open created, if it still lies where it was created. */
void output_discard(struct output *output);
/* Closes and frees. */
void output_deinit(struct output *output);
