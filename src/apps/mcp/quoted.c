/* Makes what is quoted from programs, logs and files safe to return: masked, printable and bounded. */
#include "gwi_mcp.h"

#include "gw_mask.h"
#include "gw_say.h"

#include <string.h>

static const char mark[] = "[cut by gpuwhy]";
enum { STRING_BYTES_MAX = 4 << 10, VALUE_BYTES = 16 }; /* VALUE_BYTES: what any value takes, for its punctuation */

/* Append lines. Control characters within them become '?'. */
static void add_lines(const char *from, gw_text *to)
{
    gw_text line = {0};
    for (const char *at = from; *at != '\0';) {
        size_t bytes = strcspn(at, "\n");
        gw_text_clear(&line);
        gw_text_add(&line, at, bytes);
        gw_add_printable(to, gw_text_str(&line));
        at += bytes;
        if (*at == '\n') {
            gw_text_add(to, "\n", 1);
            at++;
        }
    }
    to->failed = to->failed || line.failed;
    gw_text_free(&line);
}

/* Append at most `bytes_max` bytes of valid UTF-8, and a mark if more are there. Returns true if it was cut. */
static bool add_cut(const gw_text *from, size_t bytes_max, gw_text *to)
{
    size_t bytes = from->bytes;
    if (bytes > bytes_max) {
        bytes = bytes_max;
        while (bytes > 0 && ((unsigned char)from->data[bytes] & 0xC0) == 0x80)
            bytes--;
    }
    gw_text_add(to, gw_text_str(from), bytes);
    if (bytes == from->bytes)
        return false;
    gw_text_add_str(to, mark);
    return true;
}

static void add_quoted(const char *from, size_t bytes_max, gwi_mcp_room *room, gw_text *to)
{
    gw_text plain = {0}, masked = {0}, clean = {0};
    gw_paint_remove(from, &plain);
    gw_mask_text(&masked, gw_text_str(&plain), plain.bytes);
    add_lines(gw_text_str(&masked), &clean);
    size_t bytes = bytes_max < room->bytes ? bytes_max : room->bytes;
    room->is_cut = add_cut(&clean, bytes, to) || room->is_cut;
    room->bytes -= clean.bytes < bytes ? clean.bytes : bytes;
    to->failed = to->failed || plain.failed || masked.failed || clean.failed;
    gw_text_free(&plain);
    gw_text_free(&masked);
    gw_text_free(&clean);
}

void gwi_mcp_add_quoted(const char *from, gwi_mcp_room *room, gw_text *to)
{
    add_quoted(from, room->bytes, room, to);
}

static json_object *quote_string(const char *from, gwi_mcp_room *room)
{
    gw_text text = {0};
    add_quoted(from, STRING_BYTES_MAX, room, &text);
    json_object *object = json_object_new_string_len(gw_text_str(&text), (int)text.bytes);
    gw_text_free(&text);
    return object;
}

/* Take the room of one value. Returns false if there is none. */
static bool take_room(gwi_mcp_room *room)
{
    bool has = room->bytes >= VALUE_BYTES;
    room->bytes -= has ? VALUE_BYTES : 0;
    room->is_cut = room->is_cut || !has;
    return has;
}

static json_object *quote_array(json_object *from, gwi_mcp_room *room)
{
    json_object *array = json_object_new_array();
    for (size_t i = 0; i < json_object_array_length(from) && take_room(room); i++)
        json_object_array_add(array, gwi_mcp_quote(json_object_array_get_idx(from, i), room));
    return array;
}

static json_object *quote_object(json_object *from, gwi_mcp_room *room)
{
    json_object *object = json_object_new_object();
    json_object_object_foreach(from, name, value)
    {
        gw_text clean = {0};
        if (!take_room(room))
            break;
        add_quoted(name, STRING_BYTES_MAX, room, &clean);
        json_object_object_add(object, gw_text_str(&clean), gwi_mcp_quote(value, room));
        gw_text_free(&clean);
    }
    return object;
}

json_object *gwi_mcp_quote(json_object *from, gwi_mcp_room *room)
{
    switch (json_object_get_type(from)) {
    case json_type_string:
        return quote_string(json_object_get_string(from), room);
    case json_type_array:
        return quote_array(from, room);
    case json_type_object:
        return quote_object(from, room);
    default:
        return json_object_get(from);
    }
}
