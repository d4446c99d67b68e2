/* Write TensorBoard's event files: see events.h. The field numbers are those of event.proto and summary.proto in
 * TensorFlow. */
#include "events.h"

#include "protobuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, NAMES_MAX = 1000 };

struct events {
    FILE *file;
    char path[PATH_BYTES];
    struct message event; /* the current event; its memory is used again */
    int error;            /* errno of the first failed write; 0: none */
};

/* ---- checksums ---- */

uint32_t events_crc(const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
    }
    return ~crc;
}

static uint32_t masked_crc(const void *data, size_t bytes)
{
    uint32_t crc = events_crc(data, bytes);
    return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

/* ---- events ---- */

/* Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7 */
static struct message *begin_event(struct events *events, uint64_t step)
{
    struct timespec now;
    struct message *event = &events->event;
    clock_gettime(CLOCK_REALTIME, &now);
    event->count = 0;
    message_double(event, 1, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    message_number(event, 2, step);
    return event;
}

/* Summary: value = 1; Summary.Value: tag = 1, simple_value = 2 */
static void add_scalar(struct message *event, const struct scalar *scalar)
{
    size_t value = message_begin(event, 1);
    message_text(event, 1, scalar->tag);
    message_float(event, 2, (float)scalar->value);
    message_end(event, value);
}

/* ---- records ---- */

static void put_number(uint8_t *at, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(number >> 8 * i);
}

/* Write the current event. */
static void write_record(struct events *events)
{
    const struct message *event = &events->event;
    uint8_t front[12], back[4];
    if (event->has_failed && events->error == 0)
        events->error = ENOMEM;
    if (events->error != 0)
        return;
    put_number(front, event->count, 8);
    put_number(front + 8, masked_crc(front, 8), 4);
    put_number(back, masked_crc(event->data, event->count), 4);
    errno = 0;
    if (fwrite(front, 1, sizeof front, events->file) != sizeof front ||
        fwrite(event->data, 1, event->count, events->file) != event->count ||
        fwrite(back, 1, sizeof back, events->file) != sizeof back || fflush(events->file) != 0)
        events->error = errno != 0 ? errno : EIO;
}

static FILE *create(const char *folder, char path[PATH_BYTES])
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    for (int number = 0; number < NAMES_MAX; number++) {
        if (snprintf(path, PATH_BYTES, "%s/events.out.tfevents.%010lld.%s.%d.%d", folder, (long long)time(NULL), host,
                     (int)getpid(), number) >= PATH_BYTES) {
            errno = ENAMETOOLONG;
            return NULL;
        }
        FILE *file = fopen(path, "wxe");
        if (file != NULL || errno != EEXIST)
            return file;
    }
    return NULL;
}

bool events_open(const char *folder, struct events **ret_events, struct reason *reason)
{
    struct events *events = calloc(1, sizeof *events);
    if (events == NULL)
        return because(reason, "no host memory for event files");
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        because(reason, "%s: cannot create the folder: %s", folder, strerror(errno));
    else if ((events->file = create(folder, events->path)) == NULL)
        because(reason, "%s: cannot create a file in it: %s", folder, strerror(errno));
    if (events->file == NULL) {
        free(events);
        return false;
    }
    message_text(begin_event(events, 0), 3, "brain.Event:2");
    write_record(events);
    *ret_events = events;
    return true;
}

/* SessionLog: status = 1; START = 1 */
void events_begin(struct events *events, uint64_t step)
{
    struct message *event = begin_event(events, step);
    size_t session = message_begin(event, 7);
    message_number(event, 1, 1);
    message_end(event, session);
    write_record(events);
}

void events_write(struct events *events, uint64_t step, const struct scalar *scalars, size_t count)
{
    struct message *event = begin_event(events, step);
    size_t summary = message_begin(event, 5);
    for (size_t i = 0; i < count; i++)
        add_scalar(event, &scalars[i]);
    message_end(event, summary);
    write_record(events);
}

bool events_close(struct events *events, struct reason *reason)
{
    bool is_well = true;
    if (events == NULL)
        return true;
    if (fclose(events->file) != 0 && events->error == 0)
        events->error = errno;
    if (events->error != 0)
        is_well = because(reason, "%s: %s", events->path, strerror(events->error));
    message_clear(&events->event);
    free(events);
    return is_well;
}
