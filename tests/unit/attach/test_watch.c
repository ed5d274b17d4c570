/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/watch.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/daemonstage.h"
#include "tests/support/ht_check.h"

#define MS	   1000000u
#define STACK	   (256u << 10)
#define MAPS_BYTES 1024u /* the list of mappings has more; a look without it reads less */

/* This process as the target, with a thread whose control block lies in the program's own data. */
struct scene {
	struct stage stage;
	struct agent agent;
	struct survey survey;
	struct watch *watch;
	pthread_t thread;
	pthread_barrier_t barrier;
};

static _Alignas(64) uint64_t control_block[8] = {1};

static void *wait_for_end(void *context)
{
	struct scene *scene = context;
	scene->agent.slot->head.tid = (uint32_t)gettid();
	pthread_barrier_wait(&scene->barrier);
	pthread_barrier_wait(&scene->barrier);
	return NULL;
}

/* The thread's stack has `bytes` bytes from `stack` on; NULL: the C library chooses a stack. */
static void scene_init_at(struct scene *scene, void *stack, size_t bytes)
{
	pthread_attr_t attr;
	ck_assert_int_eq(pthread_attr_init(&attr), 0);
	if (stack)
		ck_assert_int_eq(pthread_attr_setstack(&attr, stack, bytes), 0);
	*scene = (struct scene){0};
	stage_init(&scene->stage);
	agent_init(&scene->agent, &scene->stage, 0, (uintptr_t)control_block);
	ck_no_err(proc_open(getpid(), &scene->survey.proc));
	ck_no_err(proc_open_mem(&scene->survey.proc));
	scene->survey.status.ns_tid = getpid();
	ck_assert_int_eq(pthread_barrier_init(&scene->barrier, NULL, 2), 0);
	ck_assert_int_eq(pthread_create(&scene->thread, &attr, wait_for_end, scene), 0);
	pthread_attr_destroy(&attr);
	pthread_barrier_wait(&scene->barrier);
	ck_no_err(watch_create(&(struct watch_options){.survey = &scene->survey,
				       .receiver = scene->stage.receiver,
				       .sink = scene->stage.sink},
		&scene->watch));
}

static void scene_init(struct scene *scene)
{
	scene_init_at(scene, NULL, 0);
}

static void scene_deinit(struct scene *scene)
{
	pthread_barrier_wait(&scene->barrier);
	ck_assert_int_eq(pthread_join(scene->thread, NULL), 0);
	pthread_barrier_destroy(&scene->barrier);
	watch_destroy(scene->watch);
	proc_close(&scene->survey.proc);
	agent_deinit(&scene->agent);
	stage_deinit(&scene->stage);
}

/* Returns how many bytes this process has read so far. */
static uint64_t read_bytes(void)
{
	unsigned long bytes;
	FILE *io = fopen("/proc/self/io", "re");
	ck_assert_ptr_nonnull(io);
	ck_assert_int_eq(fscanf(io, "rchar: %lu", &bytes), 1);
	fclose(io);
	return bytes;
}

static uint64_t bytes_of_look_with(struct scene *scene, uint64_t now_ns, uint64_t stack_kib)
{
	uint64_t before = read_bytes();
	ck_no_err(watch_threads(scene->watch, now_ns, stack_kib));
	return read_bytes() - before;
}

static uint64_t bytes_of_look(struct scene *scene, uint64_t now_ns)
{
	return bytes_of_look_with(scene, now_ns, 132);
}

