/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of the file by which libfailing.so (failing.c) reports to the test that preloads it:
 * the number of places that allocate, and the address of each.
 */
#pragma once

#define FAILING_PLACES_MAX 1000u

struct failing_books {
	_Atomic unsigned long count;
	void *_Atomic place[FAILING_PLACES_MAX];
};
