/* Copies what a program writes to stderr, if that is the terminal (gw_stderr_door.h). */
#include "gw_quiet_door.h"
#include "gw_stderr_door.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#undef putc
#define EXPORTED __attribute__((visibility("default")))

/* Before glibc 2.34 dlsym() is in libdl, which a program may not load. */
#pragma weak dlsym

/* ---- the next library's functions ----
 *
 * They are found when the process starts. Until then, and without dlsym(), the C library's second names for them
 * serve. Other preloaded libraries stand before this one, so they are not passed over. */

extern ssize_t __write(int, const void *, size_t);
extern int __dup2(int, int);
extern size_t _IO_fwrite(const void *, size_t, size_t, FILE *);
extern int _IO_fputs(const char *, FILE *);
extern int _IO_vfprintf(FILE *, const char *, va_list);

/* what the headers' macros call */
int __fprintf_chk(FILE *, int, const char *, ...);
int __vfprintf_chk(FILE *, int, const char *, va_list);
void __assert_fail(const char *, const char *, unsigned, const char *);

static ssize_t writev_alone(int fd, const struct iovec *parts, int count)
{
    return syscall(SYS_writev, fd, parts, count);
}

static int dup3_alone(int from, int to, int flags)
{
    return (int)syscall(SYS_dup3, from, to, flags);
}

static int fputc_alone(int character, FILE *stream)
{
    const unsigned char byte = (unsigned char)character;
    return _IO_fwrite(&byte, 1, 1, stream) == 1 ? byte : EOF;
}

static int vfprintf_alone(FILE *stream, int flag, const char *format, va_list arguments)
{
    (void)flag;
    return _IO_vfprintf(stream, format, arguments);
}

/* fprintf() is the one below, which copies the text. */
static void perror_alone(const char *text)
{
    fprintf(stderr, "%s: %m\n", text);
}

static void assert_alone(const char *condition, const char *file, unsigned line, const char *function)
{
    fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function == NULL ? "?" : function, condition);
}

#define FUNCTIONS(F)                                                                                                   \
    F(ssize_t, write, __write, (int, const void *, size_t))                                                            \
    F(ssize_t, writev, writev_alone, (int, const struct iovec *, int))                                                 \
    F(int, dup2, __dup2, (int, int))                                                                                   \
    F(int, dup3, dup3_alone, (int, int, int))                                                                          \
    F(size_t, fwrite, _IO_fwrite, (const void *, size_t, size_t, FILE *))                                              \
    F(int, fputs, _IO_fputs, (const char *, FILE *))                                                                   \
    F(int, fputc, fputc_alone, (int, FILE *))                                                                          \
    F(int, vfprintf, _IO_vfprintf, (FILE *, const char *, va_list))                                                    \
    F(int, __vfprintf_chk, vfprintf_alone, (FILE *, int, const char *, va_list))                                       \
    F(void, perror, perror_alone, (const char *))                                                                      \
    F(void, __assert_fail, assert_alone, (const char *, const char *, unsigned, const char *))

static struct {
#define MEMBER(type, name, alone, parameters) type(*name) parameters;
    FUNCTIONS(MEMBER)
} next = {
#define ALONE(type, name, alone, parameters) .name = alone,
    FUNCTIONS(ALONE)};

static void find_next(void)
{
    if (dlsym == NULL)
        return;
#define FIND(type, name, alone, parameters)                                                                            \
    {                                                                                                                  \
        type(*found) parameters = (type(*) parameters)(uintptr_t)dlsym(RTLD_NEXT, #name);                              \
        if (found != NULL)                                                                                             \
            next.name = found;                                                                                         \
    }
    FUNCTIONS(FIND)
}

/* ---- the copy ---- */

static gw_stderr_ring *ring;      /* NULL: nothing is copied */
static _Atomic bool was_replaced; /* descriptor 2 may no longer be the terminal */
static _Atomic bool is_elsewhere; /* it is not */

/* The C library has had this function under this name only since 2.33. */
static bool look_at(int fd, struct stat *ret)
{
    return syscall(SYS_fstat, fd, ret) == 0;
}

static bool is_terminal(void)
{
    struct stat stat;
    return look_at(STDERR_FILENO, &stat) && S_ISCHR(stat.st_mode) && stat.st_rdev == ring->terminal;
}

__attribute__((constructor)) static void begin(void)
{
    int saved_errno = errno;
    const char *path = getenv(GW_STDERR_VARIABLE);
    struct stat stat;
    find_next();
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && look_at(fd, &stat) && stat.st_size == sizeof *ring) {
        void *memory = mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ring = memory == MAP_FAILED ? NULL : memory;
    }
    if (fd >= 0)
        close(fd);
    if (ring != NULL)
        is_elsewhere = !is_terminal();
    errno = saved_errno;
}

