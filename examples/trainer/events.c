/* Write TensorBoard's event files: see events.h. The field numbers are those of event.proto and summary.proto in
 * TensorFlow. */
#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, TAG_BYTES_MAX = 64, SCALARS_MAX = 16, RECORD_BYTES_MAX = 4096, NAMES_MAX = 1000 };

struct events {
    FILE *file;
    char path[PATH_BYTES];
    int error; /* errno of the first failed write; 0: none */
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

/* ---- protocol buffers ---- */

/* A message in the making. All messages here are far smaller than the room. */
struct message {
    uint8_t data[RECORD_BYTES_MAX];
    size_t bytes;
};

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void put_byte(struct message *message, uint8_t byte)
{
    if (message->bytes < sizeof message->data)
        message->data[message->bytes++] = byte;
}

static void put_varint(struct message *message, uint64_t number)
{
    for (; number >= 128; number >>= 7)
        put_byte(message, (uint8_t)(number | 128));
    put_byte(message, (uint8_t)number);
}

static void put_key(struct message *message, unsigned field, enum wire wire)
{
    put_varint(message, field << 3 | (unsigned)wire);
}

static void put_fixed(struct message *message, uint64_t bits, int bytes)
{
    for (int i = 0; i < bytes; i++)
        put_byte(message, (uint8_t)(bits >> 8 * i));
}

static void put_double(struct message *message, unsigned field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(message, field, WIRE_64);
    put_fixed(message, bits, 8);
}

static void put_float(struct message *message, unsigned field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(message, field, WIRE_32);
    put_fixed(message, bits, 4);
}

static void put_bytes(struct message *message, unsigned field, const void *data, size_t bytes)
{
    put_key(message, field, WIRE_BYTES);
    put_varint(message, bytes);
    for (size_t i = 0; i < bytes; i++)
        put_byte(message, ((const uint8_t *)data)[i]);
}

/* Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7 */
static void begin_event(struct message *event, uint64_t step)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    event->bytes = 0;
    put_double(event, 1, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    put_key(event, 2, WIRE_VARINT);
    put_varint(event, step);
}

/* Summary.Value: tag = 1, simple_value = 2 */
static void put_scalar(struct message *summary, const struct scalar *scalar)
{
    struct message value;
    size_t bytes = strlen(scalar->tag);
    value.bytes = 0;
    put_bytes(&value, 1, scalar->tag, bytes < TAG_BYTES_MAX ? bytes : TAG_BYTES_MAX);
    put_float(&value, 2, (float)scalar->value);
    put_bytes(summary, 1, value.data, value.bytes);
}
_Static_assert(SCALARS_MAX *(TAG_BYTES_MAX + 16) + 64 < RECORD_BYTES_MAX, "an event has room");

/* ---- records ---- */

static void write_record(struct events *events, const struct message *event)
{
    struct message front = {.bytes = 0}, back = {.bytes = 0};
    put_fixed(&front, event->bytes, 8);
    put_fixed(&front, masked_crc(front.data, 8), 4);
    put_fixed(&back, masked_crc(event->data, event->bytes), 4);
    if (events->error != 0)
        return;
    errno = 0;
    if (fwrite(front.data, 1, front.bytes, events->file) != front.bytes ||
        fwrite(event->data, 1, event->bytes, events->file) != event->bytes ||
        fwrite(back.data, 1, back.bytes, events->file) != back.bytes || fflush(events->file) != 0)
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
    static const char version[] = "brain.Event:2";
    struct events *events = calloc(1, sizeof *events);
    struct message event;
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
    begin_event(&event, 0);
    put_bytes(&event, 3, version, sizeof version - 1);
    write_record(events, &event);
    *ret_events = events;
    return true;
}

/* SessionLog: status = 1; START = 1 */
void events_begin(struct events *events, uint64_t step)
{
    struct message event, session = {.bytes = 0};
    begin_event(&event, step);
    put_key(&session, 1, WIRE_VARINT);
    put_varint(&session, 1);
    put_bytes(&event, 7, session.data, session.bytes);
    write_record(events, &event);
}

void events_write(struct events *events, uint64_t step, const struct scalar *scalars, size_t count)
{
    struct message event, summary = {.bytes = 0};
    for (size_t i = 0; i < count && i < SCALARS_MAX; i++)
        put_scalar(&summary, &scalars[i]);
    begin_event(&event, step);
    put_bytes(&event, 5, summary.data, summary.bytes);
    write_record(events, &event);
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
    free(events);
    return is_well;
}
