/* The map of a process's device memory: segments, and in each segment blocks and holes.
 *
 * Without a framework's allocator, a segment is a run of the driver's blocks that share or touch pages of 2 MiB. With
 * one, it is a piece of memory that the allocator requested from the driver, and the blocks are the allocator's. */
#ifndef GWI_MAP_H
#define GWI_MAP_H

#include "gw_memory_facts.h"
#include "gw_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A block of memory in the map. */
typedef struct gwi_block {
    uint64_t address, bytes;
    uint8_t colour; /* index of its holder's colour */
} gwi_block;

enum { GWI_HOLE = UINT8_MAX };

/* Part of a segment: a block, or a hole. */
typedef struct gwi_piece {
    uint64_t address, bytes; /* bytes is not 0, and address + bytes does not wrap */
    uint8_t colour;          /* GWI_HOLE: free */
} gwi_piece;

typedef struct gwi_segment {
    uint64_t address, bytes, used_bytes;
    uint64_t hole_bytes_max; /* largest hole; 0: none */
    size_t hole_count;
    size_t first, count; /* its pieces in gwi_map.piece */
} gwi_segment;

typedef struct gwi_map {
    gwi_segment *segment; /* owned; largest first */
    size_t segment_count;
    gwi_piece *piece; /* owned; by address within a segment */
    size_t piece_count;
    uint64_t bytes, used_bytes; /* sums over all segments; UINT64_MAX: at least that */
    uint64_t hole_bytes_max;
    size_t ignored_count; /* blocks that were ignored: size 0, or inside another block */
} gwi_map;

/* Build the map. `segment` lists the driver's memory that an allocator divides, NULL if no allocator is known. Both
 * lists are sorted here. Blocks outside all segments become segments of their own. Returns false, with an empty map, if
 * there is no memory. */
bool gwi_map_make(gwi_block *block, size_t block_count, gwi_block *segment, size_t segment_count, gwi_map *ret_map);
void gwi_map_free(gwi_map *map);

/* Draws a map of memory as rows of rectangles, one row for each segment. */

enum { GWI_SEGMENTS_SHOWN = 16, GWI_PIECES_SHOWN = 300 };

/* Append the map as HTML. The largest segments come first; the others are only counted. A segment with more than
 * GWI_PIECES_SHOWN pieces is divided into equal cells: the height of a cell is the part of it that is in use.
 * `wanted_bytes`: a request to draw at the same scale; 0: none. */
void gwi_map_svg(gw_text *page, const gwi_map *map, uint64_t wanted_bytes);

#endif
