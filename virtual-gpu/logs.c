/* The driver's messages about its own failures. They are passed to callbacks, and the last hundred are kept for
 * programs that request them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gwi_virt.h"

enum { LINES_KEPT = 100, LINE_BYTES_MAX = 256 };

typedef struct callback_entry {
    struct callback_entry *next;
    uint64_t number; /* number of the registration, from 1 on */
    CUlogsCallback function;
    void *argument;
} callback_entry;

static struct {
    pthread_mutex_t lock;
    callback_entry *callbacks; /* owned; in the order of registration */
    uint64_t callback_count;   /* callbacks registered so far */
    char lines[LINES_KEPT][LINE_BYTES_MAX];
    uint32_t line_count; /* number of lines written so far; a CUlogIterator is the number of a line */
} logs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *result_name(int result)
{
    switch (result) {
#define GW_X(name, number)                                                                                             \
    case number:                                                                                                       \
        return #name;
        GW_CUDA_RESULTS(GW_X)
#undef GW_X
    }
    return NULL;
}

/* Find the first callback after number `after`, up to `last`. Call with the lock held. */
static bool find_callback(uint64_t after, uint64_t last, callback_entry *ret_entry)
{
    for (const callback_entry *entry = logs.callbacks; entry != NULL && entry->number <= last; entry = entry->next)
        if (entry->number > after) {
            *ret_entry = *entry;
            return true;
        }
    return false;
}

/* Write a line and call the callbacks, without the lock: they may call the driver and change the list. So find the next
 * callback by its number. */
void gwi_log_line(const char *line, CUlogLevel level)
{
    char copy[LINE_BYTES_MAX];
    callback_entry entry = {.number = 0};
    snprintf(copy, sizeof copy, "%s", line);
    pthread_mutex_lock(&logs.lock);
    snprintf(logs.lines[logs.line_count++ % LINES_KEPT], LINE_BYTES_MAX, "%s", copy);
    uint64_t last = logs.callback_count; /* a callback that is registered later is not called for this line */
    while (find_callback(entry.number, last, &entry)) {
        pthread_mutex_unlock(&logs.lock);
        entry.function(entry.argument, level, copy, strlen(copy));
        pthread_mutex_lock(&logs.lock);
    }
    pthread_mutex_unlock(&logs.lock);
}

void gwi_log_result(const char *symbol, int result)
{
    char line[LINE_BYTES_MAX];
    const char *name = result_name(result);
    snprintf(line, sizeof line, "Returning %d (%s) from %s", result, name != NULL ? name : "unknown", symbol);
    gwi_log_line(line, CU_LOG_LEVEL_ERROR);
}

GWI_API(cuLogsRegisterCallback)(CUlogsCallback callbackFunc, void *userData, CUlogsCallbackHandle *callback_out)
{
    if (callbackFunc == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    callback_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    entry->function = callbackFunc;
    entry->argument = userData;
    pthread_mutex_lock(&logs.lock);
    entry->number = ++logs.callback_count;
    callback_entry **end = &logs.callbacks;
    while (*end != NULL)
        end = &(*end)->next;
    *end = entry;
    pthread_mutex_unlock(&logs.lock);
    if (callback_out != NULL)
        *callback_out = (CUlogsCallbackHandle)entry;
    return 0;
}

GWI_API(cuLogsUnregisterCallback)(CUlogsCallbackHandle callback)
{
    int result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&logs.lock);
    for (callback_entry **link = &logs.callbacks; *link != NULL; link = &(*link)->next)
        if (*link == (callback_entry *)callback) {
            *link = (*link)->next;
            free(callback);
            result = 0;
            break;
        }
    pthread_mutex_unlock(&logs.lock);
    return result;
}

GWI_API(cuLogsCurrent)(CUlogIterator *iterator_out, unsigned int flags)
{
    if (iterator_out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&logs.lock);
    *iterator_out = logs.line_count;
    pthread_mutex_unlock(&logs.lock);
    return 0;
}

/* Copy complete lines to `buffer`, oldest first, beginning with line *from. Each ends with a line feed. Sets *from to
 * the first line that was not copied. Returns the number of bytes. */
static size_t dump(CUlogIterator *from, char *buffer, size_t room)
{
    size_t used = 0;
    uint32_t first = logs.line_count > LINES_KEPT ? logs.line_count - LINES_KEPT : 0;
    uint32_t at = from != NULL && *from > first && *from <= logs.line_count ? *from : first;
    /* If not all lines fit and `from` is NULL, keep the newest lines. */
    size_t wanted = 0;
    for (uint32_t i = at; i < logs.line_count; i++)
        wanted += strlen(logs.lines[i % LINES_KEPT]) + 1;
    for (; at < logs.line_count; at++) {
        const char *line = logs.lines[at % LINES_KEPT];
        size_t bytes = strlen(line);
        if (wanted + 1 > room && from == NULL) {
            wanted -= bytes + 1;
            continue;
        }
        if (used + bytes + 2 > room)
            break;
        memcpy(buffer + used, line, bytes);
        buffer[used + bytes] = '\n';
        used += bytes + 1;
    }
    if (room > 0)
        buffer[used] = '\0';
    if (from != NULL)
        *from = at;
    return used;
}

GWI_API(cuLogsDumpToMemory)(CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
    if (buffer == NULL || size == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&logs.lock);
    *size = dump(iterator, buffer, *size);
    pthread_mutex_unlock(&logs.lock);
    return 0;
}

GWI_API(cuLogsDumpToFile)(CUlogIterator *iterator, const char *pathToFile, unsigned int flags)
{
    static char text[LINES_KEPT * LINE_BYTES_MAX];
    if (pathToFile == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    FILE *file = fopen(pathToFile, "ae");
    if (file == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&logs.lock);
    size_t bytes = dump(iterator, text, sizeof text);
    bool ok = fwrite(text, 1, bytes, file) == bytes;
    pthread_mutex_unlock(&logs.lock);
    ok = fclose(file) == 0 && ok;
    return ok ? 0 : CUDA_ERROR_OPERATING_SYSTEM;
}

GWI_API(cuGetErrorName)(CUresult error, const char **pStr)
{
    if (pStr == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = result_name((int)error);
    return *pStr != NULL ? 0 : CUDA_ERROR_INVALID_VALUE;
}

static const char *result_text(int result)
{
    switch (result) {
#define GW_X(number, text)                                                                                             \
    case number:                                                                                                       \
        return text;
        GW_CUDA_TEXTS(GW_X)
#undef GW_X
    }
    return result_name(result);
}

GWI_API(cuGetErrorString)(CUresult error, const char **pStr)
{
    if (pStr == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    /* result_text() also has the texts of results that only the runtime API returns; the driver must not return
     * those. */
    *pStr = result_name((int)error) != NULL ? result_text((int)error) : NULL;
    return *pStr != NULL ? 0 : CUDA_ERROR_INVALID_VALUE;
}