static bool is_copied(int fd)
{
    if (fd != STDERR_FILENO || ring == NULL || gw_the_quiet_door.is_quiet)
        return false;
    if (atomic_load_explicit(&was_replaced, memory_order_relaxed)) {
        int saved_errno = errno;
        was_replaced = false;
        is_elsewhere = !is_terminal();
        errno = saved_errno;
    }
    return !atomic_load_explicit(&is_elsewhere, memory_order_relaxed);
}

__attribute__((format(printf, 1, 0))) static void copy_formatted(const char *format, va_list arguments)
{
    char text[2048];
    va_list again;
    int saved_errno = errno;
    va_copy(again, arguments);
    int bytes = vsnprintf(text, sizeof text, format, again);
    va_end(again);
    if (bytes > 0)
        gw_stderr_ring_add(ring, text, (size_t)bytes < sizeof text ? (size_t)bytes : sizeof text - 1);
    errno = saved_errno;
}

__attribute__((format(printf, 1, 2))) static void copy_format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    copy_formatted(format, arguments);
    va_end(arguments);
}

static bool is_copied_stream(const FILE *stream)
{
    return stream == stderr && is_copied(STDERR_FILENO);
}

/* ---- the functions of the C library ---- */

EXPORTED ssize_t write(int fd, const void *bytes, size_t count)
{
    ssize_t written = next.write(fd, bytes, count);
    if (written > 0 && is_copied(fd))
        gw_stderr_ring_add(ring, bytes, (size_t)written);
    return written;
}

EXPORTED ssize_t writev(int fd, const struct iovec *parts, int count)
{
    ssize_t written = next.writev(fd, parts, count);
    if (written > 0 && is_copied(fd)) {
        size_t left = (size_t)written;
        for (int i = 0; i < count && left > 0; i++) {
            size_t part = parts[i].iov_len < left ? parts[i].iov_len : left;
            gw_stderr_ring_add(ring, parts[i].iov_base, part);
            left -= part;
        }
    }
    return written;
}

EXPORTED int dup2(int from, int to)
{
    int result = next.dup2(from, to);
    if (result == STDERR_FILENO)
        was_replaced = true;
    return result;
}

EXPORTED int dup3(int from, int to, int flags)
{
    int result = next.dup3(from, to, flags);
    if (result == STDERR_FILENO)
        was_replaced = true;
    return result;
}

EXPORTED size_t fwrite(const void *bytes, size_t size, size_t count, FILE *stream)
{
    if (is_copied_stream(stream))
        gw_stderr_ring_add(ring, bytes, size * count);
    return next.fwrite(bytes, size, count, stream);
}

EXPORTED int fputs(const char *text, FILE *stream)
{
    if (is_copied_stream(stream))
        gw_stderr_ring_add(ring, text, strlen(text));
    return next.fputs(text, stream);
}

EXPORTED int fputc(int character, FILE *stream)
{
    const char byte = (char)character;
    if (is_copied_stream(stream))
        gw_stderr_ring_add(ring, &byte, 1);
    return next.fputc(character, stream);
}

EXPORTED int putc(int character, FILE *stream)
{
    return fputc(character, stream);
}

/* the name of putc() in programs that were built with old headers */
extern int _IO_putc(int character, FILE *stream) __attribute__((alias("putc"), visibility("default")));

EXPORTED int vfprintf(FILE *stream, const char *format, va_list arguments)
{
    if (is_copied_stream(stream))
        copy_formatted(format, arguments);
    return next.vfprintf(stream, format, arguments);
}

EXPORTED int fprintf(FILE *stream, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = vfprintf(stream, format, arguments);
    va_end(arguments);
    return result;
}

EXPORTED int __vfprintf_chk(FILE *stream, int flag, const char *format, va_list arguments)
{
    if (is_copied_stream(stream))
        copy_formatted(format, arguments);
    return next.__vfprintf_chk(stream, flag, format, arguments);
}

EXPORTED int __fprintf_chk(FILE *stream, int flag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = __vfprintf_chk(stream, flag, format, arguments);
    va_end(arguments);
    return result;
}

EXPORTED void perror(const char *text)
{
    bool has_text = text != NULL && text[0] != '\0';
    if (next.perror != perror_alone && is_copied_stream(stderr))
        copy_format("%s%s%m\n", has_text ? text : "", has_text ? ": " : "");
    next.perror(text);
}

EXPORTED void __assert_fail(const char *condition, const char *file, unsigned line, const char *function)
{
    if (next.__assert_fail != assert_alone && is_copied_stream(stderr))
        copy_format("%s:%u: %s: Assertion `%s' failed.\n", file, line, function == NULL ? "?" : function, condition);
    next.__assert_fail(condition, file, line, function);
    abort();
}
