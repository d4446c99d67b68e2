/* Reads symbol tables and DWARF with elfutils.
 *
 * All addresses of one file are looked up in one pass over its symbol tables. The functions of all files come first, so
 * they are known even if time runs out for source lines. libdwfl is not used: it would find more debug files, but it
 * can also contact servers on the network. */
#include "gwi_inner.h"

#include "gw_array.h"
#include "gw_clock.h"
#include "gw_own.h"
#include "gw_text.h"
#include "gwi_parts.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUILD_ID_BYTES_MAX = 64, PATH_BYTES = 4096, RANGES_MAX = 1 << 22 };

/* ---- files ---- */

typedef struct image { /* one ELF file */
    int fd;
    Elf *elf;
    const uint8_t *id; /* build id, borrowed from elf */
    size_t id_bytes;
} image;

typedef struct unit_range { /* a range of addresses [low, high) that belongs to a compilation unit */
    uint64_t low, high;
    Dwarf_Die unit, split;
} unit_range;

typedef struct object { /* a mapped file and its debug data */
    image main, debug;
    Dwarf *dwarf;
    unit_range *range; /* sorted by low; owned */
    size_t range_count;
    bool ranges_made;
} object;

/* Open a file if it is a regular file, because a path in a recording can name anything. Returns false if the file is
 * missing or cannot be opened. If it is not a regular ELF file, returns true and elf is NULL. */
static bool image_open(image *it, const char *path, struct stat *ret_status)
{
    *it = (image){.fd = -1};
    if (gw_plain_open(path, true, &it->fd, NULL) != GW_OK)
        /* the path exists, but is not a regular file */
        return stat(path, ret_status) == 0 && !S_ISREG(ret_status->st_mode);
    if (fstat(it->fd, ret_status) != 0)
        return true;
    it->elf = elf_begin(it->fd, ELF_C_READ_MMAP, NULL);
    if (it->elf != NULL && elf_kind(it->elf) != ELF_K_ELF) {
        elf_end(it->elf);
        it->elf = NULL;
    }
    const void *id = NULL;
    ssize_t bytes = it->elf == NULL ? 0 : dwelf_elf_gnu_build_id(it->elf, &id);
    it->id = id;
    it->id_bytes = bytes > 0 && bytes <= BUILD_ID_BYTES_MAX ? (size_t)bytes : 0;
    return true;
}

static void image_close(image *it)
{
    elf_end(it->elf);
    if (it->fd >= 0)
        close(it->fd);
    *it = (image){.fd = -1};
}

static bool is_changed(const image *it, const struct stat *status, uint64_t build_id, uint64_t begun_realtime_ns)
{
    uint64_t now = 0;
    if (it->id_bytes > 0)
        memcpy(&now, it->id, it->id_bytes < sizeof now ? it->id_bytes : sizeof now);
    if (build_id != 0 || now != 0)
        return build_id != now;
    uint64_t changed_ns = (uint64_t)status->st_mtim.tv_sec * 1000000000u + (uint64_t)status->st_mtim.tv_nsec;
    return begun_realtime_ns != 0 && changed_ns > begun_realtime_ns;
}

static bool debug_try(object *it, const char *path)
{
    struct stat status;
    if (!image_open(&it->debug, path, &status) || it->debug.elf == NULL || it->debug.id_bytes != it->main.id_bytes ||
        memcmp(it->debug.id, it->main.id, it->main.id_bytes) != 0) {
        image_close(&it->debug);
        return false;
    }
    return true;
}

