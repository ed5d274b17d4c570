/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/print_care.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/cli/print.h"

/* Room for the command to run next; "": there is none. */
#define NEXT_BYTES 64u

/* The name of a result in JSON, and the command to run next; NULL: none. */
struct result {
	const char *name, *next;
};

static const char *command(const char *name, pid_t pid, char ret[NEXT_BYTES])
{
	ret[0] = '\0';
	if (name)
		snprintf(ret, NEXT_BYTES, "%sheaptap %s -p %d",
			geteuid() != 0 && !strcmp(name, "recover") ? "sudo " : "", name, pid);
	return ret;
}

static void print_next(const char *name, pid_t pid)
{
	char next[NEXT_BYTES];
	if (name)
		print_text(stdout, "next: %s\n", command(name, pid, next));
}

/* --- verify
 * -------------------------------------------------------------------------------------- */

/* The names in JSON, which never change, and in text output. */
static const struct {
	const char *name, *label;
} parts[VERIFY_PARTS] = {
	[VERIFY_MAPPINGS] = {"mappings", "mappings"},
	[VERIFY_DESCRIPTORS] = {"descriptors", "descriptors"},
	[VERIFY_SLOTS] = {"slots", "addresses"},
	[VERIFY_CODE] = {"code", "code"},
	[VERIFY_THREADS] = {"threads", "threads"},
};

static const struct result states[] = {
	[VERIFY_CLEAN] = {"clean", NULL},
	[VERIFY_TAPPED] = {"tapped", "verify"},
	[VERIFY_ABANDONED] = {"abandoned", "recover"},
	[VERIFY_TOMBSTONE] = {"tombstone", "cleanup"},
	[VERIFY_REMAINS] = {"remains", "recover"},
};

/* recover can do nothing for addresses and threads alone. */
static const char *next_after_verify(const struct verify_report *r)
{
	bool is_beyond = r->state == VERIFY_REMAINS && !r->part[VERIFY_CODE].ours &&
			 !r->part[VERIFY_DESCRIPTORS].ours;
	return is_beyond ? NULL : states[r->state].next;
}

static void print_state(const struct verify_report *r, pid_t pid)
{
	switch (r->state) {
	case VERIFY_CLEAN:
		print_text(stdout, "nothing of heaptap is in process %d\n", pid);
		break;
	case VERIFY_TAPPED:
		print_text(stdout,
			"heaptap is working on process %d now, or the guardian of a killed heaptap "
			"is cleaning up;\ncheck again when it has ended\n",
			pid);
		break;
	case VERIFY_ABANDONED:
		print_text(stdout,
			"process %d still has the code of heaptap %d, which has ended. The program "
			"is not in danger:\nthe code forwards each call to the allocator. heaptap "
			"recover removes it\n",
			pid, r->daemon_pid);
		break;
	case VERIFY_TOMBSTONE:
		print_text(stdout,
			"process %d has one page of jumps to its allocator, left by heaptap %d "
			"because the program keeps\naddresses in it. The program is not in danger. "
			"heaptap cleanup removes the page when the program\nno longer keeps them; "
			"the next attach uses the page again\n",
			pid, r->daemon_pid);
		break;
	case VERIFY_REMAINS:
		if (r->part[VERIFY_SLOTS].ours)
			print_text(stdout,
				"process %d keeps addresses of allocator functions that lead to "
				"unmapped memory: the next call\nthrough one of them ends the "
				"process. If heaptap was attached, this is a bug: keep this "
				"output\n",
				pid);
		else
			print_text(stdout,
				"a killed heaptap left what is listed above in process %d. Nothing "
				"uses it, and it does no harm%s\n",
				pid,
				r->part[VERIFY_CODE].ours ? "; heaptap recover restores the bytes"
							  : "");
		break;
	}
}

static struct ht_err *print_verify_json(const struct verify_report *r, pid_t pid)
{
	char next[NEXT_BYTES];
	json_t *object = json_object();

	for (size_t i = 0; object && i < VERIFY_PARTS; i++)
		json_object_set_new(object, parts[i].name,
			json_pack("{s:b, s:o, s:o}", "heaptap", (int)r->part[i].ours, "text",
				print_string(r->part[i].text), "other",
				print_string(r->part[i].other)));
	return print_json(json_pack("{s:s, s:i, s:o, s:i, s:s, s:o, s:s}", "schema",
		"heaptap.verify/1", "pid", (int)pid, "comm", print_string(r->comm), "threads",
		(int)r->threads, "state", states[r->state].name, "parts", object, "next",
		command(next_after_verify(r), pid, next)));
}

struct ht_err *print_verify(const struct verify_report *r, pid_t pid, bool json)
{
	if (json)
		return print_verify_json(r, pid);
	print_text(stdout, "process %d (%s), %u threads; nothing was touched\n", pid, r->comm,
		r->threads);
	for (size_t i = 0; i < VERIFY_PARTS; i++) {
		const struct verify_finding *f = &r->part[i];
		print_text(stdout, "%c %-12s %s\n", f->ours ? '!' : ' ', parts[i].label, f->text);
		if (f->other[0])
			print_text(stdout, "  %-12s %s\n", "", f->other);
	}
	print_state(r, pid);
	print_next(next_after_verify(r), pid);
	return NULL;
}

/* --- recover
 * ------------------------------------------------------------------------------------- */

static const struct result recovered[] = {
	[RECOVER_NOTHING] = {"nothing", NULL},
	[RECOVER_DONE] = {"done", NULL},
	[RECOVER_TOMBSTONE] = {"tombstone", "cleanup"},
	[RECOVER_INCOMPLETE] = {"incomplete", "recover"},
};

