/* The frame of a section. */
#include "gwi_sections.h"

void gwi_section_begin(gwi_part *at, const char *id, const char *title)
{
    gw_text_addf(at->page, "<section id=\"%s-%zu\">\n<h3>%s</h3>\n", id, at->number, title);
}

void gwi_section_end(gwi_part *at)
{
    gw_text_add_str(at->page, "</section>\n");
}
