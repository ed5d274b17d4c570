/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "attach/elf/modules.h"
#include "attach/memory/checksum.h"
#include "attach/proc/fd.h"
#include "format/array.h"

#define MAGIC	    0x454c424154505448ull /* "HTPTABLE" */
#define SUFFIX	    ".table"
#define NEW	    "new." /* prefix of an entry until it is complete */
#define NEW_STALE_S 3600   /* an older file with that prefix is abandoned: no write takes so long */
#define BLOCK_BYTES 4096u  /* the least that a file takes on disk */
#define STORE_MAX   (128ul << 20) /* by one attach */
#define NAME_BYTES  (2 * MODULE_BUILD_ID_MAX + sizeof(SUFFIX))

/* A file: this header, the table, .eh_frame. */
struct header {
	uint64_t magic;
	uint64_t compiler; /* CACHE_COMPILER of the Makefile: the compiler of the table */
	uint64_t checksum; /* of everything behind the header */
	uint64_t text_lo, text_hi, eh_frame_vaddr, eh_frame_bytes, table_bytes;
	uint64_t build_id_bytes;
	uint8_t build_id[MODULE_BUILD_ID_MAX];
};

struct cache {
	int dir_fd;
	uint64_t stored_bytes;
};

/* --- the directory
 * -------------------------------------------------------------------------------------------- */

