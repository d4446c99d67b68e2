/* The bytes of a recording, shared by writer, reader and compaction. docs/recording-format.md says the same in words.
 *
 *   file header | block | block | ... | END block
 *
 * Everything is little-endian, and so are the machines we run on. */
#ifndef GWI_LAYOUT_H
#define GWI_LAYOUT_H

#include "gw_recording.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "integers are written as they lie in memory");

#define GWI_FILE_MAGIC "GPUWHY\r\n"
enum {
    GWI_FILE_VERSION = 1,
    GWI_FILE_HEAD_BYTES = 32,
    GWI_BLOCK_HEAD_BYTES = 32,
    GWI_BLOCK_RAW_MAX = 1 << 20,   /* no block unpacks to more */
    GWI_BLOCK_RAW_GOAL = 256 << 10 /* a block is written when it nears this */
};

/* 0: magic[8]  8: u32 version  12: u32 reserved  16: u64 realtime ns of creation  24: u32 reserved  28: u32 crc of
 * 0..27 */
typedef struct gwi_file_head {
    char magic[8];
    uint32_t version;
    uint32_t reserved0;
    uint64_t created_realtime_ns;
    uint32_t reserved1;
    uint32_t head_crc;
} gwi_file_head;
_Static_assert(sizeof(gwi_file_head) == GWI_FILE_HEAD_BYTES, "as in the document");

/* Bytes that text cannot hold and that packed data holds by chance once in 2^32. */
#define GWI_BLOCK_MARKER 0xb1f5c3a7u

typedef enum gwi_block_type {
    GWI_BLOCK_DICT = 1,   /* names of kinds, counters and functions */
    GWI_BLOCK_FACTS = 2,  /* items that are always kept: META, PROCESS, EXIT, MAPS, SUPERVISOR, MACHINE */
    GWI_BLOCK_EVENTS = 3, /* events; the oldest are dropped when the limit nears */
    GWI_BLOCK_CARRY = 4,  /* events that outlived the dropping of their block; coded like EVENTS */
    GWI_BLOCK_STATE = 5,  /* items that supersede each other: COUNTERS, RING, LOST */
    GWI_BLOCK_STDERR = 6, /* STDERR; the oldest are dropped */
    GWI_BLOCK_SYNC = 7,   /* a flush: all blocks before it belong together; holds the DRAINED marks */
    GWI_BLOCK_END = 8,    /* nothing follows */
    GWI_BLOCK_SAMPLES = 9 /* SAMPLE; when the limit nears, the first and the last whole one of each thing stay */
} gwi_block_type;

enum { GWI_CODEC_NONE = 0, GWI_CODEC_ZSTD = 1 };

typedef struct gwi_block_head {
    uint32_t marker;
    uint8_t type;
    uint8_t codec;
    uint16_t reserved16;
    uint32_t stored_bytes;
    uint32_t raw_bytes;
    uint32_t sequence; /* of the block in the file, from 0: a gap means that whole blocks are gone */
    uint32_t reserved32;
    uint32_t stored_crc; /* of the bytes that follow */
    uint32_t head_crc;   /* of the 28 bytes before */
} gwi_block_head;
_Static_assert(sizeof(gwi_block_head) == GWI_BLOCK_HEAD_BYTES, "as in the document");

/* Codes of items in FACTS, STATE and STDERR blocks. Never renumbered: gw_item_kind may be. */
enum {
    GWI_CODE_META = 1,
    GWI_CODE_PROCESS = 2,
    GWI_CODE_COUNTERS = 3,
    GWI_CODE_RING = 4,
    GWI_CODE_LOST = 5,
    GWI_CODE_STDERR = 6,
    GWI_CODE_EXIT = 7,
    GWI_CODE_MAPS = 8,
    GWI_CODE_SUPERVISOR = 9,
    GWI_CODE_SYMBOL = 10,
    GWI_CODE_SAMPLE = 11,
    GWI_CODE_MACHINE = 12
};

enum {
    GWI_FN_UNKNOWN = 0xffff,
    GWI_TEMPLATES_MAX = 4096, /* of a block of events */
    GWI_TEMPLATE_WIDE = 254,  /* a u16 index follows */
    GWI_TEMPLATE_NEW = 255,   /* a definition follows */
    GWI_TEMPLATE_BYTES = 22,
    GWI_EVENT_BYTES_MAX = 96, /* of one event without its text, rounded up */
    GWI_SLACK_BYTES = 128     /* readable zeros behind an unpacked block: a decoder looks before it checks */
};

/* Which bits of an event's control word say what. */
enum {
    GWI_CONTROL_TOOK = 1 << 20,
    GWI_CONTROL_SITE = 1 << 21,
    GWI_CONTROL_EXTRA = 1 << 22,
    GWI_CONTROL_TEXT = 1 << 23,
    GWI_CONTROL_LENGTHS = 0xfffff, /* five nibbles: bytes of the time and of the four arguments */
    GWI_CONTROL_LENGTHS_HIGH = 0x88888,
    GWI_CONTROL_LENGTHS_LATTER = 0xff000 /* of the last two arguments */
};

static inline uint64_t gwi_zigzag(uint64_t delta)
{
    return (delta << 1) ^ (uint64_t)((int64_t)delta >> 63);
}

static inline uint64_t gwi_unzigzag(uint64_t code)
{
    return (code >> 1) ^ (0 - (code & 1));
}

/* Low bytes of a little-endian word: mask for a length of 0 to 8; longer lengths are refused before. */
static const uint64_t gwi_length_mask[16] = {
    0, 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff, 0xffffffffffffffff};

static inline unsigned gwi_length_of(uint64_t value)
{
    return value == 0 ? 0 : (unsigned)(71 - __builtin_clzll(value)) / 8;
}

#endif