static struct ht_err *print_recover_json(const struct recover_report *r, pid_t pid)
{
	char next[NEXT_BYTES];
	return print_json(json_pack("{s:s, s:i, s:s, s:I, s:I, s:I, s:o, s:s}", "schema",
		"heaptap.recover/1", "pid", (int)pid, "outcome", recovered[r->outcome].name,
		"slots_tapped", (json_int_t)r->detach.patch.tapped, "slots_restored",
		(json_int_t)r->detach.patch.restored, "slots_changed",
		(json_int_t)r->detach.patch.changed, "why", print_string(r->detach.why), "next",
		command(recovered[r->outcome].next, pid, next)));
}

struct ht_err *print_recover(const struct recover_report *r, pid_t pid, bool json)
{
	const struct patch_report *slots = &r->detach.patch;

	if (json)
		return print_recover_json(r, pid);
	if (r->found.image)
		print_text(stdout,
			"found: the code of heaptap %d, which has ended\ndone:  %zu of %zu "
			"addresses lead to the allocator again",
			r->found.daemon_pid, slots->restored, slots->tapped);
	if (r->found.image && slots->changed)
		print_text(stdout, " (the program changed %zu)", slots->changed);
	if (r->found.image)
		print_text(stdout, "\n");
	switch (r->outcome) {
	case RECOVER_NOTHING:
		print_text(stdout, "nothing of heaptap is in process %d; there was nothing to do\n",
			pid);
		break;
	case RECOVER_DONE:
		print_text(stdout,
			"       every thread was checked, heaptap's code is unmapped, its socket "
			"is closed\nnothing of heaptap is left in process %d\n",
			pid);
		break;
	case RECOVER_TOMBSTONE:
		if (r->found.image)
			print_text(stdout, "left:  %s\n", r->detach.why);
		else
			print_text(stdout, "left:  one page at %lx, by an earlier capture\n",
				(unsigned long)r->found.base);
		print_text(stdout,
			"       It forwards calls to the allocator and does no harm; heaptap "
			"cleanup removes it when the\n       program keeps no address in it\n");
		break;
	case RECOVER_INCOMPLETE:
		print_text(stdout, "left:  %s\n       this does no harm; run recover again later\n",
			r->detach.why);
		break;
	}
	print_next(recovered[r->outcome].next, pid);
	return NULL;
}

/* --- cleanup
 * ------------------------------------------------------------------------------------- */

static const struct result cleaned[] = {
	[CLEANUP_NOTHING] = {"nothing", NULL},
	[CLEANUP_CAPTURE] = {"capture", "recover"},
	[CLEANUP_REMOVED] = {"removed", NULL},
	[CLEANUP_IN_USE] = {"in use", "cleanup"},
};

static void print_use(const struct cleanup_report *r)
{
	const struct jump_page_report *f = &r->found;

	if (f->slots)
		print_text(stdout,
			"left:  %zu addresses of allocator functions lead into it, one at %lx in "
			"%s\n",
			f->slots, (unsigned long)f->at, r->where);
	else if (f->tid)
		print_text(stdout, "left:  thread %d may still return into it\n", f->tid);
	else if (f->at)
		print_text(stdout,
			"left:  the program keeps %zu addresses in it, one at %lx in %s\n",
			f->pointers, (unsigned long)f->at, r->where);
	else if (!f->pointers)
		printf("left:  %lu KiB of the program's memory could not be searched for addresses "
		       "in it\n",
			(unsigned long)(f->unread_bytes >> 10));
	else
		print_text(
			stdout, "left:  stacks of threads hold %zu addresses in it\n", f->pointers);
	print_text(stdout,
		"       The page stays. It forwards calls to the allocator: leaving it (%u bytes) "
		"is harmless. Run\n       cleanup again later to remove it\n",
		(unsigned)HT_PAGE_BYTES);
}

static struct ht_err *print_cleanup_json(const struct cleanup_report *r, pid_t pid)
{
	char next[NEXT_BYTES];
	return print_json(json_pack("{s:s, s:i, s:s, s:I, s:I, s:I, s:I, s:o, s:i, s:s}", "schema",
		"heaptap.cleanup/1", "pid", (int)pid, "outcome", cleaned[r->outcome].name, "page",
		(json_int_t)r->page, "slots", (json_int_t)r->found.slots, "pointers",
		(json_int_t)r->found.pointers, "at", (json_int_t)r->found.at, "where",
		print_string(r->where), "thread", (int)r->found.tid, "next",
		command(cleaned[r->outcome].next, pid, next)));
}

struct ht_err *print_cleanup(const struct cleanup_report *r, pid_t pid, bool json)
{
	if (json)
		return print_cleanup_json(r, pid);
	if (r->outcome == CLEANUP_REMOVED || r->outcome == CLEANUP_IN_USE)
		print_text(stdout, "found: one page at %lx, left by heaptap %d\n",
			(unsigned long)r->page, r->daemon_pid);
	switch (r->outcome) {
	case CLEANUP_NOTHING:
		print_text(stdout, "no page of heaptap is in process %d; there was nothing to do\n",
			pid);
		break;
	case CLEANUP_CAPTURE:
		print_text(stdout,
			"found: the code of heaptap %d, which has ended. cleanup removes only the "
			"page of a finished\n       capture; heaptap recover removes this. Nothing "
			"was changed\n",
			r->daemon_pid);
		break;
	case CLEANUP_REMOVED:
		print_text(stdout,
			"done:  the program keeps no address in it any more; the page is "
			"unmapped\nnothing of heaptap is left in process %d\n",
			pid);
		break;
	case CLEANUP_IN_USE:
		print_use(r);
		break;
	}
	print_next(cleaned[r->outcome].next, pid);
	return NULL;
}