/* Find the separate debug file. Its build id must be equal to the build id of the mapped file. */
static void debug_find(object *it, const char *path)
{
    char name[PATH_BYTES], hex[2 * BUILD_ID_BYTES_MAX + 1];
    if (it->main.id_bytes < 2)
        return;
    for (size_t i = 0; i < it->main.id_bytes; i++)
        snprintf(hex + 2 * i, 3, "%02x", it->main.id[i]);
    snprintf(name, sizeof name, "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
    if (debug_try(it, name))
        return;
    GElf_Word crc;
    const char *link = dwelf_elf_gnu_debuglink(it->main.elf, &crc);
    const char *slash = strrchr(path, '/');
    if (link == NULL || slash == NULL || strchr(link, '/') != NULL)
        return;
    for (int i = 0; i < 3; i++) {
        int bytes = snprintf(name, sizeof name, "%s%.*s%s/%s", i == 2 ? "/usr/lib/debug" : "", (int)(slash - path),
                             path, i == 1 ? "/.debug" : "", link);
        if (bytes > 0 && (size_t)bytes < sizeof name && strcmp(name, path) != 0 && debug_try(it, name))
            return;
    }
}

static void object_close(object *it)
{
    dwarf_end(it->dwarf);
    image_close(&it->debug);
    image_close(&it->main);
    free(it->range);
    *it = (object){.main.fd = -1, .debug.fd = -1};
}

/* Open a mapped file and its debug file. Returns GW_SYMBOL_NOT_ASKED if the file is open, otherwise the state that
 * explains the failure. */
static gw_symbol_state object_open(object *it, const gw_symbol *symbol, uint64_t begun_realtime_ns)
{
    struct stat status;
    *it = (object){.main.fd = -1, .debug.fd = -1};
    if (symbol->path[0] != '/' || !image_open(&it->main, symbol->path, &status))
        return GW_SYMBOL_MISSING;
    if (it->main.elf == NULL)
        return symbol->build_id != 0 ? GW_SYMBOL_CHANGED : GW_SYMBOL_DAMAGED;
    if (is_changed(&it->main, &status, symbol->build_id, begun_realtime_ns))
        return GW_SYMBOL_CHANGED;
    debug_find(it, symbol->path);
    return GW_SYMBOL_NOT_ASKED;
}

/* ---- symbol tables ---- */

typedef struct wanted { /* one address of the current file */
    uint64_t address;
    size_t index;     /* index in the caller's array of symbols */
    const char *name; /* from the symbol table, lives as long as the object; NULL: not found yet */
    uint64_t value;
    int rank;
} wanted;

static int by_address(const void *left, const void *right)
{
    const wanted *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static size_t first_from(const wanted *list, size_t count, uint64_t address)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (list[middle].address < address)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Return the rank of a symbol: 2 for a global, 1 for a weak, 0 for a local one. Of several names of a function, the one
 * with the highest rank is used. Global names are best, because other files use them. */
static int rank_of(const GElf_Sym *symbol)
{
    int binding = GELF_ST_BIND(symbol->st_info);
    return binding == STB_GLOBAL ? 2 : binding == STB_WEAK;
}

static void take_symbol(Elf *elf, size_t strings, const GElf_Sym *symbol, wanted *list, size_t count)
{
    int type = GELF_ST_TYPE(symbol->st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) || symbol->st_size == 0 ||
        symbol->st_shndx == SHN_UNDEF)
        return;
    for (size_t i = first_from(list, count, symbol->st_value);
         i < count && list[i].address - symbol->st_value < symbol->st_size; i++) {
        int rank = rank_of(symbol);
        bool better = list[i].name == NULL || symbol->st_value > list[i].value ||
                      (symbol->st_value == list[i].value && rank > list[i].rank);
        const char *name = better ? elf_strptr(elf, strings, symbol->st_name) : NULL;
        if (name == NULL || name[0] == '\0')
            continue;
        list[i].name = name;
        list[i].value = symbol->st_value;
        list[i].rank = rank;
    }
}

static void take_tables(Elf *elf, wanted *list, size_t count)
{
    Elf_Scn *section = NULL;
    while (elf != NULL && (section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr head;
        if (gelf_getshdr(section, &head) == NULL || (head.sh_type != SHT_SYMTAB && head.sh_type != SHT_DYNSYM) ||
            head.sh_entsize == 0)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        if (data == NULL)
            continue;
        size_t symbols = data->d_size / head.sh_entsize;
        for (size_t i = 1; i < symbols && i <= INT32_MAX; i++) {
            GElf_Sym symbol;
            if (gelf_getsym(data, (int)i, &symbol) == NULL)
                break;
            take_symbol(elf, head.sh_link, &symbol, list, count);
        }
    }
}

/* The compiler may move a part of a function elsewhere, without a name. For an address in such a part, use the name of
 * the function. */
static void take_owners(Elf *elf, Elf *debug, wanted *list, size_t count)
{
    gwi_parts *parts = NULL;
    wanted *owner = NULL;
    size_t nameless = 0, owned = 0;
    for (size_t i = 0; i < count; i++)
        nameless += list[i].name == NULL;
    if (nameless == 0)
        return;
    parts = gwi_parts_open(elf);
    owner = parts == NULL ? NULL : calloc(nameless, sizeof *owner);
    for (size_t i = 0; i < count && owner != NULL; i++) {
        uint64_t begin = list[i].name != NULL ? 0 : gwi_part_owner(parts, list[i].address);
        if (begin != 0)
            owner[owned++] = (wanted){.address = begin, .index = i};
    }
    if (owned > 0) {
        qsort(owner, owned, sizeof *owner, by_address);
        take_tables(elf, owner, owned);
        take_tables(debug, owner, owned);
    }
    for (size_t i = 0; i < owned; i++)
        list[owner[i].index].name = owner[i].name;
    free(owner);
    gwi_parts_close(parts);
}

/* ---- DWARF ---- */

static bool has_units(Dwarf *dwarf)
{
    Dwarf_Off next;
    size_t bytes;
    return dwarf != NULL && dwarf_nextcu(dwarf, 0, &next, &bytes, NULL, NULL, NULL) == 0;
}

static void dwarf_open(object *it)
{
    Elf *const elf[] = {it->main.elf, it->debug.elf};
    for (int i = 0; i < 2 && it->dwarf == NULL; i++) {
        Dwarf *found = elf[i] == NULL ? NULL : dwarf_begin_elf(elf[i], DWARF_C_READ, NULL);
        if (has_units(found))
            it->dwarf = found;
        else
            dwarf_end(found);
    }
}

static int by_low(const void *left, const void *right)
{
    const unit_range *a = left, *b = right;
    return a->low < b->low ? -1 : a->low > b->low;
}

/* Build an index from addresses to compilation units. It is needed only if the file's own index does not contain an
 * address. Files compiled by GCC have such an index. */
static void make_ranges(object *it, uint64_t deadline_ns)
{
    enum { LOOK_EVERY = 64 };
    Dwarf_CU *unit = NULL;
    Dwarf_Die die, split;
    uint8_t type;
    size_t capacity = 0, seen = 0;
    it->ranges_made = true;
    while (dwarf_get_units(it->dwarf, unit, &unit, NULL, &type, &die, &split) == 0) {
        unit_range range = {.unit = die, .split = split};
        Dwarf_Addr base, low, high;
        if (type != DW_UT_compile && type != DW_UT_skeleton && type != DW_UT_partial)
            continue;
        if (++seen % LOOK_EVERY == 0 && gw_processor_ns() > deadline_ns)
            break;
        for (ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &low, &high)) > 0;) {
            range.low = low;
            range.high = high;
            if (low >= high)
                continue;
            if (it->range_count >= RANGES_MAX || !gw_array_room(&it->range, it->range_count, &capacity, sizeof range))
                break;
            it->range[it->range_count++] = range;
        }
    }
    if (it->range_count > 0)
        qsort(it->range, it->range_count, sizeof *it->range, by_low);
}

