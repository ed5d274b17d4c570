/* SPDX-License-Identifier: Apache-2.0
 *
 * How heaptap hands files of the target to heaptap-analyze: in messages of a SOCK_SEQPACKET socket,
 * each of some items, with one descriptor for each item that has one, in the same order.
 */
#pragma once

#include "format/base.h"

#define HANDOVER_ITEMS_MAX 200u /* of a message; the kernel takes 253 descriptors */

struct handover_item {
	uint64_t module_id; /* 0: the target's root directory, to look up paths below it */
	uint64_t inode;	    /* of the mapped file; 0: unknown, or not of a file */
	uint64_t has_file;  /* 1: a descriptor of the mapped file itself comes with it */
};
