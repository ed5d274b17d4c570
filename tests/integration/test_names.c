/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of functions in files that are not where the target's list of mappings says: deleted,
 * replaced, in memory alone, or in a mount namespace of the target's own.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/compile.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define WORK_MS 20000
#define BLOCKS	100

/* The program under test. "go" has a library allocate. `plain LIB` loads the library from its path;
 * `memfd LIB` loads a copy in a memfd; `root DIR LIB` runs `plain LIB` with its own root, mount and
 * PID namespace; `made` calls through generated code that it names in a perf map. */
static const char host_source[] =
	"#define _GNU_SOURCE\n"
	"#include <dlfcn.h>\n#include <fcntl.h>\n#include <sched.h>\n#include <stdio.h>\n"
	"#include <stdlib.h>\n#include <string.h>\n#include <sys/mman.h>\n#include <sys/mount.h>\n"
	"#include <sys/prctl.h>\n#include <sys/sendfile.h>\n#include <sys/stat.h>\n"
	"#include <sys/syscall.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
	"static void *volatile kept[100];\n"
	"__attribute__((noinline)) void made_leaf(int n)\n"
	"{ static int at; kept[at++ % 100] = malloc(n); __asm__ volatile(\"\" ::: \"memory\"); }\n"
	"static void *make_code(void) {\n"
	"  unsigned char *c = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *p = c;\n"
	"  void *f = (void *)made_leaf; char path[64];\n"
	"  memcpy(p, \"\\x55\\x48\\x89\\xe5\\x48\\xb8\", 6); memcpy(p + 6, &f, 8);\n"
	"  memcpy(p + 14, \"\\xff\\xd0\\x5d\\xc3\", 4);\n"
	"  sprintf(path, \"/tmp/perf-%d.map\", (int)getpid());\n"
	"  FILE *m = fopen(path, \"w\"); if (!m) exit(3);\n"
	"  fprintf(m, \"%lx 12 made_by_the_program\\n\", (long)c); fclose(m); return c; }\n"
	"int work_is_hooked(void *plain) { return (void *)malloc != plain; }\n"
	"static int serve(const char *path) {\n"
	"  char line[64]; void (*work)(int); int (*is_hooked)(void *) = work_is_hooked;\n"
	"  if (!strcmp(path, \"made\")) work = (void (*)(int))make_code();\n"
	"  else { void *h = dlopen(path, RTLD_NOW); if (!h) { puts(dlerror()); return 4; }\n"
	"    work = (void (*)(int))dlsym(h, \"library_work\");\n"
	"    is_hooked = (int (*)(void *))dlsym(h, \"library_is_hooked\"); }\n"
	"  if (getpid() != 1) printf(\"ready %d\\n\", (int)getpid());\n"
	"  while (fgets(line, 64, stdin)) {\n"
	"    if (!strcmp(line, \"stop\\n\")) return 0;\n"
	"    if (!strcmp(line, \"ping\\n\")) { puts(\"pong\"); continue; }\n"
	"    if (!strcmp(line, \"hooked\\n\")) {\n"
	"      puts(is_hooked(dlsym(RTLD_DEFAULT, \"malloc\")) ? \"yes\" : \"no\"); continue; }\n"
	"    for (int i = 0; i < 100; i++) work(100);\n"
	"    puts(\"done\"); }\n"
	"  return 0; }\n"
	"static int in_memory(const char *path) {\n"
	"  char copy[64]; int m = memfd_create(\"lib\", 0), f = open(path, O_RDONLY);\n"
	"  while (sendfile(m, f, 0, 1 << 20) > 0);\n"
	"  sprintf(copy, \"/proc/self/fd/%d\", m); return serve(copy); }\n"
	"static int bind_at(const char *root, const char *what) {\n"
	"  char at[4096]; snprintf(at, 4096, \"%s%s\", root, what); mkdir(at, 0755);\n"
	"  return mount(what, at, 0, MS_BIND | MS_REC, 0); }\n"
	"static int in_root(const char *root, const char *path) {\n"
	"  char at[4096];\n"
	"  if (unshare(CLONE_NEWNS | CLONE_NEWPID) || mount(0, \"/\", 0, MS_REC | MS_PRIVATE, 0) "
	"||\n"
	"    mount(root, root, 0, MS_BIND, 0)) return 5;\n"
	"  bind_at(root, \"/usr\"); bind_at(root, \"/lib\"); bind_at(root, \"/lib64\");\n"
	"  snprintf(at, 4096, \"%s/tmp\", root); mkdir(at, 0777); mount(\"tmp\", at, \"tmpfs\", 0, "
	"0);\n"
	"  snprintf(at, 4096, \"%s/old\", root); mkdir(at, 0755);\n"
	"  if (chdir(root) || syscall(SYS_pivot_root, \".\", \"old\") || chdir(\"/\") ||\n"
	"    umount2(\"/old\", MNT_DETACH)) return 6;\n"
	"  pid_t child = fork(); int status;\n"
	"  if (!child) { prctl(PR_SET_PDEATHSIG, 9); execl(\"/host\", \"host\", \"plain\", path, "
	"NULL); _exit(7); }\n"
	"  printf(\"ready %d\\n\", (int)getpid()); waitpid(child, &status, 0);\n"
	"  return WIFEXITED(status) ? WEXITSTATUS(status) : 8; }\n"
	"int main(int c, char **v) {\n"
	"  setvbuf(stdout, 0, _IOLBF, 0); setvbuf(stdin, 0, _IONBF, 0); prctl(PR_SET_PTRACER, "
	"-1);\n"
	"  if (!strcmp(v[1], \"memfd\")) return in_memory(v[2]);\n"
	"  if (!strcmp(v[1], \"root\")) return in_root(v[2], v[3]);\n"
	"  return serve(v[2]); }\n";

