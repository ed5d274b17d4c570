/* SPDX-License-Identifier: Apache-2.0
 *
 * How heaptap hands files of the target to heaptap-analyze: in messages on a SOCK_SEQPACKET socket.
 * A message is an array of items, with one descriptor for each item that has a file, in the same
 * order.
 */
#pragma once

#include "format/base.h"

#define HANDOVER_ITEMS_MAX 200u /* in a message; the kernel passes at most 253 descriptors */

struct handover_item {
	uint64_t module_id; /* 0: the target's root directory, to look up paths below it */
	uint64_t inode;	    /* of the mapped file; 0: unknown, or not of a file */
	uint64_t has_file;  /* 1: a descriptor of the mapped file comes with the item */
};
