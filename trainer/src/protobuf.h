/* Write messages in the encoding of protocol buffers (https://protobuf.dev/programming-guides/encoding). A message is
 * built in memory. If there is not enough memory, the message becomes invalid, and later calls do nothing; check it at
 * the end. One thread at a time may use a message. */
#ifndef TRAINER_PROTOBUF_H
#define TRAINER_PROTOBUF_H

#include "trainer.h"

struct message {
    uint8_t *data; /* owned: free with message_clear() */
    size_t count, room;
    bool has_failed; /* no memory */
};
void message_clear(struct message *message); /* accepts a zeroed struct */

void message_number(struct message *message, unsigned field,
                    uint64_t number); /* int64, uint64, int32 >= 0, enum, bool */
void message_float(struct message *message, unsigned field, float number);
void message_double(struct message *message, unsigned field, double number);
void message_bytes(struct message *message, unsigned field, const void *data, size_t bytes);
void message_text(struct message *message, unsigned field, const char *text);
/* Write a field that is a message: all calls between message_begin() and message_end() write its fields. `begin` is the
 * value that message_begin() returned. */
size_t message_begin(struct message *message, unsigned field);
void message_end(struct message *message, size_t begin);

/* Append `bytes` bytes to the message, and return their address, which is valid until the next call. The bytes have any
 * values; the caller sets them. Returns NULL if there is no memory. Useful inside a field of bytes: message_begin(),
 * message_room(), message_end(). */
void *message_room(struct message *message, size_t bytes);

#endif
