/* SPDX-License-Identifier: Apache-2.0
 *
 * verify, recover and cleanup: what they find, what they change, what they print, and that they
 * change nothing else.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/stub/stub_layout.h"
#include "format/abi_control.h"
#include "format/abi_thunk.h"
#include "tests/support/child.h"
#include "tests/support/gotwords.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define ANSWER_MS  30000
#define COMMAND_MS 60000

static void start_target(struct victim *victim, const char *name)
{
	char path[64];
	snprintf(path, sizeof(path), "tests/targets/%s", name);
	victim_start(victim, (const char *[]){run_built(path), NULL});
}

static void check_state(pid_t target, const char *state, const char *next)
{
	char expected[64] = "";
	json_auto_t *verify = report_run("verify", target, strcmp(state, "clean") ? 6 : 0);
	ck_assert_str_eq(report_text(verify, "schema"), "heaptap.verify/1");
	ck_assert_str_eq(report_text(verify, "state"), state);
	if (next)
		snprintf(expected, sizeof(expected), "heaptap %s -p %d", next, target);
	ck_assert_str_eq(report_text(verify, "next"), expected);
}

static bool found(const json_t *verify, const char *part)
{
	char path[64];
	snprintf(path, sizeof(path), "parts.%s.heaptap", part);
	return json_is_true(report_at(verify, path));
}

static void check_outcome(const char *command, pid_t target, int status, const char *outcome)
{
	json_auto_t *object = report_run(command, target, status);
	HT_FREED char *text = json_dumps(object, JSON_COMPACT);
	ck_assert_msg(!strcmp(report_text(object, "outcome"), outcome), "%s: %s", command, text);
}

/* recover refuses while another heaptap works on the target. */
static void check_recover_refused(pid_t target)
{
	char pid[16], *err;
	snprintf(pid, sizeof(pid), "%d", target);
	ck_assert_int_eq(
		run_program((const char *[]){run_built("heaptap"), "recover", "-p", pid, NULL},
			RUN_REFUSAL_MS, NULL, &err),
		3);
	ck_assert_msg(strstr(err, "another heaptap works on process"), "%s", err);
	free(err);
}

HT_TEST(nothing_is_found_where_nothing_was)
{
	static const char *const targets[] = {"busy", "hoist", "sleepy", "ledger-lazy",
		"ledger-nopie", "ledger-jemalloc", "rust"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(targets); i++) {
		struct victim victim;
		start_target(&victim, targets[i]);
		struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
		check_state(victim.pid, "clean", NULL);
		check_outcome("recover", victim.pid, 0, "nothing");
		check_outcome("cleanup", victim.pid, 0, "nothing");
		procsnap_verify(before, victim.pid);
		victim_stop(&victim);
	}
}

HT_TEST(a_capture_is_found_in_every_part)
{
	static const char *const parts[] = {"mappings", "descriptors", "slots", "code"};
	struct victim victim;
	start_target(&victim, "busy");
	struct tap tap;
	tap_start_changing(&tap, victim.pid, PROCSNAP_MASKS_CHANGE, NULL);
	tap_wait_on(&tap, "/busy");
	json_t *verify = report_run("verify", victim.pid, 6);
	ck_assert_str_eq(report_text(verify, "state"), "tapped");
	for (size_t i = 0; i < HT_ARRAY_SIZE(parts); i++)
		ck_assert_msg(found(verify, parts[i]), "%s: %s", parts[i],
			json_dumps(verify, JSON_COMPACT));
	json_decref(verify);
	check_recover_refused(victim.pid);
	tap_check_clean(tap_stop(&tap, 0));
	check_state(victim.pid, "clean", NULL);
	victim_stop(&victim);
}

