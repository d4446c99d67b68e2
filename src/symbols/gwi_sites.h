/* The store of sites, shared by sites.c (which fills it), stack.c (stacks), means.c and whose.c. */
#ifndef GWI_SYMBOLS_SITES_H
#define GWI_SYMBOLS_SITES_H

#include "gw_sites.h"

typedef struct gwi_mapping {
    uint64_t start, end, bias, build_id;
    uint32_t sequence; /* increases with each MAPPED of the process */
    const char *path;  /* interned */
} gwi_mapping;

typedef struct gwi_code { /* code of a Python function; text NULL: never recorded */
    char *text;           /* owned: function, 0, file */
    const char *function, *file;
    int32_t first_line;
    uint16_t version;
    uint8_t *table; /* owned */
    uint32_t table_bytes, table_have;
} gwi_code;

/* Ids are separate for each writer of stacks, and each starts at 0: the hook, a framework, the reader from outside. */
enum { GWI_WRITERS = 3 };
typedef struct gwi_codes {
    gwi_code *code;
    uint32_t count;
} gwi_codes;
typedef struct gwi_numbers {
    uint32_t *number; /* by id; 0: none yet */
    uint32_t count;
} gwi_numbers;

typedef struct gwi_program { /* a program that ran as a pid, until it ended or executed another program */
    uint32_t pid, parent_plus_1;
    uint64_t start_realtime_ns;
    bool started; /* start_realtime_ns is known */
    gwi_mapping *mapping;
    uint32_t mapping_count, mapping_capacity;
    gwi_codes codes[GWI_WRITERS];
    gwi_numbers numbers[GWI_WRITERS];
} gwi_program;

typedef struct gwi_site {
    uint32_t program;       /* index */
    uint32_t sequence;      /* of the program's mappings, when the site was recorded */
    uint32_t python_number; /* the site whose Python frames are borrowed; 0: none */
    unsigned flags;
    uint16_t frame_count, frames_have;
    uint64_t *frame; /* owned; NULL: never recorded */
    gw_stack *stack; /* owned, with its frames; NULL: not built yet */
} gwi_site;

struct gw_sites {
    gwi_program **program; /* owned, each owned */
    uint32_t program_count, program_capacity;
    gwi_program *last;
    gwi_site *site; /* owned; number 1 is at index 0 */
    uint32_t site_count, site_capacity;
    uint64_t frames_kept, bytes_kept;
    gw_symbol *symbol; /* owned */
    size_t symbol_count, symbol_capacity;
    uint32_t *slot; /* hash of symbols: index + 1; owned */
    size_t slot_count;
    uint32_t collected; /* number of sites whose addresses are among the symbols */
    char **path;        /* owned, each owned */
    size_t path_count, path_capacity;
    uint64_t *means; /* keys of helper functions, in ascending order; owned */
    size_t means_count;
    bool means_found;
    char *cwd, *script, *script_folder, *executable; /* owned; NULL: not known */
    unsigned arguments;
    uint32_t command_pid;
    uint64_t begun_realtime_ns;
};

/* Return the mapped file at `address` for a site with that sequence; NULL: not known. */
const gwi_mapping *gwi_mapping_at(const gw_sites *sites, const gwi_program *program, uint32_t sequence,
                                  uint64_t address);
/* NULL: never recorded. */
const gwi_code *gwi_code_of(const gwi_program *program, uint32_t id);
/* NULL: not among the symbols. */
const gw_symbol *gwi_symbol_find(const gw_sites *sites, const char *path, uint64_t build_id, uint64_t address);

/* stack.c: Return the stack without looking for the user's frame. NULL as for gw_sites_stack(). */
gw_stack *gwi_stack_of(gw_sites *sites, uint32_t number);
/* sites.c: Return a copy of the text that lives as long as `sites`; equal texts give the same pointer. NULL: no
 * memory. */
const char *gwi_intern(gw_sites *sites, const char *text, size_t bytes);

/* means.c: find the helper functions; the key of a frame's function; whether a frame's function can be a helper. */
void gwi_find_means(gw_sites *sites);
uint64_t gwi_function_key(const gw_frame *frame);
bool gwi_may_be_means(const gw_frame *frame);

gw_whose gwi_whose(const gw_sites *sites, const gw_frame *frame);
bool gwi_is_interpreter(const char *module);

#endif
