/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#define HTTP_PORT 80u /* browsers leave it out of Host */

struct ht_err *access_init(struct access *access, uint16_t port)
{
	unsigned char random[ACCESS_TOKEN_BYTES / 2];
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return ht_err_sys(errno, "cannot make a token");
	access->port = port;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(access->token + 2 * i, 3, "%02x", random[i]);
	return NULL;
}

static bool is_ours(const struct access *access, const char *host)
{
	static const char *const name[] = {"127.0.0.1", "localhost", "[::1]"};
	char expected[32];
	for (size_t i = 0; i < HT_ARRAY_SIZE(name); i++) {
		snprintf(expected, sizeof(expected), "%s:%u", name[i], access->port);
		if (strcasecmp(host, expected) == 0 ||
			(access->port == HTTP_PORT && strcasecmp(host, name[i]) == 0))
			return true;
	}
	return false;
}

static bool is_own_origin(const struct access *access, const char *origin)
{
	static const char scheme[] = "http://";
	return strncasecmp(origin, scheme, sizeof(scheme) - 1) == 0 &&
	       is_ours(access, origin + sizeof(scheme) - 1);
}

/* Compares in constant time: the time does not show where the first difference is. */
static bool is_token(const struct access *access, const char *text)
{
	unsigned differences = 0;
	if (!text || strlen(text) != ACCESS_TOKEN_BYTES)
		return false;
	for (size_t i = 0; i < ACCESS_TOKEN_BYTES; i++)
		differences |= (unsigned)(text[i] ^ access->token[i]);
	return differences == 0;
}

struct ht_err *access_check(const struct access *access, const struct access_claim *claim)
{
	if (!claim->host || !is_ours(access, claim->host))
		return ht_err_new(HT_ERR_PERMISSION,
			"only http://127.0.0.1:%u is answered, not another name", access->port);
	if (claim->origin && !is_own_origin(access, claim->origin))
		return ht_err_new(
			HT_ERR_PERMISSION, "pages of other sites are not answered (Origin)");
	if (is_token(access, claim->header) ||
		(!claim->changes && is_token(access, claim->parameter)))
		return NULL;
	return ht_err_new(HT_ERR_PERMISSION,
		claim->changes ? "the token is missing: send it as header X-Heaptap-Token"
			       : "the token is missing or wrong: use the address that heaptap "
				 "serve printed");
}
