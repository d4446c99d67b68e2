/* Build tool that reads Markdown with md4c: make_documents FOLDER FILE... writes FOLDER/NAME.txt for each FILE, in
 * lines that markdown.c lays out for the user's terminal. The first character is the kind of a line:
 *
 *     w02- text     text to wrap: the first line is indented by 0, those after it by 2
 *     rNAME\tTEXT   a row of a table: its first cell, then the others
 *     ctext         a line of a block of code
 *                   an empty line */
#include "gw_text.h"

#include <ctype.h>
#include <md4c.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct maker {
    gw_text out, block; /* block: the text of a paragraph, an item or a cell so far */
    gw_text row;
    gw_text prefix; /* "- " or "1. " until the first text of the item */
    unsigned cell;
    unsigned number; /* of the next item; 0: not numbered */
    unsigned hang;   /* indentation of the text of the item; 0: outside lists */
    bool in_list, is_tight, in_head, in_code;
    bool wants_gap; /* an empty line before the next block */
} maker;

static void add_gap(maker *m)
{
    if (m->wants_gap && m->out.bytes > 0)
        gw_text_add_str(&m->out, "\n");
    m->wants_gap = false;
}

/* Write the collected text, if there is any. */
static void end_text(maker *m, bool wants_gap)
{
    unsigned first = m->hang - (unsigned)m->prefix.bytes;
    if (m->block.bytes == 0)
        return;
    add_gap(m);
    gw_text_addf(&m->out, "w%u%u%s%s\n", first, m->hang, gw_text_str(&m->prefix), gw_text_str(&m->block));
    gw_text_clear(&m->block);
    gw_text_clear(&m->prefix);
    m->wants_gap = wants_gap;
}

static void end_code(maker *m)
{
    add_gap(m);
    for (const char *line = gw_text_str(&m->block); *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        gw_text_addf(&m->out, "c%.*s\n", (int)bytes, line);
        line += bytes + (line[bytes] != '\0');
    }
    gw_text_clear(&m->block);
    m->wants_gap = true;
    m->in_code = false;
}

static void begin_list(maker *m, bool is_tight, unsigned number)
{
    if (m->in_list) {
        fputs("make_documents: a list inside another one\n", stderr);
        exit(1);
    }
    m->in_list = true;
    m->is_tight = is_tight;
    m->number = number;
}

static void begin_item(maker *m)
{
    if (m->number > 0)
        gw_text_addf(&m->prefix, "%u. ", m->number++);
    else
        gw_text_add_str(&m->prefix, "- ");
    m->hang = (unsigned)m->prefix.bytes;
}

static int enter_block(MD_BLOCKTYPE type, void *detail, void *user)
{
    maker *m = user;
    if (type == MD_BLOCK_UL)
        begin_list(m, ((MD_BLOCK_UL_DETAIL *)detail)->is_tight, 0);
    else if (type == MD_BLOCK_OL)
        begin_list(m, ((MD_BLOCK_OL_DETAIL *)detail)->is_tight, ((MD_BLOCK_OL_DETAIL *)detail)->start);
    else if (type == MD_BLOCK_LI)
        begin_item(m);
    else if (type == MD_BLOCK_H)
        m->wants_gap = true;
    else if (type == MD_BLOCK_TABLE || type == MD_BLOCK_CODE)
        end_text(m, true);
    if (type == MD_BLOCK_TR)
        m->cell = 0;
    m->in_head = type == MD_BLOCK_THEAD || (m->in_head && type != MD_BLOCK_TBODY);
    m->in_code = type == MD_BLOCK_CODE;
    return 0;
}

static void end_cell(maker *m)
{
    if (m->cell == 1)
        gw_text_add_str(&m->row, "\t");
    else if (m->cell > 1 && m->block.bytes > 0 && m->row.data[m->row.bytes - 1] != '\t')
        gw_text_add_str(&m->row, ": ");
    gw_text_add(&m->row, gw_text_str(&m->block), m->block.bytes);
    gw_text_clear(&m->block);
    m->cell++;
}

static void end_row(maker *m)
{
    add_gap(m);
    if (!m->in_head) /* the head is not shown */
        gw_text_addf(&m->out, "r%s\n", gw_text_str(&m->row));
    gw_text_clear(&m->row);
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *user)
{
    maker *m = user;
    if (type == MD_BLOCK_P)
        end_text(m, true);
    else if (type == MD_BLOCK_LI)
        end_text(m, !m->is_tight);
    else if (type == MD_BLOCK_H)
        end_text(m, ((MD_BLOCK_H_DETAIL *)detail)->level == 1);
    else if (type == MD_BLOCK_CODE)
        end_code(m);
    else if (type == MD_BLOCK_TD || type == MD_BLOCK_TH)
        end_cell(m);
    else if (type == MD_BLOCK_TR)
        end_row(m);
    if (type == MD_BLOCK_UL || type == MD_BLOCK_OL) {
        m->in_list = false;
        m->hang = 0;
    }
    if (type == MD_BLOCK_UL || type == MD_BLOCK_OL || type == MD_BLOCK_TABLE)
        m->wants_gap = true;
    return 0;
}

/* The marks of emphasis, code and links are not shown, and neither are addresses. */
static int skip_span(MD_SPANTYPE type, void *detail, void *user)
{
    (void)type, (void)detail, (void)user;
    return 0;
}

static int add_text(MD_TEXTTYPE type, const MD_CHAR *text, MD_SIZE bytes, void *user)
{
    maker *m = user;
    bool is_break = type == MD_TEXT_BR || type == MD_TEXT_SOFTBR;
    for (MD_SIZE i = 0; i < bytes; i++)
        gw_text_add(&m->block, is_break || (text[i] == '\n' && !m->in_code) ? " " : &text[i], 1);
    return 0;
}

static bool read_file(const char *path, gw_text *ret_text)
{
    char part[4096];
    size_t bytes;
    FILE *in = fopen(path, "rb");
    while (in != NULL && (bytes = fread(part, 1, sizeof part, in)) > 0)
        gw_text_add(ret_text, part, bytes);
    bool good = in != NULL && !ferror(in) && !ret_text->failed;
    if (in != NULL)
        fclose(in);
    return good;
}

static bool make(const char *folder, const char *path)
{
    static const MD_PARSER parser = {.flags = MD_FLAG_TABLES | MD_FLAG_NOHTML,
                                     .enter_block = enter_block,
                                     .leave_block = leave_block,
                                     .enter_span = skip_span,
                                     .leave_span = skip_span,
                                     .text = add_text};
    maker m = {0};
    gw_text document = {0}, to = {0};
    const char *name = gw_path_last(path);
    gw_text_addf(&to, "%s/%.*s.txt", folder, (int)strcspn(name, "."), name);
    bool good = read_file(path, &document) &&
                md_parse(gw_text_str(&document), (MD_SIZE)document.bytes, &parser, &m) == 0 && !m.out.failed;
    FILE *out = good ? fopen(gw_text_str(&to), "wb") : NULL;
    good = out != NULL && fwrite(gw_text_str(&m.out), 1, m.out.bytes, out) == m.out.bytes;
    good = out != NULL && fclose(out) == 0 && good;
    if (!good)
        fprintf(stderr, "make_documents: cannot convert %s\n", path);
    gw_text_free(&document);
    gw_text_free(&to);
    gw_text_free(&m.out);
    gw_text_free(&m.block);
    gw_text_free(&m.row);
    gw_text_free(&m.prefix);
    return good;
}

int main(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (!make(argv[1], argv[i]))
            return 1;
    return argc > 2 ? 0 : 2;
}
