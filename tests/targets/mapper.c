/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts what it maps, page by page. `go` runs one phase: every worker performs a seeded mix of
 * mmap, munmap, mremap, mprotect and madvise, also calls that fail, checks results and errno, and
 * hands regions to other workers; the answer is one JSON line: what the phase did, and which of its
 * mappings are left. Phases never call the allocator.
 *
 * usage: mapper [-t THREADS] [-n OPERATIONS] [-o]
 *
 * -o performs one phase at once, and ends.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/targets/speak.h"

#define THREADS_MAX 16
#define REGIONS	    24
#define PAGES	    48
#define PAGE	    4096u
#define MARK	    4711 /* errno before every call */
#define NOINLINE    __attribute__((noinline))

enum state { GONE, USABLE, RESERVED };

/* The call that mapped a page or made it accessible. */
enum owner { BY_ANON, BY_FILE, BY_OVER, BY_NONE, BY_MOVE, BY_PROTECT, OWNERS };

static const char *const owner_name[OWNERS] = {
	"map_anon", "map_file", "map_over", "map_none", "move", "protect"};

struct page {
	uint8_t state;
	uint8_t owner, map_owner; /* the calls that made it accessible, and mapped it */
	unsigned mapped, used; /* phase of the mapping; used: phase in which it became accessible */
	bool file;
};

struct region {
	char *at;
	unsigned pages;
	bool whole; /* still one unchanged mapping */
	struct page page[PAGES];
};

struct books {
	uint64_t maps, unmaps, remaps, protects, advices;
	uint64_t made, before, advised;
	uint64_t live, peak; /* exact only with a single worker */
};

struct worker {
	pthread_t thread;
	unsigned seed;
	struct books books;
	struct region region[REGIONS];
};

static struct worker worker[THREADS_MAX];
static struct region mailbox;
static pthread_mutex_t mailbox_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static unsigned threads = 1, operations = 2000, phase;
static int file;

static unsigned pick(struct worker *w, unsigned limit)
{
	w->seed = w->seed * 1103515245 + 12345;
	return (w->seed >> 16) % limit;
}

static void check(bool right, const char *what)
{
	if (!right)
		speak_fail("%s: errno %d", what, errno);
}

/* Counts that the page is unmapped or inaccessible now. */
static void gone(struct worker *w, struct page *page)
{
	if (page->state == USABLE && page->used == phase)
		w->books.live -= PAGE;
	else if (page->state == USABLE)
		w->books.before += PAGE;
	page->state = GONE;
}

static void is_now(
	struct worker *w, struct page *page, enum state state, enum owner owner, bool of_file)
{
	*page = (struct page){.state = state,
		.owner = owner,
		.map_owner = owner,
		.mapped = phase,
		.used = phase,
		.file = of_file};
	if (state != USABLE)
		return;
	w->books.made += PAGE;
	w->books.live += PAGE;
}

static void note_peak(struct worker *w)
{
	if (w->books.live > w->books.peak)
		w->books.peak = w->books.live;
}

static void map_region(struct worker *w, struct region *r, enum owner owner, char *at)
{
	check(at != MAP_FAILED && errno == MARK, owner_name[owner]);
	r->at = at;
	r->whole = true;
	for (unsigned i = 0; i < r->pages; i++)
		is_now(w, &r->page[i], owner == BY_NONE ? RESERVED : USABLE, owner,
			owner == BY_FILE);
	w->books.maps++;
}

