/* Kills the process at its n-th change of a folder, and records what was on the disk by then.
 *
 * Preloaded into a process. After power_cut(n, folder, record), each write, truncation, rename and removal under the
 * folder counts; with n < 0 nothing is killed. Lines of the record: "o PATH" (a file was emptied as it was opened),
 * "w PATH\tBYTES" (written; its size before), "s PATH\tBYTES" (synced; its size), "r FROM\tTO", "u PATH".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[4096];
static int record = -1;
static long left = -1;
static pid_t owner;

void power_cut(long at, const char *within, const char *record_path) {
    snprintf(folder, sizeof folder, "%s", within);
    record = open(record_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    left = at;
    owner = getpid();
}

static int inside(const char *path) {
    size_t length = strlen(folder);
    return record >= 0 && length && !strncmp(path, folder, length) && path[length] == '/';
}

static int of_descriptor(int fd, char *path, size_t size) {
    char link[64];
    if (record < 0 || fd < 3 || fd == record) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return inside(path);
}

static void absolute(int at, const char *name, char *path, size_t size) {
    char start[4096] = "";
    if (name[0] != '/') {
        if (at == AT_FDCWD) {
            if (!getcwd(start, sizeof start)) start[0] = 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
            ssize_t length = readlink(link, start, sizeof start - 1);
            start[length < 0 ? 0 : length] = 0;
        }
        snprintf(path, size, "%s/%s", start, name);
    } else {
        snprintf(path, size, "%s", name);
    }
}

static void step(void) {
    if (left >= 0 && __sync_fetch_and_sub(&left, 1) == 0) {
        kill(owner, SIGKILL);
        for (;;) pause();
    }
}

static void note(const char *kind, const char *first, const char *second) {
    char line[8300];
    int length = snprintf(line, sizeof line, "%s %s%s%s\n", kind, first, second ? "\t" : "", second ? second : "");
    syscall(SYS_write, record, line, (size_t)length);
}

static void note_size(const char *kind, int fd, const char *path) {
    struct stat found;
    char size[32];
    snprintf(size, sizeof size, "%ld", fstat(fd, &found) ? 0L : (long)found.st_size);
    note(kind, path, size);
}

#define ORIGINAL(name) __typeof__(&name) original = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define WRITER(result, name, arguments, passed)                                                    \
    result name arguments {                                                                        \
        ORIGINAL(name);                                                                            \
        char path[4096];                                                                           \
        if (of_descriptor(fd, path, sizeof path)) {                                                \
            step();                                                                                \
            note_size("w", fd, path);                                                              \
        }                                                                                          \
        return original passed;                                                                    \
    }

WRITER(ssize_t, write, (int fd, const void *bytes, size_t count), (fd, bytes, count))
WRITER(ssize_t, pwrite, (int fd, const void *bytes, size_t count, off_t start), (fd, bytes, count, start))
WRITER(ssize_t, pwrite64, (int fd, const void *bytes, size_t count, off64_t start), (fd, bytes, count, start))
WRITER(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
WRITER(int, ftruncate, (int fd, off_t size), (fd, size))
WRITER(int, ftruncate64, (int fd, off64_t size), (fd, size))

#define SYNCER(name)                                                                               \
    int name(int fd) {                                                                             \
        ORIGINAL(name);                                                                            \
        char path[4096];                                                                           \
        int value = original(fd);                                                                  \
        if (of_descriptor(fd, path, sizeof path)) note_size("s", fd, path);                        \
        return value;                                                                              \
    }

SYNCER(fsync)
SYNCER(fdatasync)

static int moved(int old_at, const char *old, int new_at, const char *new, int (*original)(int, const char *, int, const char *)) {
    char from[4096], to[4096];
    absolute(old_at, old, from, sizeof from);
    absolute(new_at, new, to, sizeof to);
    int is_inside = inside(from) || inside(to);
    if (is_inside) step();
    int value = original(old_at, old, new_at, new);
    if (is_inside && !value) note("r", from, to);
    return value;
}

int renameat(int old_at, const char *old, int new_at, const char *new) {
    ORIGINAL(renameat);
    return moved(old_at, old, new_at, new, original);
}

int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

int unlinkat(int at, const char *name, int flags) {
    ORIGINAL(unlinkat);
    char path[4096];
    absolute(at, name, path, sizeof path);
    int is_inside = inside(path);
    if (is_inside) step();
    int value = original(at, name, flags);
    if (is_inside && !value) note("u", path, NULL);
    return value;
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }

int openat(int at, const char *name, int flags, ...) {
    ORIGINAL(openat);
    va_list rest;
    va_start(rest, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;
    va_end(rest);
    int fd = original(at, name, flags, mode);
    char path[4096];
    if (fd >= 0 && flags & O_TRUNC && of_descriptor(fd, path, sizeof path)) note("o", path, NULL);
    return fd;
}

#define OPENER(name)                                                                               \
    int name(const char *path, int flags, ...) {                                                   \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;                          \
        va_end(rest);                                                                              \
        return openat(AT_FDCWD, path, flags, mode);                                                \
    }

OPENER(open)
OPENER(open64)