HT_TEST(a_capture_ends_with_its_guardian)
{
	struct victim victim;
	start_target(&victim, "busy");
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/busy");
	kill(tap_guardian(&tap), SIGKILL);
	ck_assert_int_eq(run_wait(&tap.run, ANSWER_MS), 1);
	char *err = run_err(&tap.run);
	ck_assert_ptr_nonnull(strstr(err, "the guardian process was killed"));
	free(err);
	run_deinit(&tap.run);
	check_state(victim.pid, "clean", NULL);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(a_guardian_is_left_to_work)
{
	struct victim victim;
	start_target(&victim, "busy");
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/busy");
	pid_t guardian = tap_kill_daemon(&tap);
	check_state(victim.pid, "tapped", "verify");
	check_recover_refused(victim.pid);
	kill(guardian, SIGCONT);
	ck_assert_int_eq(waitpid(guardian, NULL, 0), guardian);
	check_state(victim.pid, "clean", NULL);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* `by_name`: the program has slots of malloc and its family, so the test waits until they are
 * tapped. */
static void recover_abandoned(const char *name, bool by_name)
{
	struct victim victim;
	char module[64];
	struct tap tap;
	start_target(&victim, name);
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	tap_start(&tap, victim.pid, NULL);
	snprintf(module, sizeof(module), "/%s", name);
	if (by_name)
		tap_wait_on(&tap, module);
	else
		tap_wait_any(&tap);
	tap_abandon(&tap);
	victim_prove_alive(&victim);
	check_state(victim.pid, "abandoned", "recover");
	check_outcome("cleanup", victim.pid, 6, "capture");
	json_t *recover = report_run("recover", victim.pid, 0);
	ck_assert_str_eq(report_text(recover, "schema"), "heaptap.recover/1");
	ck_assert_str_eq(report_text(recover, "outcome"), "done");
	ck_assert_uint_gt(report_u64(recover, "slots_tapped"), 0);
	ck_assert_uint_eq(
		report_u64(recover, "slots_restored"), report_u64(recover, "slots_tapped"));
	json_decref(recover);
	check_state(victim.pid, "clean", NULL);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

HT_TEST(an_abandoned_capture_is_recovered)
{
	recover_abandoned("busy", true);
}

/* No table in memory names the program's slots: recover must find them again in the program's
 * file. */
HT_TEST(an_abandoned_capture_of_an_allocator_linked_in_is_recovered)
{
	recover_abandoned("rust-jemalloc", true);
}

HT_TEST(an_abandoned_capture_of_other_names_is_recovered)
{
	recover_abandoned("operators-tcmalloc", false);
	recover_abandoned("extended-shared", false);
}

/* An address where nothing is mapped, not even a sanitizer's shadow. */
#define PART_BASE 0x200000000000ul

static int part_gate[2];

/* How far an attach stub came before it was interrupted. No heaptap is alive. */
struct part {
	unsigned mappings;
	bool sized;
	int64_t status; /* the stub_status of the control page; 0: not set. If it is set, the
			   program has reused two of the stub's descriptor numbers */
};

static void note_sockets(int64_t status)
{
	struct abi_control *control = (struct abi_control *)(PART_BASE + ABI_CONTROL_OFF);
	control->stub_fds[0] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fcntl(control->stub_fds[0], F_SETSIG, STUB_MARK) < 0)
		_exit(1);
	control->stub_fds[2] = part_gate[0];
	control->stub_fds[3] = part_gate[1];
	control->stub_status = status;
}

static void be_forked_within_the_stub(const void *arg)
{
	static const struct {
		uint64_t offset, bytes;
		int rights, flags;
	} mapping[] = {{0, 0, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE},
		{ABI_THUNKS_OFF, HT_PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE},
		{ABI_TEXT_OFF, ABI_TEXT_MAX, PROT_READ | PROT_EXEC, MAP_SHARED},
		{ABI_STATE_OFF, HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS},
		{ABI_TABLES_OFF, ABI_TABLES_BYTES, PROT_READ, MAP_SHARED},
		{ABI_SHARED_OFF, 0, PROT_READ | PROT_WRITE, MAP_SHARED}};
	const struct part *part = arg;
	uint64_t bytes = abi_image_bytes(ABI_SLOT_MAX);
	char go;

	child_ready(0);
	if (read(part_gate[0], &go, 1) != 1)
		_exit(1);
	int fd = memfd_create("heaptap-999999", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	for (unsigned i = 0; fd >= 0 && i < part->mappings; i++) {
		uint64_t rest = bytes - mapping[i].offset;
		bool anonymous = mapping[i].flags & MAP_ANONYMOUS;
		void *at = (void *)(PART_BASE + mapping[i].offset);
		if (mmap(at, mapping[i].bytes ? mapping[i].bytes : rest, mapping[i].rights,
			    mapping[i].flags | MAP_FIXED, anonymous ? -1 : fd,
			    anonymous ? 0 : (off_t)mapping[i].offset) != at)
			_exit(1);
	}
	if (fd < 0 || (part->sized && ftruncate(fd, (off_t)bytes)))
		_exit(1);
	if (part->status)
		note_sockets(part->status);
	if (write(part_gate[0], "x", 1) != 1)
		_exit(1);
	child_wait();
}

HT_TEST(a_part_of_an_image_is_recovered)
{
	static const struct part parts[] = {{.mappings = 1}, {.mappings = 2}, {.mappings = 4},
		{.mappings = 5}, {.mappings = 6}, {.mappings = 6, .sized = true},
		{.mappings = 6, .sized = true, .status = STUB_READY},
		{.mappings = 6, .sized = true, .status = STUB_DONE}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(parts); i++) {
		char byte;
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, part_gate), 0);
		struct child child = child_fork(be_forked_within_the_stub, &parts[i]);
		struct procsnap *before = procsnap_take(child.pid, 0);
		ck_assert_int_eq(write(part_gate[1], "x", 1), 1);
		ck_assert_int_eq(read(part_gate[1], &byte, 1), 1);
		check_state(child.pid, "abandoned", "recover");
		json_decref(report_run("recover", child.pid, 0));
		check_state(child.pid, "clean", NULL);
		procsnap_verify(before, child.pid);
		child_kill(&child);
		close(part_gate[0]);
		close(part_gate[1]);
	}
}

/* Bytes that the jump page's file uses: the rest of the file must be freed. */
static uint64_t tombstone_bytes(pid_t pid)
{
	char line[4400], path[128];
	struct stat stat = {0};
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "heaptap-"))
			continue;
		unsigned long lo, hi;
		ck_assert_int_eq(sscanf(line, "%lx-%lx", &lo, &hi), 2);
		snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", pid, lo, hi);
		ck_assert_int_eq(stat.st_ino, 0);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(fstat(fd, &stat), 0);
		close(fd);
	}
	fclose(maps);
	return (uint64_t)stat.st_blocks * 512;
}

