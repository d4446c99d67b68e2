/* Protobuf's wire format. */
#include "gwi_wire.h"

#include "gw_text.h"

enum { TYPE_VARINT = 0, TYPE_BYTES = 2, TYPE_BITS = 3, VARINT_BYTES_MAX = 10, STRING_BYTES_MAX = 4096 };

void gwi_wire_varint(gw_text *message, uint64_t value)
{
    char bytes[VARINT_BYTES_MAX];
    size_t count = 0;
    do {
        unsigned low = value & 0x7f;
        value >>= 7;
        bytes[count++] = (char)(low | (value != 0 ? 0x80u : 0));
    } while (value != 0);
    gw_text_add(message, bytes, count);
}

static void add_tag(gw_text *message, unsigned field, unsigned type)
{
    gwi_wire_varint(message, (uint64_t)field << TYPE_BITS | type);
}

void gwi_wire_number(gw_text *message, unsigned field, uint64_t value)
{
    add_tag(message, field, TYPE_VARINT);
    gwi_wire_varint(message, value);
}

void gwi_wire_head(gw_text *message, unsigned field, size_t count)
{
    add_tag(message, field, TYPE_BYTES);
    gwi_wire_varint(message, count);
}

void gwi_wire_bytes(gw_text *message, unsigned field, const char *bytes, size_t count)
{
    gwi_wire_head(message, field, count);
    gw_text_add(message, bytes, count);
}

void gwi_wire_string(gw_text *message, unsigned field, const char *string)
{
    gw_text part = {0}, clean = {0};
    gw_text_add(&part, string, strnlen(string, STRING_BYTES_MAX));
    gw_add_utf8(&clean, gw_text_str(&part));
    gwi_wire_bytes(message, field, gw_text_str(&clean), clean.bytes);
    message->failed = message->failed || part.failed || clean.failed;
    gw_text_free(&part);
    gw_text_free(&clean);
}

void gwi_wire_message(gw_text *message, unsigned field, gw_text *inner)
{
    gwi_wire_bytes(message, field, gw_text_str(inner), inner->bytes);
    message->failed = message->failed || inner->failed;
    gw_text_clear(inner);
}
