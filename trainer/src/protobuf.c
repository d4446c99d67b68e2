/* Write messages in the encoding of protocol buffers: see protobuf.h. */
#include "protobuf.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64_BITS = 1, WIRE_BYTES = 2, WIRE_32_BITS = 5, VARINT_BYTES_MAX = 10, FIRST_ROOM = 4096 };

void message_clear(struct message *message)
{
    free(message->data);
    *message = (struct message){0};
}

void *message_room(struct message *message, size_t bytes)
{
    if (message->has_failed)
        return NULL;
    if (bytes > message->room - message->count) {
        size_t room = message->room < FIRST_ROOM ? FIRST_ROOM : message->room;
        while (room - message->count < bytes && room <= SIZE_MAX / 2)
            room *= 2;
        uint8_t *data = room - message->count < bytes ? NULL : realloc(message->data, room);
        message->has_failed = data == NULL;
        if (data == NULL)
            return NULL;
        message->data = data;
        message->room = room;
    }
    message->count += bytes;
    return message->data + (message->count - bytes);
}

/* Encode the number, seven bits in a byte, the lowest first. Returns the number of bytes. */
static size_t encode(uint64_t number, uint8_t out[VARINT_BYTES_MAX])
{
    size_t count = 0;
    for (; number >= 0x80; number >>= 7)
        out[count++] = (uint8_t)(number | 0x80);
    out[count++] = (uint8_t)number;
    return count;
}

static void append(struct message *message, const void *data, size_t bytes)
{
    void *room = message_room(message, bytes);
    if (room != NULL && bytes > 0)
        memcpy(room, data, bytes);
}

static void append_number(struct message *message, uint64_t number)
{
    uint8_t bytes[VARINT_BYTES_MAX];
    append(message, bytes, encode(number, bytes));
}

static void append_tag(struct message *message, unsigned field, unsigned wire)
{
    append_number(message, (uint64_t)field << 3 | wire);
}

void message_number(struct message *message, unsigned field, uint64_t number)
{
    append_tag(message, field, WIRE_VARINT);
    append_number(message, number);
}

/* Append the lowest bytes of a number, the lowest first. */
static void append_fixed(struct message *message, uint64_t bits, size_t count)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(bits >> 8 * i);
    append(message, bytes, count);
}

void message_float(struct message *message, unsigned field, float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    append_tag(message, field, WIRE_32_BITS);
    append_fixed(message, bits, sizeof bits);
}

void message_double(struct message *message, unsigned field, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    append_tag(message, field, WIRE_64_BITS);
    append_fixed(message, bits, sizeof bits);
}

void message_bytes(struct message *message, unsigned field, const void *data, size_t bytes)
{
    append_tag(message, field, WIRE_BYTES);
    append_number(message, bytes);
    append(message, data, bytes);
}

void message_text(struct message *message, unsigned field, const char *text)
{
    message_bytes(message, field, text, strlen(text));
}

size_t message_begin(struct message *message, unsigned field)
{
    append_tag(message, field, WIRE_BYTES);
    return message->count;
}

/* The length of the field is known only now, and is inserted before its content. */
void message_end(struct message *message, size_t begin)
{
    uint8_t length[VARINT_BYTES_MAX];
    size_t bytes = message->count - begin, length_bytes = encode(bytes, length);
    if (message_room(message, length_bytes) == NULL)
        return;
    memmove(message->data + begin + length_bytes, message->data + begin, bytes);
    memcpy(message->data + begin, length, length_bytes);
}
