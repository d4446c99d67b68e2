/* Builds the map of a process's device memory. Addresses and sizes come from a recording, so they may overlap, be 0 or
 * reach beyond the last address. */
#include "gwi_map.h"

#include "gwi_escape.h"

#include <inttypes.h>
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

/* Draws a map of memory as rows of rectangles. Positions are in thousandths of a row. */

enum { ROW_WIDTH = 1000, ROW_HEIGHT = 20 };

static double share(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (double)part / (double)whole;
}

static void open_row(gw_text *page, const char *class_name, double share_of_row)
{
    enum { PERCENT_MIN = 1 };
    double percent = share_of_row * 100;
    gw_text_addf(page, "<svg class=\"%s\" style=\"width:%.2f%%\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\">",
                 class_name, percent < PERCENT_MIN ? PERCENT_MIN : percent, ROW_WIDTH, ROW_HEIGHT);
}

static void rectangle(gw_text *page, double x, double width, double height, uint8_t colour)
{
    gw_text_addf(page, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"", x, ROW_HEIGHT - height,
                 width, height);
    if (colour == GWI_HOLE)
        gw_text_add_str(page, "hole\">");
    else
        gw_text_addf(page, "c%u\">", colour);
}

static void pieces(gw_text *page, const gwi_map *map, const gwi_segment *segment)
{
    for (size_t i = segment->first; i < segment->first + segment->count; i++) {
        const gwi_piece *piece = &map->piece[i];
        rectangle(page, share(piece->address - segment->address, segment->bytes) * ROW_WIDTH,
                  share(piece->bytes, segment->bytes) * ROW_WIDTH, ROW_HEIGHT, piece->colour);
        gw_text_add_str(page, piece->colour == GWI_HOLE ? "<title>free: " : "<title>in use: ");
        gwi_bytes(page, piece->bytes);
        gw_text_addf(page, " at 0x%" PRIx64 "</title></rect>", piece->address);
    }
}

/* Return the bytes of a cell that are in use, and the colour of its largest part. *at is the first piece that may reach
 * into the cell, and is moved on. */
static uint64_t cell_use(const gwi_map *map, const gwi_segment *segment, uint64_t from, uint64_t to, size_t *at,
                         uint8_t *ret_colour)
{
    uint64_t used = 0, by_colour[UINT8_MAX + 1] = {0};
    size_t i = *at;
    for (; i < segment->first + segment->count && map->piece[i].address < to; i++) {
        const gwi_piece *piece = &map->piece[i];
        uint64_t begin = piece->address > from ? piece->address : from;
        uint64_t end = piece->address + piece->bytes < to ? piece->address + piece->bytes : to;
        if (end <= begin || piece->colour == GWI_HOLE)
            continue;
        used += end - begin;
        by_colour[piece->colour] += end - begin;
        if (by_colour[piece->colour] >= by_colour[*ret_colour])
            *ret_colour = piece->colour;
    }
    *at = i > segment->first ? i - 1 : i; /* the last piece may reach into the next cell */
    return used;
}

static void cells(gw_text *page, const gwi_map *map, const gwi_segment *segment)
{
    uint64_t cell_bytes = segment->bytes / GWI_PIECES_SHOWN + 1;
    size_t at = segment->first;
    for (unsigned i = 0; i < GWI_PIECES_SHOWN; i++) {
        uint64_t from = gwi_sum(segment->address, gwi_product(i, cell_bytes)), to = gwi_sum(from, cell_bytes);
        uint64_t end = segment->address + segment->bytes;
        to = to < end ? to : end;
        if (from >= to)
            break;
        uint8_t colour = 0;
        uint64_t used = cell_use(map, segment, from, to, &at, &colour);
        if (used == 0)
            continue;
        rectangle(page, share(from - segment->address, segment->bytes) * ROW_WIDTH,
                  share(to - from, segment->bytes) * ROW_WIDTH, share(used, to - from) * ROW_HEIGHT, colour);
        gw_text_add_str(page, "<title>");
        gwi_bytes(page, used);
        gw_text_add_str(page, " of ");
        gwi_bytes(page, to - from);
        gw_text_add_str(page, " in use</title></rect>");
    }
}

