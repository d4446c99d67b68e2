/* Finds the file that is mapped at an address of this process.
 *
 * A module is one mapping of a file by the loader. Its number is 1-based and is never reused in the process. Code can
 * be unloaded without notice. So facts about a module are valid only after gwi_module_is_there() has returned true in
 * the same walk.
 *
 * Modules are looked up with _dl_find_object (glibc 2.35 and later), or else in /proc/self/maps. dl_iterate_phdr and
 * dladdr take the loader's lock, whose holder may be waiting for us. */
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

/* Call this once per process image, without the hook's lock, because it calls dlsym(). `without_loader` (for tests):
 * use /proc/self/maps. */
void gwi_modules_begin(bool without_loader);

/* Set the memory for the table of modules: GWI_MODULES_BYTES bytes (whole pages), all zero. */
enum { GWI_MODULE_TEXT_BYTES = 512 << 10, GWI_MODULES_BYTES = GWI_MODULES_MAX * 128 + GWI_MODULE_TEXT_BYTES };
void gwi_modules_place(void *memory);
/* call in a forked child: the modules stay valid, but must be recorded again */
void gwi_modules_forked(void);

/* Return the number of the module at `pc`, or 0 if the loader mapped no file there or the table is full. Slow. If this
 * thread already holds the hook's lock, only modules in the table are found. */
uint32_t gwi_module_find(uintptr_t pc);

/* Return the number of modules added so far. */
uint32_t gwi_modules_count(void);

/* gwi_module_at() needs a number from gwi_module_find(). gwi_module_announce() calls `say` to record a module that is
 * not recorded yet, and returns false if `say` returned false. */
const gwi_module *gwi_module_at(uint32_t number);
bool gwi_module_announce(uint32_t number, bool (*say)(void *user, const gwi_module *module), void *user);

/* Return whether the module is still mapped at `pc`. */
bool gwi_module_is_there(uint32_t number, uintptr_t pc);

/* Find the mapping of a file or of anonymous memory that contains the address `at`. Slow, because it reads
 * /proc/self/maps. */
typedef struct gwi_mapping {
    uintptr_t low, high;
    bool is_readable;
    bool is_first_stack; /* the stack that the kernel created for the process */
} gwi_mapping;
bool gwi_mapping_find(uintptr_t at, gwi_mapping *ret_found);

/* Return whether the eight bytes at `at` (a multiple of eight) are readable. This costs one system call. */
bool gwi_may_read(uintptr_t at);

#endif
