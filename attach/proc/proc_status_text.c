/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proc/proc_status_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/proc/proc_file.h"

static uint64_t number(const char *value, int base)
{
	return strtoull(value, NULL, base);
}

static void numbers_parse(const char *value, struct proc_status *ret)
{
	size_t count = 0;
	for (char *end; *value; value = end) {
		long parsed = strtol(value, &end, 10);
		if (end == value)
			break;
		ret->ns_tid = (pid_t)parsed;
		count++;
	}
	ret->ns_alone = count == 1;
}

static bool has_word(const char *value, const char *word)
{
	size_t length = strlen(word);
	for (const char *at = strstr(value, word); at; at = strstr(at + 1, word))
		if ((at == value || isspace((unsigned char)at[-1])) &&
			(!at[length] || isspace((unsigned char)at[length])))
			return true;
	return false;
}

static void ids_parse(const char *value, unsigned *real, unsigned *effective, unsigned *saved)
{
	if (sscanf(value, "%u %u %u", real, effective, saved) != 3)
		*real = *effective = *saved = ~0u;
}

static void line_parse(const char *key, const char *value, struct proc_status *ret, pid_t *tgid)
{
	if (!strcmp(key, "Name"))
		snprintf(ret->comm, sizeof(ret->comm), "%s", value);
	else if (!strcmp(key, "State"))
		ret->state = value[0];
	else if (!strcmp(key, "Tgid"))
		*tgid = (pid_t)number(value, 10);
	else if (!strcmp(key, "PPid"))
		ret->ppid = (pid_t)number(value, 10);
	else if (!strcmp(key, "TracerPid"))
		ret->tracer = (pid_t)number(value, 10);
	else if (!strcmp(key, "Uid"))
		ids_parse(value, &ret->ruid, &ret->euid, &ret->suid);
	else if (!strcmp(key, "Gid"))
		ids_parse(value, &ret->rgid, &ret->egid, &ret->sgid);
	else if (!strcmp(key, "NSpid"))
		numbers_parse(value, ret);
	else if (!strcmp(key, "VmRSS"))
		ret->rss_bytes = number(value, 10) * 1024;
	else if (!strcmp(key, "VmSize"))
		ret->vm_bytes = number(value, 10) * 1024;
	else if (!strcmp(key, "VmData"))
		ret->data_bytes = number(value, 10) * 1024;
	else if (!strcmp(key, "VmLck"))
		ret->locked_bytes = number(value, 10) * 1024;
	else if (!strcmp(key, "CapEff"))
		ret->cap_eff = number(value, 16);
	else if (!strcmp(key, "Threads"))
		ret->threads = (unsigned)number(value, 10);
	else if (!strcmp(key, "SigBlk"))
		ret->sig_blk = number(value, 16);
	else if (!strcmp(key, "SigIgn"))
		ret->sig_ign = number(value, 16);
	else if (!strcmp(key, "SigCgt"))
		ret->sig_cgt = number(value, 16);
	else if (!strcmp(key, "SigPnd"))
		ret->sig_pnd = number(value, 16);
	else if (!strcmp(key, "voluntary_ctxt_switches"))
		ret->sleeps = number(value, 10);
	else if (!strcmp(key, "Seccomp"))
		ret->seccomp = (int)number(value, 10);
	else if (!strcmp(key, "x86_Thread_features"))
		ret->shadow_stack = has_word(value, "shstk");
}

/* The kernel escapes newlines in Name, so every line begins with a key. */
struct ht_err *proc_status_parse(
	const struct proc *proc, char *text, struct proc_status *ret, pid_t *ret_tgid)
{
	*ret = (struct proc_status){0};
	*ret_tgid = 0;
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n"));) {
		char *value = strchr(line, ':');
		if (!value)
			continue;
		*value++ = '\0';
		value += strspn(value, "\t ");
		line_parse(line, value, ret, ret_tgid);
	}
	if (!ret->state || !*ret_tgid)
		return ht_err_new(HT_ERR_FORMAT,
			"cannot parse /proc/%d/status: State or Tgid is missing", proc->pid);
	return NULL;
}

struct ht_err *proc_status_leader(const struct proc *proc, struct proc_status *ret, pid_t *ret_tgid)
{
	char *text;
	HT_TRY(proc_file_read(proc, "status", PROC_STATUS_BYTES, &text, NULL));
	struct ht_err *err = proc_status_parse(proc, text, ret, ret_tgid);
	free(text);
	return err;
}
