/* Build a stack of named frames from the recorded frame values of a site. */
#include "gwi_sites.h"

#include "gw_array.h"
#include "gw_python_lines.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct building {
    gw_sites *sites;
    const gwi_program *program;
    const gwi_site *site;
    gw_frame *frame; /* owned */
    size_t count, capacity;
    uint16_t native_count, python; /* number of native frames; index of the next unused Python frame */
    size_t interpreter_at; /* first frame of the interpreter's file since the last Python frame; SIZE_MAX: none */
    bool in_part;          /* the previous frame is a moved part of a function, whose own frame may come next */
    bool failed;
} building;

static void add(building *it, const gw_frame *frame)
{
    if (!gw_array_room(&it->frame, it->count, &it->capacity, sizeof *it->frame)) {
        it->failed = true;
        return;
    }
    it->frame[it->count] = *frame;
    it->frame[it->count++].whose = (uint8_t)gwi_whose(it->sites, frame);
}

/* ---- Python ---- */

static bool is_python_left(const building *it)
{
    return it->python < it->site->frame_count;
}

/* Return the line of an instruction, or -1. In a framework's stack (version 0), the recorded "instruction" is already
 * the line. */
static int32_t line_of(const gwi_code *code, int32_t instruction)
{
    if (code->version == 0)
        return instruction;
    if (code->table_have != code->table_bytes)
        return -1;
    return gw_python_line(code->version, code->table, code->table_bytes, code->first_line, instruction);
}

bool gwi_is_python(const gwi_code *code)
{
    size_t bytes = code->file == NULL ? 0 : strlen(code->file);
    return code->version != 0 || (bytes > 0 && code->file[0] == '<') ||
           (bytes > 3 && strcmp(code->file + bytes - 3, ".py") == 0);
}

static void add_python_frame(building *it, uint64_t value)
{
    const gwi_code *code = gwi_code_of(it->program, GW_FRAME_CODE(value));
    gw_frame frame = {.python = true};
    if (code != NULL) {
        int32_t line = line_of(code, GW_FRAME_INSTRUCTION(value));
        frame.python = gwi_is_python(code);
        frame.function = code->function;
        frame.file = code->file;
        frame.line = line > 0 ? (uint32_t)line : 0;
        gw_python_columns columns;
        if (frame.line != 0 && code->table_have == code->table_bytes &&
            gw_python_columns_find(code->version, code->table, code->table_bytes, GW_FRAME_INSTRUCTION(value),
                                   &columns)) {
            frame.column = columns.begin;
            frame.column_end = columns.end;
        }
    }
    add(it, &frame);
    it->interpreter_at = SIZE_MAX;
}

static void add_python(building *it)
{
    add_python_frame(it, it->site->frame[it->python++]);
}

/* If the thread runs no Python, add the Python frames that were last recorded on the main thread, if any. */
static void add_borrowed(building *it)
{
    const gwi_site *from = it->site->python_number == 0 ? NULL : &it->sites->site[it->site->python_number - 1];
    if (from == NULL || from == it->site || from->program != it->site->program || from->frame == NULL)
        return;
    for (uint16_t i = 0; i < from->frame_count; i++)
        if ((from->frame[i] & GW_FRAME_PYTHON) != 0)
            add_python_frame(it, from->frame[i]);
}

/* Add the Python frames that run in one native frame of the evaluation loop. */
static void add_python_call(building *it)
{
    bool entry = false;
    while (is_python_left(it) && !entry) {
        entry = (it->site->frame[it->python] & GW_FRAME_ENTRY) != 0;
        add_python(it);
    }
}

/* Add the Python frames without a matching native frame. */
static void add_rest(building *it, gw_stack *stack)
{
    if (!is_python_left(it))
        return;
    bool cut = (stack->flags & (GW_SITE_NATIVE_CUT | GW_SITE_PYTHON_BORROWED)) != 0;
    size_t at = cut || it->interpreter_at == SIZE_MAX ? it->count : it->interpreter_at, before = it->count;
    /* A stack without native frames, such as one recorded by PyTorch, is not unplaced: its Python frames already have
     * the right order. */
    stack->unplaced = !cut && it->count > 0;
    while (is_python_left(it))
        add_python(it);
    size_t moved = it->count - before, passed = before - at;
    gw_frame *aside = passed == 0 ? NULL : malloc(passed * sizeof *aside);
    if (aside == NULL)
        return; /* no memory to move them: leave them after the native frames */
    memcpy(aside, it->frame + at, passed * sizeof *aside);
    memmove(it->frame + at, it->frame + before, moved * sizeof *aside);
    memcpy(it->frame + at + moved, aside, passed * sizeof *aside);
    free(aside);
}

/* ---- native ---- */

/* True if the name of one of the symbol's functions begins with `name`, and one of the characters `ends` or the end of
 * the name follows. NULL: anything may follow. */
static bool has_function(const gw_symbol *symbol, const char *name, const char *ends)
{
    for (uint32_t i = 0; symbol != NULL && i < symbol->count; i++) {
        const char *function = symbol->frame[i].function;
        if (function != NULL && gw_begins(function, name) &&
            (ends == NULL || strchr(ends, function[strlen(name)]) != NULL)) /* strchr() also finds the final 0 */
            return true;
    }
    return false;
}

/* Return the name without a compiler's suffix for parts and copies: "load.constprop.0", "load.part.0", "load.cold".
 * *ret_part is true for ".part.". */