/* Takes the snapshot after "use", because the program's first new thread changes signal
 * dispositions. */
static struct procsnap *take_after_use(struct victim *victim)
{
	free(victim_ask(victim, "take", ANSWER_MS));
	free(victim_ask(victim, "use", ANSWER_MS));
	return procsnap_take(victim->pid, PROCSNAP_MASKS_CHANGE);
}

static void leave_tombstone(struct victim *victim)
{
	struct tap tap;
	tap_start(&tap, victim->pid, (const char *[]){"--linger", "0", NULL});
	tap_wait_on(&tap, "/escape");
	free(victim_ask(victim, "take", ANSWER_MS));
	json_auto_t *attach = tap_stop(&tap, 0);
	ck_assert_uint_eq(report_u64(attach, "level"), 2);
}

HT_TEST(a_page_goes_when_the_program_has_forgotten_it)
{
	struct victim victim;
	start_target(&victim, "escape");
	struct procsnap *before = take_after_use(&victim);
	leave_tombstone(&victim);
	check_state(victim.pid, "tombstone", "cleanup");
	if (geteuid() == 0)
		ck_assert_uint_le(tombstone_bytes(victim.pid), 4096);
	check_outcome("recover", victim.pid, 6, "tombstone");
	for (int i = 0; i < 3; i++) {
		json_t *cleanup = report_run("cleanup", victim.pid, 6);
		ck_assert_str_eq(report_text(cleanup, "schema"), "heaptap.cleanup/1");
		ck_assert_str_eq(report_text(cleanup, "outcome"), "in use");
		ck_assert_uint_ge(report_u64(cleanup, "pointers"), 4);
		ck_assert_uint_gt(report_u64(cleanup, "at"), 0);
		ck_assert_str_ne(report_text(cleanup, "where"), "");
		json_decref(cleanup);
		free(victim_ask(&victim, "use", ANSWER_MS));
	}
	free(victim_ask(&victim, "forget", ANSWER_MS));
	check_outcome("cleanup", victim.pid, 0, "removed");
	check_state(victim.pid, "clean", NULL);
	procsnap_verify(before, victim.pid);
	free(victim_ask(&victim, "take", ANSWER_MS));
	free(victim_ask(&victim, "use", ANSWER_MS));
	victim_stop(&victim);
}

