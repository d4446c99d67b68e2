/* The parts of the Perfetto exporter: the schema's numbers, tracks and names (perfetto_trace.c), and what each item
 * becomes (perfetto.c).
 *
 * The field numbers are from the schema that Perfetto publishes, https://github.com/google/perfetto, folder
 * protos/perfetto/trace: trace.proto, trace_packet.proto, interned_data/interned_data.proto and, in track_event/,
 * track_event.proto, track_descriptor.proto, process_descriptor.proto, thread_descriptor.proto,
 * counter_descriptor.proto and debug_annotation.proto. tests/cmd/test_perfetto.py reads a trace with the compiled
 * schema of the package `perfetto` on PyPI. */
#ifndef GWI_PERFETTO_H
#define GWI_PERFETTO_H

#include "gw_export.h"
#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PF_TRACE_PACKET = 1 };
enum { /* TracePacket */
       PF_PACKET_TIMESTAMP = 8,
       PF_PACKET_SEQUENCE_ID = 10,
       PF_PACKET_TRACK_EVENT = 11,
       PF_PACKET_INTERNED_DATA = 12,
       PF_PACKET_SEQUENCE_FLAGS = 13,
       PF_PACKET_TRACK_DESCRIPTOR = 60
};
enum { PF_SEQ_INCREMENTAL_STATE_CLEARED = 1, PF_SEQ_NEEDS_INCREMENTAL_STATE = 2 };
enum { /* TrackDescriptor */
       PF_TRACK_UUID = 1,
       PF_TRACK_NAME = 2,
       PF_TRACK_PROCESS = 3,
       PF_TRACK_THREAD = 4,
       PF_TRACK_PARENT_UUID = 5,
       PF_TRACK_COUNTER = 8
};
enum { PF_PROCESS_PID = 1, PF_PROCESS_NAME = 6 };
enum { PF_THREAD_PID = 1, PF_THREAD_TID = 2, PF_THREAD_NAME = 5 };
enum { PF_COUNTER_UNIT = 3, PF_COUNTER_UNIT_NAME = 6, PF_UNIT_SIZE_BYTES = 3 };
enum { /* TrackEvent */
       PF_EVENT_CATEGORY_IIDS = 3,
       PF_EVENT_DEBUG_ANNOTATIONS = 4,
       PF_EVENT_TYPE = 9,
       PF_EVENT_NAME_IID = 10,
       PF_EVENT_TRACK_UUID = 11,
       PF_EVENT_NAME = 23,
       PF_EVENT_COUNTER_VALUE = 30
};
enum { PF_TYPE_SLICE_BEGIN = 1, PF_TYPE_SLICE_END = 2, PF_TYPE_INSTANT = 3, PF_TYPE_COUNTER = 4 };
enum { /* DebugAnnotation */
       PF_NOTE_NAME_IID = 1,
       PF_NOTE_UINT = 3,
       PF_NOTE_STRING = 6,
       PF_NOTE_POINTER = 7,
       PF_NOTE_NAME = 10
};
enum { PF_INTERNED_CATEGORIES = 1, PF_INTERNED_EVENT_NAMES = 2, PF_INTERNED_NOTE_NAMES = 3 };
enum { PF_INTERNED_IID = 1, PF_INTERNED_NAME = 2 };

/* The kinds of tracks. `a` and `b` tell the tracks of a kind apart: the columns. */
typedef enum gwi_track_kind {
    GWI_TRACK_MACHINE, /* the machine and the recording itself */
    GWI_TRACK_OTHERS,  /* used if there are too many tracks */
    GWI_TRACK_PROCESS, /* pid, 0 */
    GWI_TRACK_THREAD,  /* pid, tid */
    GWI_TRACK_STREAM,  /* pid, stream */
    GWI_TRACK_PHASES,  /* pid, 0 */
    GWI_TRACK_MEMORY,  /* pid, gwi_curve_what | device << 8 */
    GWI_TRACK_METRIC   /* card, metric */
} gwi_track_kind;