/* `%s`: the prefix of the functions' names. */
static const char library_source[] =
	"#include <stdlib.h>\n"
	"static void *volatile kept[100]; static int at;\n"
	"__attribute__((noinline)) static void %s_hidden(int n)\n"
	"{ kept[at++ %% 100] = malloc(n); __asm__ volatile(\"\" ::: \"memory\"); }\n"
	"int library_is_hooked(void *plain) { return (void *)malloc != plain; }\n"
	"void library_work(int n) { %s_hidden(n); __asm__ volatile(\"\" ::: \"memory\"); }\n";

static char *make_host(void)
{
	const char *const command[] = {"gcc", "-O2", "-g", "-fno-plt", "-fPIE", "-pie", NULL};
	char *host = compile(command, host_source, NULL);
	ck_assert_ptr_nonnull(host);
	return host;
}

static char *make_library(const char *prefix, const char *build_id)
{
	char source[1024];
	const char *const command[] = {
		"gcc", "-O2", "-g", "-fno-plt", "-shared", "-fPIC", build_id, NULL};
	snprintf(source, sizeof(source), library_source, prefix, prefix);
	char *library = compile(command, source, NULL);
	ck_assert_ptr_nonnull(library);
	return library;
}

static void copy_file(const char *from, const char *to)
{
	struct stat status;
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	ck_assert_int_eq(fstat(in, &status), 0);
	ck_assert_int_eq(sendfile(out, in, NULL, (size_t)status.st_size), status.st_size);
	close(in);
	close(out);
}

/* The child of the victim, which does the work in a PID namespace. */
static pid_t worker_of(pid_t victim)
{
	char path[64];
	int child = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", victim, victim);
	FILE *file = fopen(path, "re");
	ck_assert_int_eq(fscanf(file, "%d", &child), 1);
	fclose(file);
	return child;
}

/* Has heaptap changed the slot through which the working code calls malloc? */
static bool is_hooked(struct victim *victim)
{
	HT_FREED char *line = victim_ask(victim, "hooked", WORK_MS);
	bool hooked = !strcmp(line, "yes");
	return hooked;
}

static json_t *record(struct victim *victim, pid_t target)
{
	struct tap tap;
	tap_start(&tap, target, NULL);
	run_until(is_hooked(victim), WORK_MS);
	char *line = victim_ask(victim, "go", WORK_MS);
	ck_assert_str_eq(line, "done");
	free(line);
	json_auto_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	return report_load(tap.trace);
}

