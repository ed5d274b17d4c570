/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/regwords.h"

#include <string.h>

#include "attach/thread/vectors.h"

/* Rewrites `word` if it is a thunk entry; true: the caller has to write it back. */
static bool change(const struct regwords *r, uint64_t *word, struct regwords_report *report)
{
	if (!stackscan_is_entry(r->ranges, *word))
		return false;
	raddr_t real = r->real ? r->real(r->context, *word) : 0;
	*(real ? &report->rewritten : &report->left) += 1;
	if (real)
		*word = real;
	return real != 0;
}

static void look_at_general(
	const struct regwords *r, struct user_regs_struct *regs, struct regwords_report *report)
{
	raddr_t pc = regs_pc(regs);
	for (unsigned i = 0; i < REGS_WORDS; i++) {
		unsigned long long *place = regs_word(regs, i);
		uint64_t word = *place;
		if (change(r, &word, report))
			*place = word;
	}
	if (!r->real && stackscan_is_entry(r->ranges, pc))
		report->left--;
}

/* A register may hold a piece of a packed structure, with a pointer at any byte. */
static bool look_at_part(const struct regwords *r, struct vectors *vectors,
	const struct vectors_part *part, struct regwords_report *report)
{
	bool changed = false;
	for (size_t at = part->lo; at + sizeof(uint64_t) <= part->hi; at++) {
		uint64_t word;
		memcpy(&word, vectors->bytes + at, sizeof(word));
		if (!change(r, &word, report))
			continue;
		memcpy(vectors->bytes + at, &word, sizeof(word));
		changed = true;
	}
	return changed;
}

struct ht_err *regwords_look(const struct regwords *regwords, pid_t tid,
	struct user_regs_struct *regs, struct regwords_report *ret)
{
	struct vectors vectors;
	struct vectors_part part[VECTORS_PARTS];
	bool changed = false;

	*ret = (struct regwords_report){0};
	HT_TRY(vectors_read(tid, &vectors));
	look_at_general(regwords, regs, ret);
	vectors_parts(&vectors, part);
	for (unsigned i = 0; i < VECTORS_PARTS; i++)
		changed |= look_at_part(regwords, &vectors, &part[i], ret);
	return changed ? vectors_write(tid, &vectors) : NULL;
}