static const char *plain_name(gw_sites *sites, const char *function, bool *ret_part)
{
    static const char *const suffixes[] = {".part.", ".constprop.", ".isra.", ".cold", ".lto_priv.", ".llvm."};
    const char *end = NULL;
    *ret_part = function != NULL && strstr(function, ".part.") != NULL;
    for (size_t i = 0; function != NULL && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        const char *at = strstr(function, suffixes[i]);
        end = at != NULL && at != function && (end == NULL || at < end) ? at : end;
    }
    return end == NULL ? function : gwi_intern(sites, function, (size_t)(end - function));
}

/* True if the previous frame is a part (`f.part.0`) of this frame's function. Only the part is shown then, because it
 * has the line that was running. */
static bool is_rest_of(const building *it, const gw_frame *frame)
{
    const gw_frame *part = it->count == 0 ? NULL : &it->frame[it->count - 1];
    return it->in_part && part != NULL && frame->function != NULL && gw_str_same(part->function, frame->function) &&
           gw_str_same(part->file, frame->file);
}

static void add_native(building *it, uint64_t address)
{
    const gwi_mapping *mapping =
        address == 0 ? NULL : gwi_mapping_at(it->sites, it->program, it->site->sequence, address - 1);
    const gw_symbol *symbol = NULL;
    gw_frame frame = {.address = address - 1};
    if (mapping != NULL) {
        frame.module = mapping->path;
        frame.address = address - 1 - mapping->bias;
        symbol = gwi_symbol_find(it->sites, mapping->path, mapping->build_id, frame.address);
        frame.state = symbol == NULL ? (uint8_t)GW_SYMBOL_NOT_ASKED : symbol->state;
    }
    if (is_python_left(it) && has_function(symbol, "_PyEval_EvalFrameDefault", ". ")) {
        add_python_call(it);
        return;
    }
    /* In the tail-calling interpreter of Python 3.14, such a function executes a single Python instruction. */
    if (is_python_left(it) && has_function(symbol, "_TAIL_CALL_", NULL))
        return;
    if (it->interpreter_at == SIZE_MAX && gwi_is_interpreter(frame.module))
        it->interpreter_at = it->count;
    for (uint32_t i = 0; symbol != NULL && i < symbol->count; i++) {
        bool part;
        frame.function = plain_name(it->sites, symbol->frame[i].function, &part);
        frame.file = symbol->frame[i].file;
        frame.line = symbol->frame[i].line;
        bool has_column = symbol->frame[i].column != 0 && symbol->frame[i].column != UINT32_MAX;
        frame.column = has_column ? symbol->frame[i].column - 1 : 0;
        frame.column_end = has_column ? symbol->frame[i].column : 0;
        frame.inlined = i + 1 < symbol->count;
        if (!is_rest_of(it, &frame))
            add(it, &frame);
        it->in_part = part;
    }
    if (symbol == NULL || symbol->count == 0)
        add(it, &frame);
}

/* ---- the whole stack ---- */

static gw_stack *build(gw_sites *sites, const gwi_site *site)
{
    building it = {sites, sites->program[site->program], site, NULL, 0, 0, 0, 0, SIZE_MAX, false, false};
    gw_stack found = {.flags = site->flags};
    while (it.native_count < site->frame_count && (site->frame[it.native_count] & GW_FRAME_PYTHON) == 0)
        it.native_count++;
    it.python = it.native_count;
    for (uint16_t i = 0; i < it.native_count; i++)
        add_native(&it, site->frame[i]);
    add_rest(&it, &found);
    add_borrowed(&it);
    gw_stack *stack = it.failed ? NULL : malloc(sizeof *stack + it.count * sizeof *it.frame);
    if (stack != NULL) {
        gw_frame *frame = (gw_frame *)(stack + 1);
        if (it.count > 0)
            memcpy(frame, it.frame, it.count * sizeof *frame);
        found.frame = frame;
        found.count = it.count;
        found.user = SIZE_MAX; /* not looked up yet */
        *stack = found;
    }
    free(it.frame);
    return stack;
}

gw_stack *gwi_stack_of(gw_sites *sites, uint32_t number)
{
    gwi_site *site = number == 0 || number > sites->site_count ? NULL : &sites->site[number - 1];
    if (site == NULL || site->frame == NULL || site->frames_have < site->frame_count)
        return NULL;
    if (site->stack == NULL)
        site->stack = build(sites, site);
    return site->stack;
}

char *gw_frame_text(const gw_sites *sites, const gw_frame *frame, char out[GW_PLACE_TEXT_MAX])
{
    size_t folder = sites->cwd == NULL ? 0 : strlen(sites->cwd);
    const char *file = frame->file, *module = frame->module != NULL ? gw_path_last(frame->module) : "?";
    if (file != NULL && folder > 1 && strncmp(file, sites->cwd, folder) == 0 && file[folder] == '/')
        file += folder + 1;
    else if (file != NULL)
        file = gw_path_last(file);
    if (file != NULL && frame->line != 0)
        snprintf(out, GW_PLACE_TEXT_MAX, "%.120s:%" PRIu32 "%s%.110s", file, frame->line,
                 frame->function == NULL ? "" : " in ", frame->function == NULL ? "" : frame->function);
    else if (frame->function != NULL)
        snprintf(out, GW_PLACE_TEXT_MAX, "%.120s (%.110s)", frame->function, file != NULL ? file : module);
    else if (frame->module != NULL)
        snprintf(out, GW_PLACE_TEXT_MAX, "%.200s+0x%" PRIx64, module, frame->address);
    else
        snprintf(out, GW_PLACE_TEXT_MAX, "0x%" PRIx64, frame->address);
    return out;
}