/* All blocks must have stacks that begin with these functions. */
static void check_chain(const json_t *report, const char *const function[], size_t count)
{
	uint64_t blocks = 0;
	size_t index;
	json_t *stack;
	json_array_foreach(report_at(report, "stacks"), index, stack)
	{
		for (size_t i = 0; i < count; i++) {
			json_t *frame = json_array_get(json_object_get(stack, "frames"), i);
			const char *name = json_string_value(json_object_get(frame, "function"));
			ck_assert_msg(name && !strcmp(name, function[i]), "%s, not %s",
				name ? name : "(no name)", function[i]);
		}
		blocks += report_u64(stack, "allocations");
	}
	ck_assert_uint_eq(blocks, BLOCKS);
}

static const char *const chain[] = {"right_hidden", "library_work", "serve"};

enum fate { KEPT, DELETED, REPLACED, COPIED, IN_MEMORY };

static void check_fate(enum fate fate, const char *build_id)
{
	struct victim victim;
	char *host = make_host(), *library = make_library("right", build_id);
	HT_FREED char *other =
		fate == COPIED ? tmpdir_path("copy") : make_library("wrong", build_id);
	if (fate == COPIED)
		copy_file(library, other);
	victim_start(&victim,
		(const char *[]){host, fate == IN_MEMORY ? "memfd" : "plain", library, NULL});
	if (fate == DELETED)
		ck_assert_int_eq(unlink(library), 0);
	if (fate == REPLACED || fate == COPIED)
		ck_assert_int_eq(rename(other, library), 0);
	json_t *report = record(&victim, victim.pid);
	check_chain(report, chain, HT_ARRAY_SIZE(chain));
	json_decref(report);
	victim_stop(&victim);
	free(host);
	free(library);
}

static void check_fates(enum fate fate)
{
	if (geteuid() != 0 && fate != KEPT) {
		printf("skipped: names: only root reaches files without a name\n");
		return;
	}
	check_fate(fate, "-Wl,--build-id");
	check_fate(fate, "-Wl,--build-id=none");
}

HT_TEST(names_of_an_existing_library)
{
	check_fates(KEPT);
}

HT_TEST(names_of_a_deleted_library)
{
	check_fates(DELETED);
}

HT_TEST(names_of_a_replaced_library)
{
	check_fates(REPLACED);
	check_fates(COPIED);
}

HT_TEST(names_of_a_library_in_memory)
{
	check_fates(IN_MEMORY);
}

/* A directory that becomes the root of a target, with its program and this library. */
static char *make_root(const char *library)
{
	char *root = files_directory(), *host = make_host();
	char *at_host = files_path(root, "host"), *at_library = files_path(root, "right.so");
	copy_file(host, at_host);
	if (library)
		copy_file(library, at_library);
	free(host);
	free(at_host);
	free(at_library);
	return root;
}

static bool is_root(void)
{
	if (geteuid() == 0)
		return true;
	printf("skipped: names: needs root for namespaces of the target's own\n");
	return false;
}

HT_TEST(names_in_the_targets_own_root)
{
	if (!is_root())
		return;
	struct victim victim;
	char *host = make_host(), *library = make_library("right", "-Wl,--build-id");
	HT_FREED char *root = make_root(library);
	victim_start(&victim, (const char *[]){host, "root", root, "/right.so", NULL});
	victim_prove_alive(&victim);
	json_t *report = record(&victim, worker_of(victim.pid));
	check_chain(report, chain, HT_ARRAY_SIZE(chain));
	json_decref(report);
	victim_stop(&victim);
	free(host);
	free(library);
}

HT_TEST(names_of_jit_code_in_a_pid_namespace)
{
	static const char *const made[] = {"made_leaf", "made_by_the_program", "serve"};
	if (!is_root())
		return;
	struct victim victim;
	char *host = make_host(), *root = make_root(NULL);
	victim_start(&victim, (const char *[]){host, "root", root, "made", NULL});
	victim_prove_alive(&victim);
	json_t *report = record(&victim, worker_of(victim.pid));
	check_chain(report, made, HT_ARRAY_SIZE(made));
	json_decref(report);
	victim_stop(&victim);
	free(host);
	free(root);
}

HT_SUITE("integration/names")
