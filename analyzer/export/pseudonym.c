/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/pseudonym.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "analyzer/symbols/wrapper.h"

#define DIGITS_MODULUS 10000000000000000ull /* limits a pseudonym to 16 digits */

struct ht_err *pseudonyms_init(struct pseudonyms *pseudonyms)
{
	if (getrandom(pseudonyms->key, sizeof(pseudonyms->key), 0) != sizeof(pseudonyms->key))
		return ht_err_sys(errno, "the kernel gives no random numbers");
	return NULL;
}

/* --- SipHash-2-4 (Aumasson, Bernstein, 2012) ---------------------------------------------------
 */

static uint64_t rotate(uint64_t value, unsigned bits)
{
	return value << bits | value >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32) + v[3];
	v[2] += v[1];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	sip_round(v);
	v[0] ^= word;
}

uint64_t pseudonym_hash(const struct pseudonyms *pseudonyms, struct rec_string text)
{
	const uint64_t *key = pseudonyms->key;
	uint64_t v[] = {key[0] ^ 0x736f6d6570736575ull, key[1] ^ 0x646f72616e646f6dull,
		key[0] ^ 0x6c7967656e657261ull, key[1] ^ 0x7465646279746573ull};
	size_t at = 0;
	uint64_t word;
	for (; text.length - at >= sizeof(word); at += sizeof(word)) {
		memcpy(&word, text.data + at, sizeof(word));
		sip_word(v, word);
	}
	word = (uint64_t)text.length << 56;
	for (size_t i = 0; at + i < text.length; i++)
		word |= (uint64_t)(unsigned char)text.data[at + i] << 8 * i;
	sip_word(v, word);
	v[2] ^= 0xff;
	for (unsigned i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* --- pseudonyms --------------------------------------------------------------------------------
 */

struct rec_string pseudonym_of(const struct pseudonyms *pseudonyms, const char *prefix,
	struct rec_string text, char ret[PSEUDONYM_BYTES])
{
	ret[0] = '\0';
	if (text.length)
		snprintf(ret, PSEUDONYM_BYTES, "%s_%016" PRIu64, prefix,
			(uint64_t)(pseudonym_hash(pseudonyms, text) % DIGITS_MODULUS));
	return (struct rec_string){ret, strlen(ret)};
}

struct rec_string pseudonym_of_function(
	const struct pseudonyms *pseudonyms, struct rec_string text, char ret[PSEUDONYM_BYTES])
{
	const size_t length = text.length < PSEUDONYM_BYTES ? text.length : PSEUDONYM_BYTES - 1;
	memcpy(ret, text.data, length);
	ret[length] = '\0';
	const bool passes_on = wrapper_is(ret), is_plumbing = wrapper_is_plumbing(ret);
	const char *prefix = passes_on && is_plumbing ? "std::__invoke_f"
			     : passes_on	      ? "std::f"
			     : is_plumbing	      ? "heaptap_entry@f"
						      : "f";
	struct rec_string name = pseudonym_of(pseudonyms, prefix, text, ret);
	/* wrapper.c takes a std:: name without parameters as Rust's. */
	if (passes_on && name.length) {
		memcpy(ret + name.length, "()", 3);
		name.length += 2;
	}
	return name;
}

/* --- names that may stay -----------------------------------------------------------------------
 */

bool pseudonym_is_system(struct rec_string path)
{
	static const char *const prefix[] = {"libc.so", "libc-", "libc.musl", "libstdc++.so",
		"libc++.so", "libc++abi.so", "libm.so", "libpthread", "libdl.so", "librt.so",
		"libgcc_s.so", "ld-linux", "ld-musl", "[vdso]"};
	const char *slash = memrchr(path.data, '/', path.length);
	const char *name = slash ? slash + 1 : path.data;
	const size_t length = path.length - (size_t)(name - path.data);
	for (size_t i = 0; i < HT_ARRAY_SIZE(prefix); i++)
		if (length >= strlen(prefix[i]) && memcmp(name, prefix[i], strlen(prefix[i])) == 0)
			return true;
	return false;
}

/* The index behind the bracket that closes the one at `at`; the text's length if none does. */
static size_t skip_brackets(struct rec_string text, size_t at)
{
	unsigned depth = 0;
	for (; at < text.length; at++) {
		const char c = text.data[at];
		if (c == '<' || c == '(')
			depth++;
		else if ((c == ')' || (c == '>' && text.data[at - 1] != '-')) && --depth == 0)
			return at + 1;
	}
	return at;
}

struct rec_string pseudonym_bare(struct rec_string text, char ret[PSEUDONYM_BYTES])
{
	size_t length = 0;
	for (size_t at = 0; at < text.length && length + 8 < PSEUDONYM_BYTES;) {
		const char c = text.data[at];
		if (c != '<' && c != '(') {
			ret[length++] = c;
			at++;
			continue;
		}
		memcpy(ret + length, c == '<' ? "<...>" : "(...)", 5);
		length += 5;
		at = skip_brackets(text, at);
	}
	ret[length] = '\0';
	return (struct rec_string){ret, length};
}
