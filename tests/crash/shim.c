/*
 * Stands between a process and libc (LD_PRELOAD): records what the process does to one database and its neighbours,
 * and makes the Nth write or sync fail or kill.
 *
 *   CRASH_DB=path        the database, absolute; its -wal, its -journal and its folder are watched, too
 *   CRASH_RECORD=path    where to append the records; the process appends its own notes to the same file
 *   CRASH_DROP=name      records no sync that is made by "fsync", "fdatasync", or "all" of them
 *   CRASH_SLOW_US=n      makes each sync take that much longer
 *   CRASH_FAULT=what:call.file:n:errno:times
 *                        at the nth (from 0) call "write", "sync" or "change" on the file "db", "wal", "folder" or "any":
 *                        "kill" in the middle of it, "fail" with errno, or write "short"; so often as times says: "once",
 *                        a number, or "sticky". A "change" is whatever a read-only file system refuses: a write, a sync,
 *                        a truncation, a removal, opening to write
 *
 * A record is {u8 what, u8 file, u16 0, u32 length, i64 number} and `length` bytes. Files are told apart by inode when
 * they are used, not by descriptor when they are opened: a runtime may have duplicated the descriptor in between.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum record { OPEN = 1, WRITE = 2, TRUNCATE = 3, SYNC_START = 4, SYNC_END = 5, UNLINK = 6 }; /* 7: a note */
enum file { DB, WAL, JOURNAL, FOLDER, FILES, OTHER = 255 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char names[FILES][4096];
static struct { dev_t device; ino_t inode; int known; } files[FILES];
static int record_fd = -1;
static int64_t syncs = 0;
static long slow_us = 0;
static const char *drop = "";

enum call { A_WRITE = 1, A_SYNC = 2, ANOTHER_CHANGE = 4 };
static struct {
  int kill, fail, shorten, calls, file, error, armed;
  long at, times, seen;
} fault;

static void parse_fault(const char *text) {
  char what[16], on[16], file[16], times[16];
  long at;
  int error;
  if (sscanf(text, "%15[^:]:%15[^.].%15[^:]:%ld:%d:%15s", what, on, file, &at, &error, times) != 6) {
    fprintf(stderr, "shim: bad CRASH_FAULT %s\n", text);
    _exit(99);
  }
  fault.kill = !strcmp(what, "kill");
  fault.fail = !strcmp(what, "fail");
  fault.shorten = !strcmp(what, "short");
  fault.calls = !strcmp(on, "sync") ? A_SYNC : !strcmp(on, "write") ? A_WRITE : A_WRITE | A_SYNC | ANOTHER_CHANGE;
  fault.file = !strcmp(file, "db") ? DB : !strcmp(file, "wal") ? WAL : !strcmp(file, "folder") ? FOLDER : FILES;
  fault.at = at;
  fault.error = error;
  fault.times = !strcmp(times, "sticky") ? LONG_MAX : !strcmp(times, "once") ? 1 : atol(times);
  fault.armed = 1;
}

__attribute__((constructor)) static void begin(void) {
  const char *db = getenv("CRASH_DB");
  if (db == NULL || strlen(db) > 4000) return;
  snprintf(names[DB], sizeof names[DB], "%s", db);
  snprintf(names[WAL], sizeof names[WAL], "%s-wal", db);
  snprintf(names[JOURNAL], sizeof names[JOURNAL], "%s-journal", db);
  snprintf(names[FOLDER], sizeof names[FOLDER], "%s", db);
  *strrchr(names[FOLDER], '/') = 0;
  const char *path = getenv("CRASH_RECORD");
  if (path != NULL) record_fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (getenv("CRASH_SLOW_US")) slow_us = atol(getenv("CRASH_SLOW_US"));
  if (getenv("CRASH_DROP")) drop = getenv("CRASH_DROP");
  if (getenv("CRASH_FAULT")) parse_fault(getenv("CRASH_FAULT"));
}

static int file_of(int fd) {
  struct stat found;
  if (names[DB][0] == 0 || fstat(fd, &found) != 0) return OTHER;
  for (int i = 0; i < FILES; i++)
    if (files[i].known && files[i].inode == found.st_ino && files[i].device == found.st_dev) return i;
  return OTHER;
}

static int file_named(const char *path) {
  if (names[DB][0] == 0 || path == NULL) return OTHER;
  for (int i = 0; i < FILES; i++) if (!strcmp(path, names[i])) return i;
  return OTHER;
}

/* One writev on an O_APPEND descriptor: records of several threads never mix. */
static void record(enum record what, int file, int64_t number, const void *data, uint32_t length) {
  if (record_fd < 0) return;
  unsigned char head[16] = {what, (unsigned char)file};
  memcpy(head + 4, &length, 4);
  memcpy(head + 8, &number, 8);
  struct iovec parts[2] = {{head, 16}, {(void *)data, length}};
  if (syscall(SYS_writev, record_fd, parts, length > 0 ? 2 : 1) < 0) _exit(98);
}

/* Whether this call is the one. Counts; the caller holds the mutex. */
static int is_due(enum call call, int file) {
  if (!fault.armed || !(fault.calls & call) || (fault.file != FILES && fault.file != file)) return 0;
  long n = fault.seen++ - fault.at;
  return n >= 0 && n < fault.times;
}

/* The same for a call that can only fail. */
static int is_refused(int file) {
  return is_due(ANOTHER_CHANGE, file) && fault.fail;
}

static int opened(int at, const char *path, int flags, mode_t mode) {
  int file = file_named(path);
  if (file == OTHER) return syscall(SYS_openat, at, path, flags, mode);
  pthread_mutex_lock(&mutex);
  int refused = (flags & (O_WRONLY | O_RDWR | O_CREAT)) && is_refused(file);
  int fd = refused ? -1 : syscall(SYS_openat, at, path, flags, mode), error = refused ? fault.error : errno;
  struct stat found;
  if (fd >= 0 && fstat(fd, &found) == 0) {
    files[file].device = found.st_dev;
    files[file].inode = found.st_ino;
    files[file].known = 1;
    if (file != FOLDER) record(OPEN, file, 0, NULL, 0);
  }
  pthread_mutex_unlock(&mutex);
  errno = error;
  return fd;
}

#define MODE(flags)               \
  mode_t mode = 0;                \
  if (flags & (O_CREAT | O_TMPFILE)) { \
    va_list rest;                 \
    va_start(rest, flags);        \
    mode = va_arg(rest, mode_t);  \
    va_end(rest);                 \
  }
int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags | O_LARGEFILE, mode); }