static bool find_in_ranges(const object *it, uint64_t address, Dwarf_Die *ret_unit, Dwarf_Die *ret_split)
{
    size_t low = 0, count = it->range_count;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (it->range[middle].low <= address)
            low = middle + 1;
        else
            count = middle;
    }
    enum { LOOK_BACK = 16 }; /* a few ranges are enough, because ranges of units overlap only in damaged files */
    for (size_t i = low; i-- > 0 && low - i <= LOOK_BACK;) {
        if (address < it->range[i].high) {
            *ret_unit = it->range[i].unit;
            *ret_split = it->range[i].split;
            return true;
        }
    }
    return false;
}

static bool find_unit(object *it, uint64_t address, uint64_t deadline_ns, Dwarf_Die *ret_unit, Dwarf_Die *ret_split)
{
    *ret_split = (Dwarf_Die){0};
    if (dwarf_addrdie(it->dwarf, address, ret_unit) != NULL) {
        uint8_t type;
        if (dwarf_cu_info(ret_unit->cu, NULL, &type, NULL, ret_split, NULL, NULL, NULL) != 0)
            *ret_split = (Dwarf_Die){0};
        return true;
    }
    if (!it->ranges_made)
        make_ranges(it, deadline_ns);
    return find_in_ranges(it, address, ret_unit, ret_split);
}

/* Return the function's name; the caller owns it. NULL: unknown. The mangled name has the most information, so it is
 * preferred. Names in Rust's new scheme cannot be demangled, so the plain name is used for them. */
static char *function_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name = NULL;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) != NULL ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) != NULL)
        name = dwarf_formstring(&attribute);
    if (name == NULL || gw_begins(name, "_R")) {
        const char *plain = dwarf_diename(die);
        name = plain == NULL ? name : plain;
    }
    return name == NULL ? NULL : gwi_demangle(name);
}