/* A new attach takes over the jump page of an earlier one, and leaves the same page again. */
HT_TEST(a_page_is_taken_over_and_then_goes)
{
	struct victim victim;
	start_target(&victim, "escape");
	struct procsnap *before = take_after_use(&victim);
	leave_tombstone(&victim);
	leave_tombstone(&victim);
	check_state(victim.pid, "tombstone", "cleanup");
	free(victim_ask(&victim, "use", ANSWER_MS));
	free(victim_ask(&victim, "forget", ANSWER_MS));
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/escape");
	tap_check_clean(tap_stop(&tap, 0));
	check_state(victim.pid, "clean", NULL);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

/* heaptap does not claim breakpoints, nor bytes behind the code that are not its stub. */
HT_TEST(changed_code_is_not_claimed)
{
	struct victim victim;
	start_target(&victim, "sleepy");
	victim_poke(victim.pid, victim_libc(victim.pid, true), "\xcc", 1);
	json_t *verify = report_run("verify", victim.pid, 0);
	ck_assert_str_eq(report_text(verify, "state"), "clean");
	ck_assert(!found(verify, "code"));
	ck_assert(strstr(report_text(verify, "parts.code.other"), "bytes behind the code of "));
	json_decref(verify);
	victim_poke(victim.pid, victim_libc(victim.pid, false), "\xcc", 1);
	verify = report_run("verify", victim.pid, 0);
	ck_assert(!found(verify, "code"));
	ck_assert(strstr(report_text(verify, "parts.code.other"), "where heaptap never writes"));
	json_decref(verify);
	victim_kill(&victim);
}

/* The program's GOT slot of free, and its value. */
static struct gotword slot_of_free(pid_t pid)
{
	struct gotwords words;
	struct gotword found = {0};
	gotwords_read(pid, &words);
	for (size_t i = 0; i < words.count && !found.addr; i++)
		if (!strcmp(words.word[i].symbol, "free") && !words.word[i].lazy)
			found = words.word[i];
	gotwords_deinit(&words);
	ck_assert_uint_ne(found.addr, 0);
	return found;
}

/* verify must report a slot that leads to unmapped memory, where the program's next call would
 * crash. */
HT_TEST(reports_slots_that_lead_nowhere)
{
	static const uint64_t nowhere = 0x5a5a00000000;
	struct victim victim;
	start_target(&victim, "escape");
	struct gotword slot = slot_of_free(victim.pid);
	victim_poke(victim.pid, slot.addr, &nowhere, sizeof(nowhere));
	json_t *verify = report_run("verify", victim.pid, 6);
	ck_assert_str_eq(report_text(verify, "state"), "remains");
	ck_assert(found(verify, "slots"));
	ck_assert(strstr(report_text(verify, "parts.slots.text"), "unmapped memory"));
	json_decref(verify);
	victim_poke(victim.pid, slot.addr, &slot.value, sizeof(slot.value));
	check_state(victim.pid, "clean", NULL);
	victim_stop(&victim);
}

static uint64_t page_of_heaptap(pid_t pid)
{
	char line[4400], path[64];
	uint64_t lo = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "heaptap-"))
			ck_assert_int_eq(sscanf(line, "%lx", &lo), 1);
	fclose(maps);
	ck_assert_uint_ne(lo, 0);
	return lo;
}