/* Could only this user have written to it? */
static bool is_ours(const struct stat *st)
{
	return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

static bool parent_path(char path[PATH_MAX])
{
	const char *given = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
	int length = 0;
	/* The XDG specification says to ignore a relative path. */
	if (given && given[0] == '/')
		length = snprintf(path, PATH_MAX, "%s", given);
	else if (geteuid() == 0)
		length = snprintf(path, PATH_MAX, "/var/cache");
	else if (home && home[0] == '/')
		length = snprintf(path, PATH_MAX, "%s/.cache", home);
	return length > 0 && length < PATH_MAX;
}

static int directory_open(void)
{
	char path[PATH_MAX];
	struct stat st;
	if (!parent_path(path))
		return -1;
	mkdir(path, 0700);
	FD_GUARD int parent_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (parent_fd < 0)
		return -1;
	mkdirat(parent_fd, "heaptap", 0700);
	int fd = openat(
		parent_fd, "heaptap", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && fstat(fd, &st) == 0 && is_ours(&st))
		return fd;
	fd_close(&fd);
	return -1;
}

struct cache *cache_open(void)
{
	struct cache *cache = calloc(1, sizeof(*cache));
	if (!cache)
		return NULL;
	cache->dir_fd = directory_open();
	if (cache->dir_fd >= 0)
		return cache;
	free(cache);
	return NULL;
}

/* --- room
 * -------------------------------------------------------------------------------------------- */

struct file {
	char name[NAME_BYTES];
	uint64_t bytes;
	struct timespec used;
};

struct files {
	struct file *file;
	size_t count, capacity;
	uint64_t bytes;
};

static void files_add(struct files *files, const char *name, const struct stat *st)
{
	if (!ARRAY_HAS_ROOM(files->file, files->count, files->capacity, 256))
		return;
	struct file *file = &files->file[files->count++];
	memcpy(file->name, name, strlen(name) + 1);
	file->bytes = ht_align_up((uint64_t)st->st_size, BLOCK_BYTES);
	file->used = st->st_mtim;
	files->bytes += file->bytes;
}

/* A heaptap that was killed while it wrote leaves such a file. */
static bool is_abandoned(const char *name, const struct stat *st)
{
	return !strncmp(name, NEW, strlen(NEW)) && st->st_mtim.tv_sec + NEW_STALE_S < time(NULL);
}

/* Other files there do not belong to heaptap. */
static bool is_our_name(const char *name)
{
	size_t length = strlen(name), suffix = strlen(SUFFIX);
	return length < NAME_BYTES &&
	       (!strncmp(name, NEW, strlen(NEW)) ||
		       (length > suffix && !strcmp(name + length - suffix, SUFFIX)));
}

static void files_list(const struct cache *cache, struct files *files)
{
	int fd = openat(cache->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		fd_close(&fd);
		return;
	}
	for (const struct dirent *entry; (entry = readdir(dir));) {
		struct stat st;
		if (!is_our_name(entry->d_name) ||
			fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			!S_ISREG(st.st_mode))
			continue;
		if (is_abandoned(entry->d_name, &st))
			unlinkat(fd, entry->d_name, 0);
		else
			files_add(files, entry->d_name, &st);
	}
	closedir(dir);
}

static int by_use(const void *a, const void *b)
{
	const struct timespec *x = &((const struct file *)a)->used;
	const struct timespec *y = &((const struct file *)b)->used;
	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static void trim(const struct cache *cache)
{
	struct files files = {0};
	files_list(cache, &files);
	if (files.count)
		qsort(files.file, files.count, sizeof(*files.file), by_use);
	for (size_t i = 0; i < files.count && files.bytes > CACHE_BYTES_MAX; i++) {
		unlinkat(cache->dir_fd, files.file[i].name, 0);
		files.bytes -= files.file[i].bytes;
	}
	free(files.file);
}

void cache_close(struct cache *cache)
{
	if (!cache)
		return;
	if (cache->stored_bytes)
		trim(cache);
	close(cache->dir_fd);
	free(cache);
}

/* --- an entry
 * -------------------------------------------------------------------------------------------- */

static bool key_is_usable(const struct cache_key *key)
{
	return key->bytes > 0 && key->bytes <= MODULE_BUILD_ID_MAX;
}

static void name_make(const struct cache_key *key, char ret[NAME_BYTES])
{
	for (size_t i = 0; i < key->bytes; i++)
		snprintf(ret + 2 * i, 3, "%02x", key->build_id[i]);
	memcpy(ret + 2 * key->bytes, SUFFIX, sizeof(SUFFIX));
}

static uint64_t header_checksum(
	const struct header *header, const void *table, const void *eh_frame)
{
	uint64_t sum =
		checksum(0, &header->text_lo, sizeof(*header) - offsetof(struct header, text_lo));
	sum = checksum(sum, table, header->table_bytes);
	return checksum(sum, eh_frame, header->eh_frame_bytes);
}

static bool header_fits(const struct header *header, const struct cache_key *key, uint64_t bytes)
{
	return header->magic == MAGIC && header->compiler == CACHE_COMPILER &&
	       header->build_id_bytes == key->bytes &&
	       !memcmp(header->build_id, key->build_id, key->bytes) && header->eh_frame_bytes &&
	       header->eh_frame_bytes <= bytes && header->table_bytes <= bytes &&
	       sizeof(*header) + header->table_bytes + header->eh_frame_bytes == bytes;
}

static bool contents_read(int fd, const struct header *header, void *table, void *eh_frame)
{
	struct iovec parts[] = {{table, header->table_bytes}, {eh_frame, header->eh_frame_bytes}};
	size_t bytes = header->table_bytes + header->eh_frame_bytes;
	return preadv(fd, parts, HT_ARRAY_SIZE(parts), sizeof(*header)) == (ssize_t)bytes &&
	       header_checksum(header, table, eh_frame) == header->checksum &&
	       table_is_sound(table, header->table_bytes);
}

static bool entry_read(int fd, const struct header *header, struct cache_entry *ret)
{
	struct abi_table *table = malloc(header->table_bytes);
	uint8_t *eh_frame = malloc(header->eh_frame_bytes);
	if (!table || !eh_frame || !contents_read(fd, header, table, eh_frame)) {
		free(table);
		free(eh_frame);
		return false;
	}
	*ret = (struct cache_entry){.table = table,
		.input = {.eh_frame = eh_frame,
			.eh_frame_bytes = header->eh_frame_bytes,
			.eh_frame_vaddr = header->eh_frame_vaddr,
			.text_lo = header->text_lo,
			.text_hi = header->text_hi}};
	return true;
}

static bool file_read(int fd, const struct cache_key *key, struct cache_entry *ret)
{
	struct stat st;
	struct header header;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_ours(&st) &&
	       st.st_size > (off_t)sizeof(header) && st.st_size <= (off_t)CACHE_ENTRY_MAX &&
	       pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
	       header_fits(&header, key, (uint64_t)st.st_size) && entry_read(fd, &header, ret);
}

bool cache_load(struct cache *cache, const struct cache_key *key, struct cache_entry *ret)
{
	char name[NAME_BYTES];
	if (!cache || !key_is_usable(key))
		return false;
	name_make(key, name);
	int fd = openat(cache->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		if (errno == ELOOP)
			unlinkat(cache->dir_fd, name, 0);
		return false;
	}
	bool found = file_read(fd, key, ret);
	if (found)
		futimens(fd, NULL);
	else
		unlinkat(cache->dir_fd, name, 0);
	close(fd);
	return found;
}

void cache_entry_deinit(struct cache_entry *entry)
{
	free(entry->table);
	free((void *)entry->input.eh_frame);
}

static bool write_all(int fd, const void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t put = write(fd, (const uint8_t *)data + done, bytes - done);
		if (put <= 0)
			return false;
		done += (size_t)put;
	}
	return true;
}

static bool file_write(int fd, const struct header *header, const void *table, const void *eh_frame)
{
	return write_all(fd, header, sizeof(*header)) &&
	       write_all(fd, table, header->table_bytes) &&
	       write_all(fd, eh_frame, header->eh_frame_bytes);
}

void cache_store(struct cache *cache, const struct cache_key *key, const struct unwind_input *input,
	const struct abi_table *table)
{
	char name[NAME_BYTES], new_name[32];
	struct header header = {.magic = MAGIC,
		.compiler = CACHE_COMPILER,
		.text_lo = input->text_lo,
		.text_hi = input->text_hi,
		.eh_frame_vaddr = input->eh_frame_vaddr,
		.eh_frame_bytes = input->eh_frame_bytes,
		.table_bytes = table->bytes,
		.build_id_bytes = key->bytes};
	uint64_t bytes = sizeof(header) + header.table_bytes + header.eh_frame_bytes;

	if (!cache || !key_is_usable(key) || bytes > CACHE_ENTRY_MAX ||
		bytes > STORE_MAX - cache->stored_bytes)
		return;
	memcpy(header.build_id, key->build_id, key->bytes);
	header.checksum = header_checksum(&header, table, input->eh_frame);
	name_make(key, name);
	snprintf(new_name, sizeof(new_name), NEW "%d", getpid());
	int fd = openat(cache->dir_fd, new_name,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	bool whole = file_write(fd, &header, table, input->eh_frame);
	/* Some file systems report a full disk only now. */
	whole &= close(fd) == 0;
	if (!whole || renameat(cache->dir_fd, new_name, cache->dir_fd, name) < 0)
		unlinkat(cache->dir_fd, new_name, 0);
	cache->stored_bytes += bytes;
}