typedef struct frames {
    gw_symbol_frame list[GW_SYMBOL_FRAMES_MAX]; /* with their names, which are owned */
    uint32_t count;
} frames;

static void frames_free(frames *it)
{
    for (uint32_t i = 0; i < it->count; i++)
        free((char *)(uintptr_t)it->list[i].function);
    it->count = 0;
}

static void frame_add(frames *it, char *name, const char *file, int line, int column)
{
    if (it->count == GW_SYMBOL_FRAMES_MAX) {
        free(name);
        return;
    }
    it->list[it->count++] =
        (gw_symbol_frame){name, file, line > 0 ? (uint32_t)line : 0, line > 0 && column > 0 ? (uint32_t)column : 0};
}

static Dwarf_Word number_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    if (dwarf_attr(die, name, &attribute) == NULL || dwarf_formudata(&attribute, &value) != 0)
        return 0;
    return value;
}

static const char *call_file(Dwarf_Die *unit, Dwarf_Die *die)
{
    Dwarf_Files *files;
    size_t count;
    Dwarf_Word file = number_of(die, DW_AT_call_file);
    if (dwarf_getsrcfiles(unit, &files, &count) != 0 || file >= count)
        return NULL;
    return dwarf_filesrc(files, file, NULL, NULL);
}

/* Add the inlined functions, innermost first, and then the function that contains them. */
static void add_scopes(Dwarf_Die *unit, Dwarf_Die *scope, int scopes, const char *file, int line, int column,
                       frames *out)
{
    for (int i = 0; i < scopes; i++) {
        int tag = dwarf_tag(&scope[i]);
        if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine && tag != DW_TAG_entry_point)
            continue;
        frame_add(out, function_name(&scope[i]), file, line, column);
        if (tag != DW_TAG_inlined_subroutine)
            return;
        Dwarf_Word called_at = number_of(&scope[i], DW_AT_call_line);
        file = call_file(unit, &scope[i]);
        line = called_at <= INT32_MAX ? (int)called_at : 0;
        called_at = number_of(&scope[i], DW_AT_call_column);
        column = called_at <= INT32_MAX ? (int)called_at : 0;
    }
}

static void find_frames(object *it, uint64_t address, uint64_t deadline_ns, frames *out)
{
    Dwarf_Die unit, split;
    Dwarf_Die *scope = NULL, *chain = NULL;
    if (!find_unit(it, address, deadline_ns, &unit, &split))
        return;
    Dwarf_Line *at = dwarf_getsrc_die(&unit, address);
    const char *file = at == NULL ? NULL : dwarf_linesrc(at, NULL, NULL);
    int line = 0, column = 0;
    if (at != NULL && dwarf_lineno(at, &line) != 0)
        line = 0;
    if (at != NULL && dwarf_linecol(at, &column) != 0)
        column = 0;
    Dwarf_Die *tree = split.addr != NULL ? &split : &unit;
    int scopes = dwarf_getscopes(tree, address, &scope);
    int chained = scopes > 0 ? dwarf_getscopes_die(&scope[0], &chain) : 0;
    if (chained > 0)
        add_scopes(tree, chain, chained, file, line, column, out);
    if (out->count == 0 && file != NULL)
        frame_add(out, NULL, file, line, column);
    free(chain);
    free(scope);
}

/* ---- all files ---- */

typedef struct reading {
    const gw_symbol *symbols;
    const gwi_listener *listener;
    uint64_t begun_realtime_ns, deadline_ns;
} reading;

static void tell_function(const reading *how, const wanted *it)
{
    char *name = it->name == NULL ? NULL : gwi_demangle(it->name);
    gw_symbol_frame frame = {.function = name};
    how->listener->found(how->listener->user, it->index, name == NULL ? GW_SYMBOL_NONE : GW_SYMBOL_FUNCTION, &frame,
                         name != NULL);
    free(name);
}

/* Add ".part.0" to the name of the outermost frame. In DWARF, a part that was moved out of a function has the
 * function's name. The function would appear to call itself. */
static void mark_part(frames *it)
{
    char *name = NULL;
    const char **outer = &it->list[it->count - 1].function;
    if (*outer == NULL || asprintf(&name, "%s.part.0", *outer) < 0)
        return;
    free((char *)(uintptr_t)*outer);
    *outer = name;
}