static void label(gw_text *page, const gwi_segment *segment)
{
    gw_text_add_str(page, "<span class=\"maplabel\">");
    gwi_bytes(page, segment->bytes);
    gw_text_add_str(page, "</span>");
}

static void note(gw_text *page, const gwi_segment *segment)
{
    if (segment->hole_count == 0) {
        gw_text_add_str(page, "<span class=\"mapnote\">full</span>");
        return;
    }
    gw_text_add_str(page, "<span class=\"mapnote\">");
    gwi_bytes(page, segment->used_bytes);
    if (segment->hole_count == 1)
        gw_text_add_str(page, " in use, 1 hole: ");
    else
        gw_text_addf(page, " in use, %zu holes, largest ", segment->hole_count);
    gwi_bytes(page, segment->hole_bytes_max);
    gw_text_add_str(page, "</span>");
}

static void row(gw_text *page, const gwi_map *map, const gwi_segment *segment, uint64_t scale)
{
    gw_text_add_str(page, "<div class=\"maprow\">");
    label(page, segment);
    gw_text_add_str(page, "<span class=\"mapbar\">");
    open_row(page, "segment", share(segment->bytes, scale));
    if (segment->count <= GWI_PIECES_SHOWN)
        pieces(page, map, segment);
    else
        cells(page, map, segment);
    gw_text_add_str(page, "</svg></span>");
    note(page, segment);
    gw_text_add_str(page, "</div>\n");
}

static void request(gw_text *page, uint64_t bytes, uint64_t scale)
{
    gw_text_add_str(page, "<div class=\"maprow\"><span class=\"maplabel\">");
    gwi_bytes(page, bytes);
    gw_text_add_str(page, "</span><span class=\"mapbar\">");
    open_row(page, "segment request", share(bytes, scale));
    gw_text_add_str(page, "</svg></span><span class=\"mapnote\">the refused request</span></div>\n");
}

static void rest(gw_text *page, const gwi_map *map)
{
    uint64_t bytes = 0, used = 0;
    for (size_t i = GWI_SEGMENTS_SHOWN; i < map->segment_count; i++) {
        bytes = gwi_sum(bytes, map->segment[i].bytes);
        used = gwi_sum(used, map->segment[i].used_bytes);
    }
    size_t count = map->segment_count - GWI_SEGMENTS_SHOWN;
    gw_text_addf(page, "<p>%zu smaller %s not drawn: ", count, count == 1 ? "segment is" : "segments are");
    gwi_bytes(page, used);
    gw_text_add_str(page, " of ");
    gwi_bytes(page, bytes);
    gw_text_add_str(page, " in use.</p>\n");
}

void gwi_map_svg(gw_text *page, const gwi_map *map, uint64_t wanted_bytes)
{
    bool has_cells = false;
    uint64_t scale =
        map->segment_count > 0 && map->segment[0].bytes > wanted_bytes ? map->segment[0].bytes : wanted_bytes;
    gw_text_add_str(page, "<div class=\"map\">\n");
    if (wanted_bytes > 0)
        request(page, wanted_bytes, scale);
    for (size_t i = 0; i < map->segment_count && i < GWI_SEGMENTS_SHOWN; i++) {
        row(page, map, &map->segment[i], scale);
        has_cells = has_cells || map->segment[i].count > GWI_PIECES_SHOWN;
    }
    if (has_cells)
        gw_text_add_str(page,
                        "<p class=\"dim\">A row with very many blocks is drawn in columns: the height of a column is "
                        "the part of it that is in use.</p>\n");
    if (map->segment_count > GWI_SEGMENTS_SHOWN)
        rest(page, map);
    gw_text_add_str(page, "</div>\n");
}
