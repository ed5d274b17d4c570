/* SPDX-License-Identifier: Apache-2.0
 *
 * The blocks that libguest.so allocates in one visit. Only libguest.so uses these sizes.
 */
#pragma once

#define GUEST_CONSTRUCTED	3 /* blocks */
#define GUEST_RUN		10
#define GUEST_CONSTRUCTED_BYTES 4099
#define GUEST_TAKEN_BYTES	4111
#define GUEST_RUN_BYTES		4127
#define GUEST_DESTROYED_BYTES	4129
