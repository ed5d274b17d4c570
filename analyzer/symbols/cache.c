/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/container.h"
#include "format/whole.h"

#define NAME_BYTES    (2 * TRACE_BUILD_ID_MAX + 16)
#define PART_PREFIX   ".part-"
#define MODULE_NUMBER 1u /* an arbitrary module number in the records */

struct identity {
	uint64_t device, inode, bytes, changed_ns;
};

struct header {
	char magic[8];
	char version[24];
	struct identity identity[2]; /* `[0]`: of the module's file; `[1]`: of its debug file */
	uint64_t state, bytes;	     /* of the records that follow */
	uint32_t crc;		     /* of the fields above and of the records */
	uint32_t zero;
};

/* --- the directory -----------------------------------------------------------------------------
 */

static int open_base(void)
{
	const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char path[4096];
	if (base && base[0] == '/') {
		mkdir(base, 0700);
		return open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (!home || home[0] != '/' ||
		snprintf(path, sizeof(path), "%s/.cache", home) >= (int)sizeof(path))
		return -1;
	mkdir(path, 0700);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Opens a directory, made if it is missing, in `parent`, which is closed. */
static int open_below(int parent, const char *name)
{
	if (parent < 0)
		return -1;
	mkdirat(parent, name, 0700);
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	close(parent);
	return fd;
}

void cache_open(struct cache *cache)
{
	struct stat status;
	*cache = (struct cache){.most = CACHE_BYTES_MAX};
	cache->directory = open_below(open_below(open_base(), "heaptap"), "symbols");
	if (cache->directory >= 0 && fstat(cache->directory, &status) == 0 &&
		status.st_uid == geteuid() && !(status.st_mode & 077))
		return;
	cache_close(cache);
}

void cache_close(struct cache *cache)
{
	if (cache->directory >= 0)
		close(cache->directory);
	cache->directory = -1;
}

/* --- names -------------------------------------------------------------------------------------
 */

void cache_names_deinit(struct cache_names *names)
{
	bytes_out_deinit(&names->records);
	map_deinit(&names->by_offset);
	*names = (struct cache_names){0};
}

bool cache_find(const struct cache_names *names, uint64_t offset, struct rec_symbol *ret)
{
	uint32_t at;
	struct rec rec;
	if (!map_get(&names->by_offset, offset, &at))
		return false;
	struct bytes in = bytes_of(names->records.data + at, names->records.length - at);
	if (ht_err_drop(rec_decode(&in, &rec)))
		return false;
	*ret = rec.symbol;
	return true;
}

struct ht_err *cache_add(struct cache_names *names, uint64_t offset, const struct rec_frame *frame,
	uint64_t frame_count)
{
	const size_t at = names->records.length;
	uint32_t there;
	struct rec rec = {.kind = REC_SYMBOL,
		.symbol = {
			.module_id = MODULE_NUMBER, .offset = offset, .frame_count = frame_count}};
	if (map_get(&names->by_offset, offset, &there) ||
		at > CACHE_FILE_BYTES_MAX - TRACE_RECORD_MAX)
		return NULL;
	if (frame_count)
		memcpy(rec.symbol.frame, frame, frame_count * sizeof(*frame));
	HT_TRY(rec_encode(&names->records, &rec));
	return map_put(&names->by_offset, offset, (uint32_t)at);
}

/* --- files -------------------------------------------------------------------------------------
 */

static struct identity identity_of(const struct elf_file *file)
{
	struct stat status;
	if (file->fd < 0 || fstat(file->fd, &status) != 0)
		return (struct identity){0};
	return (struct identity){status.st_dev, status.st_ino, (uint64_t)status.st_size,
		(uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec};
}

static struct header make_header(const struct elf_file *file, const struct elf_file *debug)
{
	struct header header;
	memset(&header, 0, sizeof(header));
	memcpy(header.magic, "HTSYMS1", sizeof(header.magic));
	snprintf(header.version, sizeof(header.version), "%s", HEAPTAP_VERSION);
	header.identity[0] = identity_of(file);
	header.identity[1] = identity_of(debug);
	return header;
}

static uint32_t crc_of(const struct header *header, const struct bytes_out *records)
{
	const uint32_t crc = trace_crc32(0, header, offsetof(struct header, crc));
	return trace_crc32(crc, records->data, records->length);
}

static bool read_all(int fd, void *ret, size_t bytes)
{
	return whole_read(fd, ret, bytes) == (ssize_t)bytes;
}

/* Indexes the records; false if they are malformed. */
static bool index_records(struct cache_names *names)
{
	struct bytes in = bytes_of(names->records.data, names->records.length);
	struct rec rec;
	while (bytes_left(&in)) {
		const uint32_t at = (uint32_t)(in.at - names->records.data);
		if (ht_err_drop(rec_decode(&in, &rec)) || rec.kind != REC_SYMBOL ||
			ht_err_drop(map_put(&names->by_offset, rec.symbol.offset, at)))
			return false;
	}
	return true;
}

static bool read_names(int fd, const struct header *want, struct cache_names *names)
{
	struct header header;
	if (!read_all(fd, &header, sizeof(header)) || header.bytes > CACHE_FILE_BYTES_MAX ||
		memcmp(&header, want, offsetof(struct header, state)) != 0)
		return false;
	if (ht_err_drop(bytes_out_reserve(&names->records, header.bytes + 1)))
		return false;
	names->records.length = names->kept = header.bytes;
	names->state = header.state;
	return read_all(fd, names->records.data, header.bytes) &&
	       crc_of(&header, &names->records) == header.crc && index_records(names);
}

void cache_load(const struct cache *cache, const char *build_id, const struct elf_file *file,
	const struct elf_file *debug, struct cache_names *ret)
{
	const struct header want = make_header(file, debug);
	struct stat status;
	*ret = (struct cache_names){0};
	if (cache->directory < 0 || !*build_id)
		return;
	int fd = openat(cache->directory, build_id,
		O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return;
	const bool is_ours =
		fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
	if (!is_ours || !read_names(fd, &want, ret))
		cache_names_deinit(ret);
	else /* Marks the file as just used. */
		futimens(fd, NULL);
	close(fd);
}

/* --- bounds ------------------------------------------------------------------------------------
 */

struct entry {
	char name[NAME_BYTES];
	uint64_t bytes;
	struct timespec used;
};

static int compare_use(const void *a, const void *b)
{
	const struct timespec *x = &((const struct entry *)a)->used;
	const struct timespec *y = &((const struct entry *)b)->used;
	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static void read_entries(DIR *directory, struct entry **entry, size_t *count)
{
	struct dirent *found;
	struct stat status;
	while ((found = readdir(directory))) {
		if (strlen(found->d_name) >= NAME_BYTES ||
			fstatat(dirfd(directory), found->d_name, &status, AT_SYMLINK_NOFOLLOW) !=
				0 ||
			!S_ISREG(status.st_mode))
			continue;
		struct entry *more = reallocarray(*entry, *count + 1, sizeof(*more));
		if (!more)
			return;
		*entry = more;
		more += (*count)++;
		*more = (struct entry){.bytes = (uint64_t)status.st_size, .used = status.st_mtim};
		snprintf(more->name, sizeof(more->name), "%s", found->d_name);
	}
}

static void prune(const struct cache *cache)
{
	struct entry *entry = NULL;
	size_t count = 0;
	uint64_t all = 0;
	/* Opens the directory again, because reading moves the position of an open file
	 * description. */
	int fd = openat(cache->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	if (!directory) {
		if (fd >= 0)
			close(fd);
		return;
	}
	read_entries(directory, &entry, &count);
	closedir(directory);
	for (size_t i = 0; i < count; i++)
		all += entry[i].bytes;
	if (all > cache->most)
		qsort(entry, count, sizeof(*entry), compare_use);
	for (size_t i = 0; i < count && all > cache->most; i++) {
		unlinkat(cache->directory, entry[i].name, 0);
		all -= entry[i].bytes;
	}
	free(entry);
}

void cache_store(const struct cache *cache, const char *build_id, const struct elf_file *file,
	const struct elf_file *debug, const struct cache_names *names)
{
	struct header header = make_header(file, debug);
	char part[64];
	/* In other states a file was missing, which may exist the next time. */
	const bool lasts = names->state == REC_NAMES_WHOLE ||
			   names->state == REC_NAMES_NO_SYMBOLS ||
			   names->state == REC_NAMES_STRIPPED;
	if (cache->directory < 0 || !*build_id || strchr(build_id, '/') || !lasts ||
		names->records.length == names->kept)
		return;
	header.state = names->state;
	header.bytes = names->records.length;
	header.crc = crc_of(&header, &names->records);
	snprintf(part, sizeof(part), PART_PREFIX "%d", (int)getpid());
	unlinkat(cache->directory, part, 0);
	int fd = openat(
		cache->directory, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	const bool is_whole = whole_write(fd, &header, sizeof(header)) &&
			      whole_write(fd, names->records.data, names->records.length);
	close(fd);
	if (!is_whole || renameat(cache->directory, part, cache->directory, build_id) != 0)
		unlinkat(cache->directory, part, 0);
	prune(cache);
}
