/* Parses the error log of cuDNN into entries. Reports the first error of each entry, or its first warning if it has no
 * error. */
#define _GNU_SOURCE
#include "gw_cudnn_log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const name_signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

static bool begins(const char *text, const char *start)
{
    return strncasecmp(text, start, strlen(start)) == 0;
}

static uint32_t number_at(const char *text)
{
    uint64_t number = 0;
    for (; isdigit((unsigned char)*text) && number <= UINT32_MAX; text++)
        number = number * 10 + (uint64_t)(*text - '0');
    return number <= UINT32_MAX ? (uint32_t)number : 0;
}

static void copy(char *out, size_t bytes_max, const char *from, size_t bytes)
{
    snprintf(out, bytes_max, "%.*s", (int)(bytes < bytes_max ? bytes : bytes_max - 1), from);
}

static void tell(gw_cudnn_log *log, gw_cudnn_sink *sink, void *user)
{
    if (log->has_message)
        sink(user, &log->message);
    log->has_message = false;
    log->message = (gw_cudnn_message){0};
}

/* Match the start of an entry, "CuDNN (v90300 75) function cudnnBackendFinalize() called:". */
static bool take_head(gw_cudnn_log *log, const char *text, gw_cudnn_sink *sink, void *user)
{
    static const char mark[] = "cuDNN (v", function[] = ") function ";
    const char *name = begins(text, mark) ? strstr(text, function) : NULL;
    if (name == NULL)
        return false;
    tell(log, sink, user);
    name += strlen(function);
    log->message.version = number_at(text + strlen(mark));
    copy(log->message.function, sizeof log->message.function, name, strspn(name, name_signs));
    return true;
}

/* Match a message, "Error: CUDNN_STATUS_BAD_PARAM; Reason: ...". An error replaces a warning that was stored before. */
static bool take_message(gw_cudnn_log *log, const char *text)
{
    bool is_error = begins(text, "Error: ");
    if (!is_error && !begins(text, "Warning: "))
        return false;
    text = strchr(text, ' ') + 1;
    size_t name_bytes = strspn(text, name_signs);
    const char *reason = strcasestr(text, "reason: ");
    gw_cudnn_message *message = &log->message;
    bool is_first = !log->has_message || (is_error && !message->is_error);
    message->more += log->has_message;
    log->has_message = true;
    if (!is_first)
        return true;
    message->is_error = is_error;
    copy(message->status, sizeof message->status, text, begins(text, "CUDNN_STATUS_") ? name_bytes : 0);
    reason = reason == NULL ? text : reason + strlen("reason: ");
    copy(message->reason, sizeof message->reason, reason, strlen(reason));
    return true;
}

/* Match the end of an entry, "Process=123; Thread=123; ..." or "Process: 123, Thread: ...". */
static bool take_process(gw_cudnn_log *log, const char *text, gw_cudnn_sink *sink, void *user)
{
    if (!begins(text, "Process=") && !begins(text, "Process: "))
        return false;
    log->message.pid = number_at(text + strcspn(text, "0123456789"));
    tell(log, sink, user);
    return true;
}

static void take_line(gw_cudnn_log *log, gw_cudnn_sink *sink, void *user)
{
    char *text = log->line;
    size_t bytes = log->line_bytes < sizeof log->line ? log->line_bytes : sizeof log->line - 1;
    text[bytes] = '\0';
    log->line_bytes = 0;
    while (bytes > 0 && isspace((unsigned char)text[bytes - 1]))
        text[--bytes] = '\0';
    for (size_t i = 0; i < bytes; i++)
        if (iscntrl((unsigned char)text[i]))
            text[i] = ' ';
    if (isalpha((unsigned char)text[0]) && text[1] == '!')
        text += 2;
    text += strspn(text, " ");
    if (!take_head(log, text, sink, user) && !take_message(log, text))
        (void)take_process(log, text, sink, user);
}

void gw_cudnn_log_feed(gw_cudnn_log *log, const char *text, size_t bytes, gw_cudnn_sink *sink, void *user)
{
    while (bytes > 0) {
        const char *end = memchr(text, '\n', bytes);
        size_t part = end == NULL ? bytes : (size_t)(end - text);
        size_t room = log->line_bytes < sizeof log->line ? sizeof log->line - log->line_bytes : 0;
        memcpy(log->line + (sizeof log->line - room), text, part < room ? part : room);
        log->line_bytes += part;
        text += part + (end != NULL);
        bytes -= part + (end != NULL);
        if (end != NULL)
            take_line(log, sink, user);
    }
}

void gw_cudnn_log_end(gw_cudnn_log *log, gw_cudnn_sink *sink, void *user)
{
    if (log->line_bytes > 0)
        take_line(log, sink, user);
    tell(log, sink, user);
}
