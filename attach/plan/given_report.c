/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/given_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/got/relocs.h"
#include "format/foreign.h"

/* A slot names the function even if no readable file does. */
static size_t slots_named(const struct slots *slots, uint32_t name)
{
	size_t count = 0;
	for (size_t i = 0; i < slots->count; i++)
		count += slots->slot[i].name == name && slots->slot[i].real;
	return count;
}

static struct ht_err *check_one(
	pid_t pid, const struct modules *modules, const struct slots *slots, uint32_t index)
{
	const char *name = given_used()->given[index].name;
	bool found = slots_named(slots, TAP_NAME_GIVEN + index) > 0;
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->module[i];
		char path[160];
		found |= module->natives.given >> index & 1;
		if (!(module->natives.given_twice >> index & 1))
			continue;
		foreign_copy(path, sizeof(path), module->path);
		return ht_err_new(HT_ERR_REFUSED,
			"--alloc-fn %s: %s has several functions of that name; heaptap cannot "
			"choose one",
			name, path);
	}
	return found ? NULL
		     : ht_err_new(HT_ERR_REFUSED,
			       "--alloc-fn %s: process %d has no function of that name in the "
			       "symbols of its files or their debug files (inlined or stripped?)",
			       name, pid);
}

struct ht_err *given_check(pid_t pid, const struct modules *modules, const struct slots *slots)
{
	for (uint32_t i = 0; i < given_used()->count; i++)
		HT_TRY(check_one(pid, modules, slots, i));
	return NULL;
}

static void describe_way(FILE *out, const struct slots *all_slots, const struct coverage *coverage,
	const struct given *given)
{
	size_t slots = 0, places = 0, pointers = 0;
	bool at_entry = false;
	for (size_t i = 0; i < coverage->count; i++) {
		const struct coverage_function *function = &coverage->function[i];
		if (strcmp(function->native->name, given->name) != 0)
			continue;
		at_entry |= function->at_entry;
		slots += function->slots;
		places += function->places;
		pointers += function->native->pointers;
	}
	if (at_entry) {
		fputs("at its entry", out);
		return;
	}
	if (!slots)
		slots = slots_named(
			all_slots, (uint32_t)(given - given_used()->given) + TAP_NAME_GIVEN);
	fprintf(out,
		slots ? "recorded addresses: %zu" : "NOT RECORDED: the program calls it directly",
		slots);
	if (places)
		fprintf(out, ", %zu direct calls are not recorded", places);
	if (pointers)
		fprintf(out, ", calls through %zu pointers in data are not recorded", pointers);
}

char *given_describe(const struct slots *slots, const struct coverage *coverage)
{
	const struct given_list *list = given_used();
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	for (uint32_t i = 0; out && i < list->count; i++) {
		const struct given *given = &list->given[i];
		fprintf(out, "%s%s as %s (", i ? ", " : "", given->name,
			hook_name((enum abi_hook)given->hook));
		describe_way(out, slots, coverage, given);
		fputc(')', out);
	}
	if (!out || fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}
