/* Which file lies at an address of this process.
 *
 * A module is one file as the loader mapped it once; its number (from 1) is never given to another one in the process.
 * Code can be unloaded and other code mapped at its place, and nobody tells us: what was learned about a module holds
 * only once gwi_module_is_there() has said so in the same walk.
 *
 * The loader is asked by _dl_find_object (glibc 2.35 and later), which takes no lock; where there is none, the kernel
 * is, by /proc/self/maps. dl_iterate_phdr and dladdr take the loader's lock, which may be held by a thread that waits
 * for us. */
#ifndef GWI_MODULES_H
#define GWI_MODULES_H

#include "gwi_cfi.h"

#include <stdatomic.h>
#include <stddef.h>

enum { GWI_MODULES_MAX = 4096 };

typedef struct gwi_module {
    uintptr_t start, end; /* from its first mapped byte to behind its last one */
    uintptr_t bias;       /* address here less address in the file's symbol table */
    gwi_cfi_region cfi;
    uintptr_t mark_at[2]; /* words that tell this file from another one; 0: none */
    uint64_t mark[2];
    uint64_t build_id; /* first eight bytes; 0: none */
    const char *path;  /* of the process's; "": not known */
    bool by_path;      /* no build id: the path is compared, too */
    bool stays;        /* it cannot be unloaded while we run */
    _Atomic uint32_t is_gone;
    _Atomic uint32_t is_announced; /* its MAPPED is written */
} gwi_module;

/* Once a process image, without our lock held: it asks the loader for a name. With `without_loader` the kernel is asked
 * instead (tests). */
void gwi_modules_begin(bool without_loader);

/* Memory for the table, all zero: GWI_MODULES_BYTES, a multiple of a page. */
enum { GWI_MODULE_TEXT_BYTES = 512 << 10, GWI_MODULES_BYTES = GWI_MODULES_MAX * 128 + GWI_MODULE_TEXT_BYTES };
void gwi_modules_place(void *memory);
void gwi_modules_forked(
    void); /* in the child of a fork: what its parent knew is true, but nobody has been told of it */

/* The module at `pc`, made known where necessary; 0: no file that the loader mapped, or there is no room. Slow. Never
 * waits for this very thread. */
uint32_t gwi_module_find(uintptr_t pc);

/* How many were ever made known. */
uint32_t gwi_modules_count(void);

/* `number` as gwi_module_find() gave it. */
const gwi_module *gwi_module_at(uint32_t number);
bool gwi_module_announce(uint32_t number, bool (*say)(void *user, const gwi_module *module), void *user);

/* Whether it still lies at `pc`. */
bool gwi_module_is_there(uint32_t number, uintptr_t pc);

/* The mapping at `at`, whatever it is; false: none. Asks the kernel: slow. */
typedef struct gwi_mapping {
    uintptr_t low, high;
    bool is_readable;
    bool is_first_stack; /* the one that the kernel made for the process */
} gwi_mapping;
bool gwi_mapping_find(uintptr_t at, gwi_mapping *ret_found);

/* Whether eight bytes at `at`, a multiple of eight, may be read. One system call. */
bool gwi_may_read(uintptr_t at);

#endif
