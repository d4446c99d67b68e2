/* Builds the map of a process's device memory. Addresses and sizes come from a recording, so they may overlap, be 0 or
 * reach beyond the last address. */
#include "gwi_map.h"

#include "gwi_escape.h"

#include <stdlib.h>

static const uint64_t page_bytes = (uint64_t)2 << 20;

static uint64_t end_of(const gwi_block *block)
{
    return gwi_sum(block->address, block->bytes);
}

static int compare_blocks(const void *a, const void *b)
{
    const gwi_block *left = a, *right = b;
    return (left->address > right->address) - (left->address < right->address);
}

static int compare_segments(const void *a, const void *b)
{
    const gwi_segment *left = a, *right = b;
    int order = (left->bytes < right->bytes) - (left->bytes > right->bytes);
    return order != 0 ? order : (left->address > right->address) - (left->address < right->address);
}

/* Append a piece to the last segment. */
static void add_piece(gwi_map *map, uint64_t address, uint64_t end, uint8_t colour)
{
    gwi_segment *segment = &map->segment[map->segment_count - 1];
    if (end <= address)
        return;
    map->piece[map->piece_count++] = (gwi_piece){address, end - address, colour};
    segment->count++;
    if (colour != GWI_HOLE) {
        segment->used_bytes = gwi_sum(segment->used_bytes, end - address);
    } else {
        segment->hole_count++;
        if (end - address > segment->hole_bytes_max)
            segment->hole_bytes_max = end - address;
    }
}

static void begin_segment(gwi_map *map, uint64_t address)
{
    map->segment[map->segment_count++] = (gwi_segment){.address = address, .first = map->piece_count};
}

static uint64_t segment_end(const gwi_map *map)
{
    const gwi_segment *segment = &map->segment[map->segment_count - 1];
    return segment->address + segment->bytes;
}

/* Add a block to the last segment, after a hole if there is a gap. */
static void add_block(gwi_map *map, const gwi_block *block)
{
    gwi_segment *segment = &map->segment[map->segment_count - 1];
    uint64_t end = end_of(block), from = block->address;
    if (end <= segment_end(map)) {
        map->ignored_count++;
        return;
    }
    if (from < segment_end(map))
        from = segment_end(map);
    add_piece(map, segment_end(map), from, GWI_HOLE);
    add_piece(map, from, end, block->colour);
    segment->bytes = end - segment->address;
}

/* True if the block is in a page of the last segment, or in the next page. */
static bool is_near(const gwi_map *map, const gwi_block *block)
{
    return map->segment_count > 0 && block->address / page_bytes <= (segment_end(map) - 1) / page_bytes + 1;
}

/* Make segments of blocks that are not part of a known one. */
static void add_loose(gwi_map *map, const gwi_block *block, bool is_apart)
{
    if (is_apart || !is_near(map, block))
        begin_segment(map, block->address);
    add_block(map, block);
}

static void end_known(gwi_map *map, const gwi_block *known)
{
    gwi_segment *segment = &map->segment[map->segment_count - 1];
    add_piece(map, segment_end(map), end_of(known), GWI_HOLE);
    if (end_of(known) > segment_end(map))
        segment->bytes = end_of(known) - segment->address;
}

static size_t drop_empty(gwi_block *block, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (block[i].bytes > 0 && end_of(&block[i]) > block[i].address)
            block[kept++] = block[i];
    }
    return kept;
}

static void build(gwi_map *map, const gwi_block *block, size_t block_count, const gwi_block *known, size_t known_count)
{
    size_t at = 0;
    bool is_apart = true; /* the last segment is a known one, so loose blocks do not extend it */
    for (size_t i = 0; i <= known_count; i++) {
        uint64_t begin = i < known_count ? known[i].address : UINT64_MAX;
        for (; at < block_count && (i == known_count || block[at].address < begin); at++) {
            add_loose(map, &block[at], is_apart);
            is_apart = false;
        }
        if (i == known_count)
            break;
        if (map->segment_count > 0 && begin < segment_end(map) && is_apart && end_of(&known[i]) <= segment_end(map)) {
            map->ignored_count++;
            continue;
        }
        begin_segment(map, begin);
        for (; at < block_count && block[at].address < end_of(&known[i]); at++)
            add_block(map, &block[at]);
        end_known(map, &known[i]);
        is_apart = true;
    }
}

static void sum_up(gwi_map *map)
{
    for (size_t i = 0; i < map->segment_count; i++) {
        map->bytes = gwi_sum(map->bytes, map->segment[i].bytes);
        map->used_bytes = gwi_sum(map->used_bytes, map->segment[i].used_bytes);
        if (map->segment[i].hole_bytes_max > map->hole_bytes_max)
            map->hole_bytes_max = map->segment[i].hole_bytes_max;
    }
    qsort(map->segment, map->segment_count, sizeof *map->segment, compare_segments);
}

bool gwi_map_make(gwi_block *block, size_t block_count, gwi_block *segment, size_t segment_count, gwi_map *ret_map)
{
    *ret_map = (gwi_map){0};
    if (segment == NULL)
        segment_count = 0;
    size_t good = drop_empty(block, block_count), known = segment_count == 0 ? 0 : drop_empty(segment, segment_count);
    if (good + known == 0) {
        ret_map->ignored_count = block_count;
        return true;
    }
    qsort(block, good, sizeof *block, compare_blocks);
    if (known > 0)
        qsort(segment, known, sizeof *segment, compare_blocks);
    /* a block adds at most a hole and itself; a known segment adds at most one hole at its end */
    gwi_map map = {.segment = malloc((good + known) * sizeof *map.segment),
                   .piece = malloc((2 * good + known) * sizeof *map.piece),
                   .ignored_count = block_count - good};
    if (map.segment == NULL || map.piece == NULL) {
        gwi_map_free(&map);
        return false;
    }
    build(&map, block, good, segment, known);
    sum_up(&map);
    *ret_map = map;
    return true;
}

void gwi_map_free(gwi_map *map)
{
    free(map->segment);
    free(map->piece);
    *map = (gwi_map){0};
}
