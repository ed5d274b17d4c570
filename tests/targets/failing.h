/* SPDX-License-Identifier: Apache-2.0
 *
 * What libfailing.so (failing.c) tells the test that preloads it.
 */
#pragma once

#define FAILING_PLACES_MAX 1000u

struct failing_books {
	_Atomic unsigned long count;
	void *_Atomic place[FAILING_PLACES_MAX];
};
