/*
 * Loaded into git by images/agent/git. The repository's settings are mounted read-only, because git on the host machine runs
 * what they name. In their place, git here reads and writes a file beside them, which git on the host machine does not read:
 * `agent-sandbox.config`, and `agent-sandbox.config.base` with the settings that it was made from.
 * This is no wall: the mount is one, also for a program that this file is not loaded into.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MOST (1 << 20)

typedef char Path[2 * PATH_MAX];

static int is_there(const char *path) { return faccessat(AT_FDCWD, path, F_OK, 0) == 0; }

static int is_protected(const char *directory, int length, const char *name) {
  struct statvfs mount;
  Path file;
  snprintf(file, sizeof file, "%.*s%s", length, directory, name);
  return statvfs(file, &mount) == 0 && mount.f_flag & ST_RDONLY;
}

/* In a worktree, the settings are in the repository's directory, which is read-only as a whole: use the worktree's own. */
static int is_of_worktree(const char *directory, int length, const char *own) {
  Path mine, common;
  char one[PATH_MAX], other[PATH_MAX];
  snprintf(mine, sizeof mine, "%.*s.", length, directory);
  snprintf(common, sizeof common, "%s/../..", own);
  return realpath(mine, one) && realpath(common, other) && !strcmp(one, other);
}

/* Return 1 if PATH is a protected file of settings, 2 if it is the lock of one, else 0; put the file in its place into KEPT. */
static int kept_for(const char *path, Path kept) {
  const char *name = strrchr(path, '/'), *end, *own = getenv("AGENT_SANDBOX_GIT_OWN");
  int before = errno, length;
  name = name ? name + 1 : path;
  if (strncmp(name, "config", 6)) return 0;
  end = name + (strncmp(name + 6, ".worktree", 9) ? 6 : 15);
  if (*end && strcmp(end, ".lock")) return 0;
  length = (int)(name - path);
  if (length >= PATH_MAX || !(is_protected(path, length, "config") || is_protected(path, length, "commondir"))) {
    errno = before;
    return 0;
  }
  if (own && *own && is_of_worktree(path, length, own))
    snprintf(kept, sizeof(Path), "%s/agent-sandbox.%s", own, name);
  else
    snprintf(kept, sizeof(Path), "%.*sagent-sandbox.%s", length, path, name);
  errno = before;
  return *end ? 2 : 1;
}

/* Return the path to use in place of PATH: what is kept, once something is. */
static const char *mapped(const char *path, Path kept) {
  int before = errno, kind = kept_for(path, kept);
  const char *found = kind == 2 || (kind && is_there(kept)) ? kept : path;
  errno = before;
  return found;
}

/* Read a file of settings into a buffer of MOST bytes; one that does not exist is empty. */
static ssize_t content(const char *path, char *into) {
  int file = NEXT(open)(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = 0, more = 0;
  if (file < 0) return errno == ENOENT ? 0 : -1;
  while (size < MOST && (more = read(file, into + size, MOST - size)) > 0) size += more;
  close(file);
  return more < 0 || size == MOST ? -1 : size;
}

static int copy(const char *path, const char *to) {
  static char text[MOST];
  ssize_t size = content(path, text);
  int file = size < 0 ? -1 : NEXT(open)(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  return file < 0 || write(file, text, size) != size || close(file) ? -1 : 0;
}

/* Remember the settings that the sandbox's own are made from. */
static int remember(const char *path, const char *kept) {
  Path base;
  snprintf(base, sizeof base, "%.*s.base", PATH_MAX, kept);
  NEXT(unlink)(base);
  return copy(path, base);
}

/* Save what the lock has, unless it changes nothing. */
static int save(const char *lock, const char *path, const char *kept) {
  static char before[MOST], after[MOST];
  static int said;
  char here[PATH_MAX];
  size_t length;
  int first = !is_there(kept);
  ssize_t was = content(first ? path : kept, before), now = content(lock, after);
  if (was >= 0 && was == now && !memcmp(before, after, was)) return NEXT(unlink)(lock);
  if ((first && remember(path, kept)) || NEXT(rename)(lock, kept)) return -1;
  if (said++ || path[strlen(path) - 1] != 'g') return 0; /* not of `config.worktree` */
  length = getcwd(here, sizeof here) ? strlen(here) : 0;
  if (length && !strncmp(path, here, length) && path[length] == '/') path += length + 1;
  fprintf(stderr, "agent-sandbox: %s is read-only in the sandbox: this setting was saved for the sandbox alone%s\n", path,
          strstr(path, "modules/") ? "" : "; agent-sandbox review shows it on the host machine");
  return 0;
}

int rename(const char *from, const char *to) {
  Path lock, kept;
  if (kept_for(from, lock) == 2 && kept_for(to, kept) == 1) return save(lock, to, kept);
  return NEXT(rename)(from, to);
}

#define OPEN(name)                                          \
  int name(const char *path, int flags, ...) {              \
    Path kept;                                              \
    va_list more;                                           \
    va_start(more, flags);                                  \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more);                                           \
    return NEXT(name)(mapped(path, kept), flags, mode);     \
  }
OPEN(open)
OPEN(open64)

#define WITH(type, name, before, parameter, argument)   \
  type name(const char *path before parameter) {        \
    Path kept;                                          \
    return NEXT(name)(mapped(path, kept) before argument); \
  }
#define COMMA ,
WITH(FILE *, fopen, COMMA, const char *mode, mode)
WITH(FILE *, fopen64, COMMA, const char *mode, mode)
WITH(int, access, COMMA, int mode, mode)
WITH(int, stat64, COMMA, struct stat64 *into, into)
WITH(int, lstat64, COMMA, struct stat64 *into, into)
WITH(int, unlink, , , )

/* `git init` tries whether the disk keeps a file's mode. */
int chmod(const char *path, mode_t mode) {
  Path kept;
  if (kept_for(path, kept) == 1 && !is_there(kept) && !remember(path, kept)) copy(path, kept);
  return NEXT(chmod)(mapped(path, kept), mode);
}

int __open64_2(const char *path, int flags) { return open64(path, flags); }