HT_TEST(searches_rarely_for_threads_on_unknown_stacks)
{
	struct scene scene;
	scene_init(&scene);
	const uint64_t start = 1000 * MS;
	ck_assert_uint_gt(bytes_of_look(&scene, start), MAPS_BYTES);
	for (uint64_t at = 5; at < 250; at += 5)
		ck_assert_uint_lt(bytes_of_look(&scene, start + at * MS), MAPS_BYTES);
	/* The look at 255 ms searches for ended threads, and reads as much as the list is. */
	ck_no_err(watch_threads(scene.watch, start + 255 * MS, 132));
	for (uint64_t at = 260; at < 500; at += 5)
		ck_assert_uint_lt(bytes_of_look(&scene, start + at * MS), MAPS_BYTES);
	ck_assert_uint_gt(bytes_of_look(&scene, start + 500 * MS), MAPS_BYTES);
	ck_assert_uint_eq(scene.agent.slot->head.stack_hi, 0);
	/* Another thread is looked for at once. */
	scene.agent.slot->head.incarnation += 2;
	stage_store(&scene.agent.slot->head.key, (uint64_t)scene.thread & ~UINT64_C(15));
	ck_no_err(watch_threads(scene.watch, start + 504 * MS, 132));
	ck_assert_uint_ne(scene.agent.slot->head.stack_hi, 0);
	scene_deinit(&scene);
}

HT_TEST(a_stack_is_found_and_not_looked_for_again)
{
	struct scene scene;
	scene_init(&scene);
	const uint64_t start = 1000 * MS;
	stage_store(&scene.agent.slot->head.key, (uint64_t)scene.thread & ~UINT64_C(15));
	ck_assert_uint_gt(bytes_of_look(&scene, start), MAPS_BYTES);
	ck_assert_uint_eq(scene.agent.slot->head.stack_hi, (uint64_t)scene.thread & ~UINT64_C(15));
	ck_assert_uint_lt(bytes_of_look(&scene, start + 5 * MS), MAPS_BYTES);
	ck_assert_uint_lt(bytes_of_look(&scene, start + 60 * MS), MAPS_BYTES);
	scene_deinit(&scene);
}

/* The stack does not begin where the program's argument strings end: these may be megabytes. */
HT_TEST(the_main_threads_stack_begins_at_its_program)
{
	struct scene scene;
	uint64_t random = getauxval(AT_RANDOM);
	scene_init(&scene);
	stage_store(&scene.agent.slot->head.tid, (uint32_t)getpid());
	ck_no_err(watch_threads(scene.watch, 1000 * MS, 0));
	ck_assert_uint_lt(scene.agent.slot->head.stack_lo, (uintptr_t)&scene);
	ck_assert_uint_gt(scene.agent.slot->head.stack_hi, random);
	ck_assert_uint_le(scene.agent.slot->head.stack_hi, random + HT_PAGE_BYTES);
	scene_deinit(&scene);
}

HT_TEST(the_main_threads_stack_is_looked_for_when_it_has_grown)
{
	struct scene scene;
	scene_init(&scene);
	stage_store(&scene.agent.slot->head.tid, (uint32_t)getpid());
	const uint64_t start = 1000 * MS;
	ck_assert_uint_gt(bytes_of_look_with(&scene, start, 132), MAPS_BYTES);
	ck_assert_uint_lt(bytes_of_look_with(&scene, start + 60 * MS, 132), MAPS_BYTES);
	ck_assert_uint_gt(bytes_of_look_with(&scene, start + 70 * MS, 136), MAPS_BYTES);
	/* A stack that grows all the time is not looked for at each look. */
	ck_assert_uint_lt(bytes_of_look_with(&scene, start + 75 * MS, 140), MAPS_BYTES);
	ck_assert_uint_gt(bytes_of_look_with(&scene, start + 120 * MS, 140), MAPS_BYTES);
	ck_assert_uint_lt(bytes_of_look_with(&scene, start + 180 * MS, 140), MAPS_BYTES);
	/* If the stack's size is not known (0), the stack may have grown. */
	ck_assert_uint_gt(bytes_of_look_with(&scene, start + 185 * MS, 0), MAPS_BYTES);
	ck_assert_uint_gt(bytes_of_look_with(&scene, start + 240 * MS, 0), MAPS_BYTES);
	scene_deinit(&scene);
}

/* Returns where the main thread's stack begins, by this process's list of mappings. */
static uint64_t stack_begin(void)
{
	char line[4400];
	uint64_t lo = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps) &&
		!(strstr(line, "[stack]") && sscanf(line, "%lx", &lo) == 1))
		;
	fclose(maps);
	return lo;
}