/* The program can still reach the page as long as a slot leads there. */
HT_TEST(a_page_that_a_slot_leads_to_stays)
{
	struct victim victim;
	start_target(&victim, "escape");
	struct procsnap *before = take_after_use(&victim);
	struct gotword slot = slot_of_free(victim.pid);
	leave_tombstone(&victim);
	free(victim_ask(&victim, "forget", ANSWER_MS));
	const uint64_t entry = page_of_heaptap(victim.pid) + offsetof(struct abi_thunk, code);
	victim_poke(victim.pid, slot.addr, &entry, sizeof(entry));
	json_t *cleanup = report_run("cleanup", victim.pid, 6);
	ck_assert_str_eq(report_text(cleanup, "outcome"), "in use");
	ck_assert_uint_eq(report_u64(cleanup, "slots"), 1);
	ck_assert_uint_eq(report_u64(cleanup, "at"), slot.addr);
	json_decref(cleanup);
	victim_poke(victim.pid, slot.addr, &slot.value, sizeof(slot.value));
	check_outcome("cleanup", victim.pid, 0, "removed");
	check_state(victim.pid, "clean", NULL);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

struct holder {
	pid_t target;
	const char *name;
};

static void hold(const void *arg)
{
	const struct holder *holder = arg;
	prctl(PR_SET_NAME, holder->name);
	child_ready(ptrace(PTRACE_SEIZE, holder->target, NULL, NULL));
	child_wait();
}

static json_t *verify_while_held(const struct victim *victim, const char *name, int status)
{
	const struct holder holder = {victim->pid, name};
	struct child child = child_fork(hold, &holder);
	ck_assert_int_eq(child.value, 0);
	json_t *verify = report_run("verify", victim->pid, status);
	child_kill(&child);
	return verify;
}

HT_TEST(names_the_holder_of_a_thread)
{
	struct victim victim;
	start_target(&victim, "sleepy");
	json_t *verify = verify_while_held(&victim, "heaptap", 6);
	ck_assert(found(verify, "threads"));
	ck_assert(strstr(report_text(verify, "parts.threads.text"), "is held by heaptap"));
	json_decref(verify);
	verify = verify_while_held(&victim, "strace", 0);
	ck_assert(!found(verify, "threads"));
	ck_assert(strstr(report_text(verify, "parts.threads.other"), "which is not heaptap"));
	json_decref(verify);
	victim_stop(&victim);
}

HT_TEST(words_for_people)
{
	struct victim victim;
	start_target(&victim, "escape");
	char pid[16], *out, *err;
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	const char *argv[] = {run_built("heaptap"), "verify", "-p", pid, NULL, NULL};
	ck_assert_int_eq(run_program(argv, COMMAND_MS, &out, &err), 0);
	ck_assert_ptr_nonnull(strstr(out, "nothing of heaptap is in process"));
	ck_assert_str_eq(err, "");
	free(out);
	argv[4] = "--quiet";
	ck_assert_int_eq(run_program(argv, COMMAND_MS, &out, &err), 0);
	ck_assert_str_eq(out, "");
	free(out);
	struct procsnap *before = take_after_use(&victim);
	leave_tombstone(&victim);
	/* Each command that ends with 6 lists the leftovers. */
	const char *const commands[] = {"verify", "recover"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(commands); i++) {
		argv[1] = commands[i];
		ck_assert_int_eq(run_program(argv, COMMAND_MS, &out, &err), 6);
		ck_assert_ptr_nonnull(strstr(out, "next: heaptap cleanup -p "));
		free(out);
	}
	argv[1] = "cleanup";
	ck_assert_int_eq(run_program(argv, COMMAND_MS, &out, &err), 6);
	ck_assert_ptr_nonnull(strstr(out, "addresses in it"));
	ck_assert_ptr_nonnull(strstr(out, "next: heaptap cleanup -p "));
	free(out);
	procsnap_verify_but(before, victim.pid, (const char *[]){PROCSNAP_PAGE, NULL});
	victim_stop(&victim);
}

/* `heaptap COMMAND -p PID` must exit with `status`, and print all texts of `says`. */
static void check_words(const char *command, pid_t pid, int status, const char *const says[])
{
	char number[16], *out, *err;
	snprintf(number, sizeof(number), "%d", pid);
	const char *const argv[] = {run_built("heaptap"), command, "-p", number, NULL};
	ck_assert_int_eq(run_program(argv, COMMAND_MS, &out, &err), status);
	ck_assert_str_eq(err, "");
	for (; *says; says++)
		ck_assert_msg(strstr(out, *says), "\"%s\" is not in: %s", *says, out);
	free(out);
	free(err);
}

HT_TEST(words_about_a_capture)
{
	struct victim victim;
	struct tap tap;
	char daemon[64], recover[64];
	start_target(&victim, "busy");
	tap_start_changing(&tap, victim.pid, PROCSNAP_MASKS_CHANGE, NULL);
	tap_wait_on(&tap, "/busy");
	check_words("verify", victim.pid, 6,
		(const char *[]){"! mappings", "! addresses", "heaptap is working", NULL});
	snprintf(daemon, sizeof(daemon), "heaptap %d, which has ended", tap.run.pid);
	snprintf(recover, sizeof(recover), "next: heaptap recover -p %d\n", victim.pid);
	tap_abandon(&tap);
	check_words("verify", victim.pid, 6,
		(const char *[]){daemon, "The program is not in danger", recover, NULL});
	check_words("recover", victim.pid, 0,
		(const char *[]){"found: the code of heaptap", "nothing of heaptap is left", NULL});
	check_words("verify", victim.pid, 0, (const char *[]){"nothing of heaptap is in", NULL});
	check_words("recover", victim.pid, 0, (const char *[]){"there was nothing to do", NULL});
	check_words("cleanup", victim.pid, 0, (const char *[]){"there was nothing to do", NULL});
	tap_verify(&tap);
	victim_stop(&victim);
}

HT_SUITE("integration/care")
