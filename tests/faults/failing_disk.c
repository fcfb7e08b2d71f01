// Lets calls that write below one folder fail; failing_disk.py compiles and arms it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char below[4096];
static long at = -1, *seen;
static int code = 0, forever = 0;

void shim_arm(const char *folder, long number, int error, int on, long *count) {
    strncpy(below, folder, sizeof below - 1);
    seen = count; *seen = 0;
    at = number; code = error; forever = on;
}

static int inside(int fd) {
    char link[64], path[4096];
    if (!below[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return !strncmp(path, below, strlen(below));
}
static int inside_at(int folder, const char *path) {
    if (!below[0] || !path) return 0;
    if (path[0] == '/') return !strncmp(path, below, strlen(below));
    return folder != AT_FDCWD && inside(folder);
}
static int fails(int concerned) {
    if (!concerned) return 0;
    long number = __atomic_fetch_add(seen, 1, __ATOMIC_SEQ_CST);
    if (at < 0 || (forever ? number < at : number != at)) return 0;
    errno = code;
    return 1;
}
#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write); return fails(inside(fd)) ? -1 : real(fd, data, size);
}
int fsync(int fd) { REAL(fsync); return fails(inside(fd)) ? -1 : real(fd); }
int ftruncate(int fd, off_t size) {
    REAL(ftruncate); return fails(inside(fd)) ? -1 : real(fd, size);
}
int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64); return fails(inside(fd)) ? -1 : real(fd, size);
}
int fdatasync(int fd) { REAL(fdatasync); return fails(inside(fd)) ? -1 : real(fd); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t place) {
    REAL(pwrite); return fails(inside(fd)) ? -1 : real(fd, data, size, place);
}
int unlinkat(int folder, const char *path, int flags) {
    REAL(unlinkat);
    return code != ENOSPC && fails(inside_at(folder, path)) ? -1 : real(folder, path, flags);
}
int unlink(const char *path) {
    REAL(unlink);
    return code != ENOSPC && fails(inside_at(AT_FDCWD, path)) ? -1 : real(path);
}
int rmdir(const char *path) {
    REAL(rmdir);
    return code != ENOSPC && fails(inside_at(AT_FDCWD, path)) ? -1 : real(path);
}
int mkdir(const char *path, mode_t mode) {
    REAL(mkdir); return fails(inside_at(AT_FDCWD, path)) ? -1 : real(path, mode);
}
int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(mkdirat); return fails(inside_at(folder, path)) ? -1 : real(folder, path, mode);
}
int rename(const char *from, const char *to) {
    REAL(rename); return fails(inside_at(AT_FDCWD, to)) ? -1 : real(from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
    REAL(renameat); return fails(inside_at(b, to)) ? -1 : real(a, from, b, to);
}
#define OPENS(name, type) \
type name(const char *path, int flags, ...) { \
    static type (*real)(const char *, int, ...); \
    if (!real) real = dlsym(RTLD_NEXT, #name); \
    mode_t mode = 0; va_list rest; va_start(rest, flags); \
    if (flags & (O_CREAT | O_TMPFILE)) mode = va_arg(rest, mode_t); \
    va_end(rest); \
    if ((flags & O_CREAT) && fails(inside_at(AT_FDCWD, path))) return -1; \
    return real(path, flags, mode); \
}
OPENS(open, int)
OPENS(open64, int)
#define OPENSAT(name) \
int name(int folder, const char *path, int flags, ...) { \
    static int (*real)(int, const char *, int, ...); \
    if (!real) real = dlsym(RTLD_NEXT, #name); \
    mode_t mode = 0; va_list rest; va_start(rest, flags); \
    if (flags & (O_CREAT | O_TMPFILE)) mode = va_arg(rest, mode_t); \
    va_end(rest); \
    if ((flags & O_CREAT) && fails(inside_at(folder, path))) return -1; \
    return real(folder, path, flags, mode); \
}
OPENSAT(openat)
OPENSAT(openat64)