static ssize_t written(int fd, const void *data, size_t length, off_t offset) {
  int file = file_of(fd);
  if (file >= FOLDER) return syscall(SYS_pwrite64, fd, data, length, offset);
  pthread_mutex_lock(&mutex);
  ssize_t done;
  int error = 0;
  if (is_due(A_WRITE, file)) {
    if (fault.kill) {
      done = syscall(SYS_pwrite64, fd, data, length / 2, offset);
      if (done > 0) record(WRITE, file, offset, data, done);
      raise(SIGKILL);
    }
    if (fault.fail) {
      pthread_mutex_unlock(&mutex);
      errno = fault.error;
      return -1;
    }
    length = length / 2 + 1; /* short: SQLite must go on from there */
  }
  done = syscall(SYS_pwrite64, fd, data, length, offset);
  error = errno;
  if (done > 0) record(WRITE, file, offset, data, done);
  pthread_mutex_unlock(&mutex);
  errno = error;
  return done;
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return written(fd, data, length, offset); }
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) { return written(fd, data, length, offset); }

/* The real sync runs outside the mutex, as other threads may write meanwhile: what they write is not covered by it. */
static int synced(int fd, const char *name, int number) {
  int file = file_of(fd);
  if (file == OTHER) return syscall(number, fd);
  pthread_mutex_lock(&mutex);
  if (is_due(A_SYNC, file)) {
    if (fault.kill) raise(SIGKILL);
    if (fault.fail) {
      pthread_mutex_unlock(&mutex);
      errno = fault.error;
      return -1;
    }
  }
  int64_t ticket = syncs++;
  int dropped = !strcmp(drop, "all") || !strcmp(drop, name);
  if (!dropped) record(SYNC_START, file, ticket, NULL, 0);
  pthread_mutex_unlock(&mutex);
  if (slow_us > 0) {
    struct timespec time = {slow_us / 1000000, slow_us % 1000000 * 1000};
    nanosleep(&time, NULL);
  }
  /* Only a recording is judged, never this disk: a real sync would but take time. */
  int result = record_fd >= 0 ? 0 : syscall(number, fd), error = errno;
  pthread_mutex_lock(&mutex);
  if (!dropped && result == 0) record(SYNC_END, file, ticket, NULL, 0);
  pthread_mutex_unlock(&mutex);
  errno = error;
  return result;
}
int fsync(int fd) { return synced(fd, "fsync", SYS_fsync); }
int fdatasync(int fd) { return synced(fd, "fdatasync", SYS_fdatasync); }

static int truncated(int fd, off_t length) {
  int file = file_of(fd);
  if (file >= FOLDER) return syscall(SYS_ftruncate, fd, length);
  pthread_mutex_lock(&mutex);
  int refused = is_refused(file);
  int result = refused ? -1 : syscall(SYS_ftruncate, fd, length), error = refused ? fault.error : errno;
  if (result == 0) record(TRUNCATE, file, length, NULL, 0);
  pthread_mutex_unlock(&mutex);
  errno = error;
  return result;
}
int ftruncate(int fd, off_t length) { return truncated(fd, length); }
int ftruncate64(int fd, off64_t length) { return truncated(fd, length); }

int unlink(const char *path) {
  int file = file_named(path);
  if (file >= FOLDER) return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  pthread_mutex_lock(&mutex);
  int refused = is_refused(file);
  int result = refused ? -1 : syscall(SYS_unlinkat, AT_FDCWD, path, 0), error = refused ? fault.error : errno;
  if (result == 0) {
    record(UNLINK, file, 0, NULL, 0);
    files[file].known = 0; /* its inode number may be given to another */
  }
  pthread_mutex_unlock(&mutex);
  errno = error;
  return result;
}
