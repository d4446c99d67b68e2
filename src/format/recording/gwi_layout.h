/* The byte layout of a recording (docs/recording-format.md):
 *
 *   file header | block | block | ... | END block
 *
 * All numbers are little-endian, like all supported machines, so no number is converted. */
#ifndef GWI_LAYOUT_H
#define GWI_LAYOUT_H

#include "gw_magic.h"
#include "gw_recording.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "integers are written as they lie in memory");

enum {
    GWI_FILE_VERSION = 1,
    GWI_FILE_HEAD_BYTES = 32,
    GWI_BLOCK_HEAD_BYTES = 32,
    GWI_BLOCK_RAW_MAX = 1 << 20,   /* maximum size of an unpacked block */
    GWI_BLOCK_RAW_GOAL = 256 << 10 /* a block is written when it has about this size */
};

/* Offsets: 0 magic[8], 8 u32 version, 12 u32 reserved, 16 u64 realtime ns of creation, 24 u32 reserved, 28 u32 CRC of
 * the bytes 0 to 27. */
typedef struct gwi_file_head {
    char magic[8];
    uint32_t version;
    uint32_t reserved0;
    uint64_t created_realtime_ns;
    uint32_t reserved1;
    uint32_t head_crc;
} gwi_file_head;
_Static_assert(sizeof(gwi_file_head) == GWI_FILE_HEAD_BYTES, "as in the document");

/* First bytes of a block. They cannot occur in text, and occur in compressed data only by chance (at one position in
 * 2^32). */
#define GWI_BLOCK_MARKER 0xb1f5c3a7u

typedef enum gwi_block_type {
    GWI_BLOCK_DICT = 1,   /* names of kinds, counters and functions */
    GWI_BLOCK_FACTS = 2,  /* items that are never dropped: META, PROCESS, EXIT, MAPS, SUPERVISOR, SYMBOL, MACHINE */
    GWI_BLOCK_EVENTS = 3, /* events; near the size limit the oldest blocks are dropped */
    GWI_BLOCK_CARRY = 4, /* events that were kept when other events of their blocks were dropped; encoded like EVENTS */
    GWI_BLOCK_STATE = 5, /* COUNTERS, RING, LOST: a newer item replaces the older ones of its thread or process */
    GWI_BLOCK_STDERR = 6, /* STDERR; near the size limit the oldest blocks are dropped */
    GWI_BLOCK_SYNC = 7,   /* end of a flush, with marks that show how far each chunk was read (gwi_mark) */
    GWI_BLOCK_END = 8,    /* the end of the recording */
    GWI_BLOCK_SAMPLES = 9 /* SAMPLE; near the size limit, only the first and last full sample of each object are kept */
} gwi_block_type;

enum { GWI_CODEC_NONE = 0, GWI_CODEC_ZSTD = 1 };

typedef struct gwi_block_head {
    uint32_t marker;
    uint8_t type;
    uint8_t codec;
    uint16_t reserved16;
    uint32_t stored_bytes;
    uint32_t raw_bytes;
    uint32_t sequence; /* number of the block in the file, from 0; a gap means that whole blocks are missing */
    uint32_t reserved32;
    uint32_t stored_crc; /* CRC of the stored bytes after this header */
    uint32_t head_crc;   /* CRC of the 28 bytes before this field */
} gwi_block_head;
_Static_assert(sizeof(gwi_block_head) == GWI_BLOCK_HEAD_BYTES, "as in the document");

/* Codes of items in FACTS, STATE, STDERR and SAMPLES blocks. The codes never change; the values of gw_item_kind may
 * change. */
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
    GWI_TEMPLATES_MAX = 4096, /* maximum number of templates in one block */
    GWI_TEMPLATE_WIDE = 254,  /* first byte of an event: the u16 index of its template follows */
    GWI_TEMPLATE_NEW = 255,   /* first byte of an event: the definition of a new template follows */
    GWI_TEMPLATE_BYTES = 22,
    GWI_EVENT_BYTES_MAX = 96, /* maximum size of one event without its text, rounded up */
    GWI_SLACK_BYTES = 128 /* number of zeros after an unpacked block: a decoder reads before it checks for the end */
};

/* Bits of the control word of an event. The first four show which optional fields follow. */
enum {
    GWI_CONTROL_TOOK = 1 << 20,
    GWI_CONTROL_SITE = 1 << 21,
    GWI_CONTROL_EXTRA = 1 << 22,
    GWI_CONTROL_TEXT = 1 << 23,
    GWI_CONTROL_LENGTHS = 0xfffff, /* five nibbles: lengths in bytes of the time and of the four arguments */
    GWI_CONTROL_LENGTHS_HIGH = 0x88888,
    GWI_CONTROL_LENGTHS_LATTER = 0xff000 /* the lengths of the last two arguments */
};

static inline uint64_t gwi_zigzag(uint64_t delta)
{
    return (delta << 1) ^ (uint64_t)((int64_t)delta >> 63);
}

static inline uint64_t gwi_unzigzag(uint64_t code)
{
    return (code >> 1) ^ (0 - (code & 1));
}

/* Masks that keep the low bytes of a word. The index is the number of bytes to keep, 0 to 8. The decoder rejects
 * greater lengths. */
static const uint64_t gwi_length_mask[16] = {
    0, 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff, 0xffffffffffffffff};

static inline unsigned gwi_length_of(uint64_t value)
{
    return value == 0 ? 0 : (unsigned)(71 - __builtin_clzll(value)) / 8;
}

/* ---- CRC-32C (Castagnoli), the checksum that iSCSI and ext4 use; the same on every processor ---- */

/* Extend the checksum `crc` by the given bytes and return the result. Pass 0 as `crc` in the first call. */
uint32_t gwi_crc32c(uint32_t crc, const void *data, size_t bytes);

/* Compute the same checksum from tables. Used on machines that lack the CRC instruction, and by the test. */
uint32_t gwi_crc32c_by_table(uint32_t crc, const void *data, size_t bytes);

#endif