NOINLINE static void map_anon(struct worker *w, struct region *r)
{
	char *at = mmap(NULL, r->pages * PAGE - pick(w, PAGE), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	map_region(w, r, BY_ANON, at);
	memset(at, 1, r->pages * PAGE);
}

NOINLINE static void map_file(struct worker *w, struct region *r)
{
	map_region(w, r, BY_FILE, mmap(NULL, r->pages * PAGE, PROT_READ, MAP_PRIVATE, file, PAGE));
}

NOINLINE static void map_none(struct worker *w, struct region *r)
{
	map_region(w, r, BY_NONE,
		mmap(NULL, r->pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

/* Picks a random run of pages of the region that are all mapped. Returns their number; 0: none. */
static unsigned some_pages(struct worker *w, const struct region *r, unsigned *ret_first)
{
	unsigned first = pick(w, r->pages), count = 0, wanted = 1 + pick(w, r->pages);
	while (first + count < r->pages && count < wanted && r->page[first + count].state != GONE)
		count++;
	*ret_first = first;
	return count;
}

NOINLINE static void map_over(struct worker *w, struct region *r, unsigned first, unsigned count)
{
	char *at = mmap(r->at + first * PAGE, count * PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	check(at == r->at + first * PAGE && errno == MARK, "map_over");
	for (unsigned i = first; i < first + count; i++) {
		gone(w, &r->page[i]);
		is_now(w, &r->page[i], USABLE, BY_OVER, false);
	}
	w->books.maps++;
}

NOINLINE static void unmap(struct worker *w, struct region *r, unsigned first, unsigned count)
{
	check(munmap(r->at + first * PAGE, count * PAGE) == 0 && errno == MARK, "munmap");
	for (unsigned i = first; i < first + count; i++)
		gone(w, &r->page[i]);
	w->books.unmaps++;
}

NOINLINE static void protect(
	struct worker *w, struct region *r, unsigned first, unsigned count, int how)
{
	check(mprotect(r->at + first * PAGE, count * PAGE, how) == 0 && errno == MARK, "mprotect");
	w->books.protects++;
	for (unsigned i = first; i < first + count; i++) {
		struct page *page = &r->page[i];
		if (how == PROT_NONE) {
			gone(w, page);
			page->state = RESERVED;
		} else if (page->state == RESERVED) {
			page->state = USABLE;
			page->owner = BY_PROTECT;
			page->used = phase;
			w->books.made += PAGE;
			w->books.live += PAGE;
		}
	}
}

NOINLINE static void move(struct worker *w, struct region *r)
{
	unsigned pages = 1 + pick(w, PAGES);
	enum state state = r->page[0].state;
	bool of_file = r->page[0].file;
	char *at = mremap(r->at, r->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE);
	check(at != MAP_FAILED && errno == MARK, "mremap");
	for (unsigned i = 0; i < r->pages; i++)
		gone(w, &r->page[i]);
	r->at = at;
	r->pages = pages;
	for (unsigned i = 0; i < pages; i++)
		is_now(w, &r->page[i], state, BY_MOVE, of_file);
	w->books.remaps++;
}

static void advise(struct worker *w, struct region *r, unsigned first, unsigned count)
{
	/* MADV_NORMAL frees nothing and is not counted. */
	check(madvise(r->at + first * PAGE, count * PAGE, MADV_NORMAL) == 0, "madvise");
	check(madvise(r->at + first * PAGE, count * PAGE, MADV_DONTNEED) == 0 && errno == MARK,
		"madvise");
	w->books.advices++;
	w->books.advised += count * PAGE;
}

/* Calls that must fail or have no effect. */
static void fail(struct region *r)
{
	check(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
			errno == EINVAL,
		"mmap of nothing");
	check(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0) == MAP_FAILED && errno == EBADF,
		"mmap of no file");
	check(munmap(r->at + 1, PAGE) == -1 && errno == EINVAL, "munmap of half a page");
	check(mremap(r->at + 1, PAGE, PAGE, 0) == MAP_FAILED && errno == EINVAL,
		"mremap of half a page");
	check(mprotect(r->at + 1, PAGE, PROT_NONE) == -1 && errno == EINVAL,
		"mprotect of half a page");
	check(madvise(r->at + 1, PAGE, MADV_DONTNEED) == -1 && errno == EINVAL,
		"madvise of half a page");
}

static bool is_empty(const struct region *r)
{
	for (unsigned i = 0; i < r->pages; i++)
		if (r->page[i].state != GONE)
			return false;
	return true;
}

static void swap_with_another(struct region *r)
{
	static struct region other;
	pthread_mutex_lock(&mailbox_lock);
	other = mailbox;
	mailbox = *r;
	*r = other;
	pthread_mutex_unlock(&mailbox_lock);
}

static void operate_on(struct worker *w, struct region *r)
{
	unsigned first, count = some_pages(w, r, &first), what = pick(w, 16);
	if (what == 0) {
		fail(r);
	} else if (what == 1 && threads > 1) {
		swap_with_another(r);
	} else if (what < 5 && r->whole) {
		move(w, r);
	} else if (count) {
		r->whole = false;
		if (what < 8)
			unmap(w, r, first, count);
		else if (what < 10)
			map_over(w, r, first, count);
		else if (what < 14)
			protect(w, r, first, count,
				pick(w, 3) ? PROT_READ << pick(w, 2) : PROT_NONE);
		else
			advise(w, r, first, count);
	}
}

static void operate(struct worker *w)
{
	struct region *r = &w->region[pick(w, REGIONS)];
	errno = MARK;
	if (!is_empty(r)) {
		operate_on(w, r);
	} else {
		unsigned what = pick(w, 3);
		memset(r, 0, sizeof(*r));
		r->pages = 1 + pick(w, PAGES);
		(what == 0 ? map_anon : what == 1 ? map_file : map_none)(w, r);
	}
	note_peak(w);
}

static void *work(void *argument)
{
	struct worker *w = argument;
	for (;;) {
		pthread_barrier_wait(&barrier);
		for (unsigned i = 0; i < operations; i++)
			operate(w);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

struct left {
	uint64_t anonymous, file, reserved;
};

static void add_region(const struct region *r, struct left *total, struct left by_owner[OWNERS])
{
	for (unsigned i = 0; i < r->pages; i++) {
		const struct page *page = &r->page[i];
		struct left *owner = &by_owner[page->owner];
		if (page->state == USABLE && page->used == phase) {
			*(page->file ? &total->file : &total->anonymous) += PAGE;
			*(page->file ? &owner->file : &owner->anonymous) += PAGE;
		} else if (page->state == RESERVED && page->mapped == phase) {
			total->reserved += PAGE;
			by_owner[page->map_owner].reserved += PAGE;
		}
	}
}

static void add_left(const char *name, const struct left *left)
{
	speak_add("\"%s\":{\"anonymous_bytes\":%lu,\"file_bytes\":%lu,\"reserved_bytes\":%lu}",
		name, left->anonymous, left->file, left->reserved);
}

static void answer(void)
{
	struct books sum = {0};
	struct left total = {0}, by_owner[OWNERS] = {{0}};
	for (unsigned i = 0; i < threads; i++) {
		const struct books *books = &worker[i].books;
		sum.maps += books->maps;
		sum.unmaps += books->unmaps;
		sum.remaps += books->remaps;
		sum.protects += books->protects;
		sum.advices += books->advices;
		sum.made += books->made;
		sum.before += books->before;
		sum.advised += books->advised;
		sum.peak += books->peak;
		for (unsigned j = 0; j < REGIONS; j++)
			add_region(&worker[i].region[j], &total, by_owner);
	}
	add_region(&mailbox, &total, by_owner);
	speak_add(
		"{\"maps\":%lu,\"unmaps\":%lu,\"remaps\":%lu,\"protects\":%lu,\"advices\":%lu,"
		"\"made_bytes\":%lu,\"before_bytes\":%lu,\"advised_bytes\":%lu,\"peak_bytes\":%lu,",
		sum.maps, sum.unmaps, sum.remaps, sum.protects, sum.advices, sum.made, sum.before,
		sum.advised, sum.peak);
	add_left("left", &total);
	speak_add(",\"owners\":{");
	for (unsigned i = 0; i < OWNERS; i++) {
		add_left(owner_name[i], &by_owner[i]);
		speak_add(i + 1 < OWNERS ? "," : "}}");
	}
	speak_send();
}

static void go(void)
{
	phase++;
	for (unsigned i = 0; i < threads; i++)
		memset(&worker[i].books, 0, sizeof(worker[i].books));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	answer();
}

int main(int argc, char **argv)
{
	unsigned once = 0;
	for (int option; (option = getopt(argc, argv, "t:n:o")) != -1;)
		*(option == 't'		? &threads
			: option == 'n' ? &operations
					: &once) = optarg ? (unsigned)atoi(optarg) : 1;
	file = memfd_create("mapped", MFD_CLOEXEC);
	if (threads > THREADS_MAX || file < 0 || ftruncate(file, 2 * PAGES * PAGE) < 0)
		return 2;
	pthread_barrier_init(&barrier, NULL, threads + 1);
	for (unsigned i = 0; i < threads; i++) {
		worker[i].seed = i + 1;
		pthread_create(&worker[i].thread, NULL, work, &worker[i]);
	}
	if (once) {
		go();
		_exit(0);
	}
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");)
		go();
	_exit(0);
}
