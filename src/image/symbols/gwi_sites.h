/* The store of call sites. sites.c fills it; stack.c, means.c and whose.c also use it. */
#ifndef GWI_SYMBOLS_SITES_H
#define GWI_SYMBOLS_SITES_H

#include "gw_sites.h"

typedef struct gwi_mapping {
    uint64_t start, end, bias, build_id;
    uint32_t sequence; /* number of this mapping among the process's MAPPED records, from 1 */
    const char *path;  /* interned */
} gwi_mapping;

typedef struct gwi_code { /* code of a Python function; text is NULL if it was never recorded */
    char *text;           /* owned: the function's name, a zero byte, and the file */
    const char *function, *file;
    int32_t first_line;
    uint16_t version;
    uint8_t *table; /* owned */
    uint32_t table_bytes, table_have;
} gwi_code;

/* There are three writers of stacks: the hook, a framework, and the reader that observes the process from outside. The
 * ids of each writer begin at a different number, such as GW_SITE_OUTSIDE_FIRST. This number is subtracted here, so
 * each writer's ids start at 0. */
enum { GWI_WRITERS = 3 };
typedef struct gwi_codes {
    gwi_code *code;
    uint32_t count;
} gwi_codes;
typedef struct gwi_numbers {
    uint32_t *number; /* site number of each id; 0: none yet */
    uint32_t count;
} gwi_numbers;

typedef struct gwi_program { /* one program of a process, from its start until it ends or executes another program */
    uint32_t pid, parent_plus_1;
    uint32_t index;       /* index in gw_sites.program */
    uint32_t next_plus_1; /* 1 + index of the next older program with the same pid % GWI_PROGRAM_CHAINS; 0: none */
    uint64_t start_realtime_ns;
    bool started;           /* start_realtime_ns is known */
    uint64_t pid_namespace; /* 0: unknown */
    /* Processes of several pid namespaces have this pid from now on. Their events cannot be told apart, so their sites
     * are unknown. */
    bool is_several;
    gwi_mapping *mapping;
    uint32_t mapping_count;
    size_t mapping_capacity;
    gwi_codes codes[GWI_WRITERS];
    gwi_numbers numbers[GWI_WRITERS];
} gwi_program;

typedef struct gwi_site {
    uint32_t program;       /* index in gw_sites.program */
    uint32_t sequence;      /* sequence of the program's newest mapping when the site was recorded; 0: none */
    uint32_t python_number; /* the site whose Python frames are borrowed; 0: none */
    unsigned flags;
    uint16_t frame_count, frames_have;
    uint64_t *frame; /* owned; NULL: never recorded */
    gw_stack *stack; /* owned, with its frames; NULL: not built yet */
} gwi_site;

enum { GWI_PROGRAM_CHAINS = 4096 };

struct gw_sites {
    gwi_program **program; /* owned, as is each element */
    uint32_t program_count;
    size_t program_capacity;
    gwi_program *last;
    /* per pid % GWI_PROGRAM_CHAINS: 1 + index of the newest program; 0: none */
    uint32_t chain_plus_1[GWI_PROGRAM_CHAINS];
    gwi_site *site; /* owned; number 1 is at index 0 */
    uint32_t site_count;
    size_t site_capacity;
    uint64_t frames_kept, bytes_kept;
    gw_symbol *symbol; /* owned */
    size_t symbol_count, symbol_capacity;
    uint32_t *slot; /* hash table with 1 + index of a symbol in each slot, 0: empty; owned */
    size_t slot_count;
    uint32_t collected; /* number of sites whose addresses are among the symbols */
    void *path;         /* tree of tsearch(), which owns the texts of gwi_intern() */
    size_t path_count;
    uint64_t *means; /* hashes of the helper functions (means.c), in ascending order; owned */
    size_t means_count;
    bool means_found;
    char *cwd, *script, *script_folder, *executable; /* owned; NULL: not known */
    unsigned arguments;
    uint64_t begun_realtime_ns;
};

/* Return the mapping that contained `address` when the program's newest mapping had the number `sequence`. Returns NULL
 * if it is unknown. */
const gwi_mapping *gwi_mapping_at(const gw_sites *sites, const gwi_program *program, uint32_t sequence,
                                  uint64_t address);
/* Returns NULL if the code was never recorded. */
const gwi_code *gwi_code_of(const gwi_program *program, uint32_t id);
/* Returns NULL if there is no symbol with this address. */
const gw_symbol *gwi_symbol_find(const gw_sites *sites, const char *path, uint64_t build_id, uint64_t address);

/* stack.c: build the stack of a site, but do not look for the user's frame. Returns NULL as gw_sites_stack() does. */
gw_stack *gwi_stack_of(gw_sites *sites, uint32_t number);
/* True if the code is Python code. A framework's own stack may also contain native frames, and their files are not
 * Python files. */
bool gwi_is_python(const gwi_code *code);
/* sites.c: return a copy of the text that lives as long as `sites`. Equal texts share one copy. Returns NULL if there
 * is no memory or too many texts. */
const char *gwi_intern(gw_sites *sites, const char *text, size_t bytes);

/* means.c: find all helper functions. */
void gwi_find_means(gw_sites *sites);
/* True if gwi_find_means() found that the frame's function is a helper. */
bool gwi_is_means(const gw_sites *sites, const gw_frame *frame);

gw_whose gwi_whose(const gw_sites *sites, const gw_frame *frame);
bool gwi_is_interpreter(const char *module);

#endif
