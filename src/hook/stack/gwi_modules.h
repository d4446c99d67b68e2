/* Finds the file that is mapped at an address of this process.
 *
 * A module is one mapping of a file by the loader. Its number (from 1) is never used for another module of the
 * process. Code can be unloaded and other code mapped in its place without notice, so facts about a module are valid
 * only after gwi_module_is_there() has returned true in the same walk.
 *
 * Modules are looked up with _dl_find_object (glibc 2.35 and later), which takes no lock. If it is missing,
 * /proc/self/maps is read. dl_iterate_phdr and dladdr are not used, because they take the loader's lock, and the
 * thread that holds this lock may be waiting for us. */
#ifndef GWI_MODULES_H
#define GWI_MODULES_H

#include "gwi_cfi.h"

#include <stdatomic.h>
#include <stddef.h>

enum { GWI_MODULES_MAX = 4096 };

typedef struct gwi_module {
    uintptr_t start, end; /* first mapped byte, and one past the last */
    uintptr_t bias;       /* address in this process minus address in the file's symbol table */
    gwi_cfi_region cfi;
    uintptr_t mark_at[2]; /* addresses of words that distinguish this file from others; 0: none */
    uint64_t mark[2];
    uint64_t build_id; /* first eight bytes of the build id; 0: none */
    const char *path;  /* in the table's memory, valid as long as the process runs; "": not known */
    bool by_path;      /* there is no build id, so the path is compared too */
    bool stays;        /* the module cannot be unloaded while the process runs */
    _Atomic uint32_t is_gone;
    _Atomic uint32_t is_announced; /* the module's MAPPED record was written */
} gwi_module;

/* Call this once per process image, without holding the hook's lock, because it calls dlsym(). With
 * `without_loader`, /proc/self/maps is used instead of the loader (for tests). */
void gwi_modules_begin(bool without_loader);

/* Set the memory for the table of modules: GWI_MODULES_BYTES bytes (whole pages), all zero. */
enum { GWI_MODULE_TEXT_BYTES = 512 << 10, GWI_MODULES_BYTES = GWI_MODULES_MAX * 128 + GWI_MODULE_TEXT_BYTES };
void gwi_modules_place(void *memory);
/* call in a forked child: the modules stay valid, but must be recorded again */
void gwi_modules_forked(void);

/* Return the number of the module at `pc`, and add the module to the table if it is new. Returns 0 if the loader
 * mapped no file at `pc` or the table is full. Slow. If the calling thread already holds the hook's lock, only
 * modules in the table are found. */
uint32_t gwi_module_find(uintptr_t pc);

/* Return the number of modules added so far. */
uint32_t gwi_modules_count(void);

/* Return a module. `number` must come from gwi_module_find(). gwi_module_announce() calls `say` for a module that is
 * not recorded yet, and returns false if `say` did. */
const gwi_module *gwi_module_at(uint32_t number);
bool gwi_module_announce(uint32_t number, bool (*say)(void *user, const gwi_module *module), void *user);

/* Return whether the module is still mapped at `pc`. */
bool gwi_module_is_there(uint32_t number, uintptr_t pc);

/* Find the mapping that contains the address `at`, of a file or of anonymous memory. Returns false if nothing is
 * mapped there. Slow, because it reads /proc/self/maps. */
typedef struct gwi_mapping {
    uintptr_t low, high;
    bool is_readable;
    bool is_first_stack; /* the stack that the kernel created for the process */
} gwi_mapping;
bool gwi_mapping_find(uintptr_t at, gwi_mapping *ret_found);

/* Return whether the eight bytes at `at` (a multiple of eight) are readable. This costs one system call. */
bool gwi_may_read(uintptr_t at);

#endif
