/* SPDX-License-Identifier: Apache-2.0
 *
 * Stubs for a build without libmicrohttpd.
 */
#include "analyzer/serve/serve.h"

bool serve_is_built(void)
{
	return false;
}

struct ht_err *serve_run(const struct serve_config *config)
{
	(void)config;
	return ht_err_new(HT_ERR_REFUSED,
		"serve is not in this build: run apt-get install libmicrohttpd-dev, then make");
}