typedef struct gwi_track {
    uint64_t uuid;      /* 0: a free place of the table */
    uint64_t t_busy_ns; /* end of the last slice; slices of a track must not overlap */
    uint64_t ring_next; /* of a thread: number of the first call of its ring that was not exported yet */
    uint64_t t_ring_ns; /* of a thread: time of the last call of its ring that was exported */
    bool is_open;       /* of the phases of a process: a slice has begun and not ended */
    bool is_named;      /* of a process or thread: its name was written */
} gwi_track;

enum { GWI_NAMES_MAX = 1 << 14 };

typedef struct gwi_names { /* interned strings of one kind; the number of a string is its place + 1 */
    char **item;           /* owned */
    uint32_t *place;       /* owned; a hash table of numbers, 0: free */
    size_t count, capacity, places;
} gwi_names;

typedef struct gwi_trace {
    FILE *file;       /* borrowed */
    gwi_track *track; /* owned; a hash table */
    size_t track_count, track_places;
    gwi_names names[3]; /* categories, event names, names of annotations */
    /* the packet that is being built */
    gw_text packet, event, interned, part, inner;
    bool has_begun;
    bool failed; /* out of memory */
} gwi_trace;

void gwi_trace_free(gwi_trace *trace);

/* Return the track, and write its descriptor when it is first used. `name` is NULL if it is not known yet, or is not
 * needed. Valid until the next call. Never NULL: if there are too many tracks, or no memory, returns one for all
 * others.
 */
gwi_track *gwi_trace_track(gwi_trace *trace, gwi_track_kind kind, uint64_t a, uint64_t b, const char *name);

/* Write an event: gwi_trace_begin(), then annotations, then gwi_trace_end(). `name` and `category` are interned, so
 * they must be from a limited set; NULL: none. Times beyond INT64_MAX are written as INT64_MAX. */
void gwi_trace_begin(gwi_trace *trace, const gwi_track *track, unsigned type, const char *name, const char *category);
void gwi_trace_note_number(gwi_trace *trace, const char *name, uint64_t value);
void gwi_trace_note_address(gwi_trace *trace, const char *name, uint64_t value);
void gwi_trace_note_text(gwi_trace *trace, const char *name, const char *text);
void gwi_trace_end(gwi_trace *trace, uint64_t t_ns);
/* Write a value of a counter. Values beyond INT64_MAX are written as INT64_MAX. */
void gwi_trace_count(gwi_trace *trace, const gwi_track *track, uint64_t t_ns, uint64_t value);
/* Like gwi_trace_begin(), for an event whose name is not from a limited set. */
void gwi_trace_begin_named(gwi_trace *trace, const gwi_track *track, unsigned type, const char *name);

/* Encodes protobuf's wire format (protobuf.dev, "Encoding"): a message is a list of fields, each with a number.
 *
 * Example: field 1 with the number 150 is 08 96 01; field 2 with the string "hi" is 12 02 68 69. If memory runs out,
 * the message stays unchanged and `failed` is set, as with all uses of gw_text. */

/* Append a number as groups of 7 bits, the lowest first. */
void gwi_wire_varint(gw_text *message, uint64_t value);
/* Append a field with a number: uint64, int64, int32, bool or an enum. Negative numbers are passed as (uint64_t). */
void gwi_wire_number(gw_text *message, unsigned field, uint64_t value);
/* Append what precedes `count` bytes of a field. */
void gwi_wire_head(gw_text *message, unsigned field, size_t count);
/* Append a field with bytes: a string, which must be UTF-8, or a message. */
void gwi_wire_bytes(gw_text *message, unsigned field, const char *bytes, size_t count);
/* Append a field with a string of unknown origin. Invalid UTF-8 is replaced, and a long text is cut. */
void gwi_wire_string(gw_text *message, unsigned field, const char *string);
/* Append a field with a message, which is then empty. */
void gwi_wire_message(gw_text *message, unsigned field, gw_text *inner);

#endif
