/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/places.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define PLACES_MAX 8192
#define RETURNS	   2
#define WORDS	   1024 /* words of the stack that are read */
#define FNV_OFFSET 0xcbf29ce484222325
#define FNV_PRIME  0x100000001b3

struct place {
	uint64_t key;
	uint32_t calls; /* in this run */
	uint32_t tried; /* bit k: at its 4^k-th call */
};

struct places {
	char *exe;
	uint64_t text_start, text_end; /* of the program in this run; 0: not looked up yet */
	size_t count;
	struct place place[PLACES_MAX];
};

bool places_wanted(void)
{
	const char *which = getenv("HEAPTAP_SWEEP");
	return which && strcmp(which, "places") == 0;
}

struct places *places_new(const char *exe)
{
	struct places *places = calloc(1, sizeof(*places));
	ck_assert_ptr_nonnull(places);
	places->exe = realpath(exe, NULL);
	ck_assert_ptr_nonnull(places->exe);
	return places;
}

void places_destroy(struct places *places)
{
	free(places->exe);
	free(places);
}

void places_begin(struct places *places)
{
	places->text_start = places->text_end = 0;
	for (size_t i = 0; i < places->count; i++)
		places->place[i].calls = 0;
}

size_t places_count(const struct places *places)
{
	return places->count;
}

static void text_find(struct places *places, pid_t pid)
{
	char path[32], line[512];

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		uint64_t start, end;
		char flags[8];
		line[strcspn(line, "\n")] = '\0';
		const char *name = strchr(line, '/');
		if (name && strcmp(name, places->exe) == 0 &&
			sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end, flags) == 3 &&
			flags[2] == 'x') {
			places->text_start = start;
			places->text_end = end;
		}
	}
	if (maps)
		fclose(maps);
}

static uint64_t mix(uint64_t key, uint64_t value)
{
	for (unsigned i = 0; i < sizeof(value); i++, value >>= 8)
		key = (key ^ (value & 0xff)) * FNV_PRIME;
	return key;
}

static uint64_t key_of(struct places *places, pid_t pid, unsigned who, long number, uint64_t sp)
{
	uint64_t word[WORDS], key = mix(mix(FNV_OFFSET, who), (uint64_t)number);
	struct iovec local = {word, sizeof(word)}, remote = {(void *)sp, sizeof(word)};
	unsigned found = 0;

	if (!places->text_end)
		text_find(places, pid);
	ssize_t size = process_vm_readv(pid, &local, 1, &remote, 1, 0);
	/* Near the top of main's stack fewer words are mapped: read half as many. */
	for (; size < 0 && remote.iov_len > sizeof(word[0]);) {
		remote.iov_len /= 2;
		size = process_vm_readv(pid, &local, 1, &remote, 1, 0);
	}
	for (ssize_t i = 0; i < size / (ssize_t)sizeof(word[0]) && found < RETURNS; i++)
		if (word[i] >= places->text_start && word[i] < places->text_end) {
			key = mix(key, word[i] - places->text_start);
			found++;
		}
	return key;
}

static struct place *place_find(struct places *places, uint64_t key)
{
	for (size_t i = 0; i < places->count; i++)
		if (places->place[i].key == key)
			return &places->place[i];
	ck_assert_uint_lt(places->count, PLACES_MAX);
	struct place *place = &places->place[places->count++];
	*place = (struct place){.key = key};
	return place;
}

bool places_is_due(struct places *places, pid_t pid, unsigned who, long number, uint64_t sp)
{
	struct place *place = place_find(places, key_of(places, pid, who, number, sp));
	uint32_t call = ++place->calls, bit = 0;

	for (; call % 4 == 0; call /= 4)
		bit++;
	if (call != 1 || (place->tried & 1U << bit))
		return false;
	place->tried |= 1U << bit;
	return true;
}