/* A recursion can make the stack larger before the next look, so the bounds include 1 MiB below the
 * stack, but no other mapping there. */
HT_TEST(the_main_threads_stack_may_grow_between_two_looks)
{
	struct scene scene;
	scene_init(&scene);
	stage_store(&scene.agent.slot->head.tid, (uint32_t)getpid());
	ck_no_err(watch_threads(scene.watch, 1000 * MS, 0));
	uint64_t lo = stack_begin(), gap = 1u << 20;
	ck_assert_uint_eq(scene.agent.slot->head.stack_lo, lo - gap);
	void *below = mmap((void *)(lo - gap), HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ck_assert_ptr_ne(below, MAP_FAILED);
	ck_no_err(watch_threads(scene.watch, 2000 * MS, 0));
	ck_assert_uint_eq(scene.agent.slot->head.stack_lo, lo);
	munmap(below, HT_PAGE_BYTES);
	scene_deinit(&scene);
}

/* The list that is read for another thread shows the main thread's stack, too. */
HT_TEST(the_main_threads_stack_is_looked_for_beside_another)
{
	struct scene scene;
	struct agent other;
	scene_init(&scene);
	agent_init(&other, &scene.stage, 1, (uintptr_t)control_block);
	struct abi_slot_head *head = &scene.agent.slot->head;
	other.slot->head.tid = head->tid;
	stage_store(&head->tid, (uint32_t)getpid());
	ck_no_err(watch_threads(scene.watch, 1000 * MS, 132));
	uint64_t lo = head->stack_lo;
	ck_assert_uint_ne(lo, 0);
	head->stack_lo = lo + 1;
	ck_no_err(watch_threads(scene.watch, 1010 * MS, 136));
	ck_assert_uint_eq(head->stack_lo, lo + 1);
	other.slot->head.incarnation += 2;
	ck_no_err(watch_threads(scene.watch, 1020 * MS, 136));
	ck_assert_uint_eq(head->stack_lo, lo);
	agent_deinit(&other);
	scene_deinit(&scene);
}

/* Other stacks in the mapping may be unmapped while this one is in use. */
HT_TEST(other_stacks_in_its_mapping_are_not_its_own)
{
	struct scene scene;
	char *area =
		mmap(NULL, 3 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(area, MAP_FAILED);
	scene_init_at(&scene, area + STACK, STACK);
	stage_store(&scene.agent.slot->head.key, (uint64_t)scene.thread & ~UINT64_C(15));
	ck_no_err(watch_threads(scene.watch, 1000 * MS, 0));
	ck_assert_uint_eq(scene.agent.slot->head.stack_lo, (uint64_t)area + STACK);
	ck_assert_uint_eq(scene.agent.slot->head.stack_hi, (uint64_t)scene.thread & ~UINT64_C(15));
	scene_deinit(&scene);
	munmap(area, 3 * STACK);
}

/* Such a stack has bounds like any other: reserved memory costs nothing. */
HT_TEST(a_stack_of_gigabytes_has_bounds)
{
	static const size_t sizes[] = {(1ul << 30) - 4096, 1ul << 30, 8ul << 30};
	for (size_t i = 0; i < HT_ARRAY_SIZE(sizes); i++) {
		struct scene scene;
		char *area = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		ck_assert_ptr_ne(area, MAP_FAILED);
		scene_init_at(&scene, area, sizes[i]);
		uint64_t pointer = (uint64_t)scene.thread & ~UINT64_C(15);
		stage_store(&scene.agent.slot->head.key, pointer);
		ck_no_err(watch_threads(scene.watch, 1000 * MS, 0));
		ck_assert_uint_eq(scene.agent.slot->head.stack_lo, (uint64_t)area);
		ck_assert_uint_eq(scene.agent.slot->head.stack_hi, pointer);
		scene_deinit(&scene);
		munmap(area, sizes[i]);
	}
}

HT_SUITE("attach/watch")
