/* Draws a map of memory as rows of rectangles, one row for each segment. */
#ifndef GWI_MAP_SVG_H
#define GWI_MAP_SVG_H

#include "gw_text.h"
#include "gwi_map.h"

enum { GWI_SEGMENTS_SHOWN = 16, GWI_PIECES_SHOWN = 300 };

/* Append the map as HTML. The largest segments come first; the others are only counted. A segment with more than
 * GWI_PIECES_SHOWN pieces is divided into equal cells: the height of a cell is the part of it that is in use.
 * `wanted_bytes`: a request to draw at the same scale; 0: none. */
void gwi_map_svg(gw_text *page, const gwi_map *map, uint64_t wanted_bytes);

#endif