static void tell_lines(const reading *how, object *from, const wanted *it)
{
    frames found = {.count = 0};
    find_frames(from, it->address, how->deadline_ns, &found);
    if (found.count > 0) {
        gw_symbol_frame *outer = &found.list[found.count - 1];
        if (outer->function == NULL && it->name != NULL)
            outer->function = gwi_demangle(it->name);
        else if (it->name != NULL && strstr(it->name, ".part.") != NULL)
            mark_part(&found);
        how->listener->found(how->listener->user, it->index, GW_SYMBOL_LINE, found.list, found.count);
    }
    frames_free(&found);
}

/* Read one file and report the symbols in `list`, which must be sorted by address. */
static void read_file(const reading *how, wanted *list, size_t count, bool lines)
{
    object it;
    how->listener->begin(how->listener->user, list[0].index, lines);
    gw_symbol_state state = object_open(&it, &how->symbols[list[0].index], how->begun_realtime_ns);
    if (state == GW_SYMBOL_NOT_ASKED) {
        take_tables(it.main.elf, list, count);
        take_tables(it.debug.elf, list, count);
        take_owners(it.main.elf, it.debug.elf, list, count);
        if (lines)
            dwarf_open(&it);
    }
    for (size_t i = 0; i < count; i++) {
        if (state != GW_SYMBOL_NOT_ASKED)
            how->listener->found(how->listener->user, list[i].index, (uint8_t)state, NULL, 0);
        else if (!lines)
            tell_function(how, &list[i]);
        else if (it.dwarf != NULL && gw_processor_ns() < how->deadline_ns)
            tell_lines(how, &it, &list[i]);
    }
    object_close(&it);
}

static bool is_same_file(const gw_symbol *a, const gw_symbol *b)
{
    return a->build_id == b->build_id && strcmp(a->path, b->path) == 0;
}

/* True for files of the distribution or the driver. These files are read last, because their source lines do not help
 * the user. */
static bool is_system(const char *path)
{
    return gw_begins(path, "/usr/") || gw_begins(path, "/lib");
}

static int by_file(const void *left, const void *right, void *user)
{
    const gw_symbol *symbols = user, *a = &symbols[*(const size_t *)left], *b = &symbols[*(const size_t *)right];
    int order = (int)is_system(a->path) - (int)is_system(b->path);
    if (order == 0)
        order = strcmp(a->path, b->path);
    if (order == 0)
        order = a->build_id < b->build_id ? -1 : a->build_id > b->build_id;
    return order;
}

static void read_all(const reading *how, const size_t *order, size_t count, const uint8_t *avoid, wanted *list,
                     bool lines)
{
    for (size_t from = 0, to; from < count; from = to) {
        const gw_symbol *first = &how->symbols[order[from]];
        for (to = from; to < count && is_same_file(first, &how->symbols[order[to]]); to++)
            list[to - from] = (wanted){.address = how->symbols[order[to]].address, .index = order[to]};
        uint8_t avoided = avoid == NULL ? GWI_AVOID_NOTHING : avoid[order[from]];
        if (avoided == GWI_AVOID_FILE || (lines && (avoided == GWI_AVOID_LINES || gwi_is_runtime(first->path))))
            continue;
        if (lines && gw_processor_ns() >= how->deadline_ns)
            return;
        qsort(list, to - from, sizeof *list, by_address);
        read_file(how, list, to - from, lines);
    }
}

void gwi_symbols_read(const gw_symbol *symbols, size_t count, const uint8_t *avoid, uint64_t begun_realtime_ns,
                      uint64_t deadline_ns, const gwi_listener *listener)
{
    reading how = {symbols, listener, begun_realtime_ns, deadline_ns};
    size_t *order = calloc(count + 1, sizeof *order);
    wanted *list = calloc(count + 1, sizeof *list);
    size_t asked = 0;
    if (order == NULL || list == NULL || elf_version(EV_CURRENT) == EV_NONE)
        goto out;
    for (size_t i = 0; i < count; i++)
        if (symbols[i].state == GW_SYMBOL_NOT_ASKED)
            order[asked++] = i;
    qsort_r(order, asked, sizeof *order, by_file, (void *)(uintptr_t)symbols);
    read_all(&how, order, asked, avoid, list, false);
    read_all(&how, order, asked, avoid, list, true);
out:
    free(order);
    free(list);
}
