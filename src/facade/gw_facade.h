/* The facade: a small ELF library with the SONAME libcuda.so.1 whose dynamic symbols are exactly those of one
 * driver library, and what the supervisor must know to write it: which driver the loader would have given a
 * program, and what that file calls itself.
 *
 * Nothing here loads a driver into the calling process; files are read as data, and damaged ones are refused
 * with a reason. No function keeps state; all may be called from any thread. */
#ifndef GW_FACADE_H
#define GW_FACADE_H

#include "gw_status.h"

#include <stdint.h>

enum { GW_FACADE_VERSION = 3, GW_FACADE_BUILD_ID_TEXT = 64 };

#define GW_FACADE_MAGIC "GWFACAD"

/* The writable head inside a facade's data: what its machine code and the hook share. Pointers are relocated
 * by the loader. The machine code of facade_x86_64.c knows these offsets; the assertions there tie them.
 *
 * `table[i]` is where the stub of the i-th name jumps. It first leads to code that opens the hook and calls its
 * gw_hook_attach(head); after that it holds a wrapper or the real function. When the hook cannot be opened, the
 * same code opens the driver by itself and jumps to the real function: the program never notices. */
typedef struct gw_facade_head {
    char magic[8];
    uint32_t version;
    uint32_t name_count;
    void *dl_open;     /* dlopen; weak, NULL where the C library keeps it in libdl and that is not loaded */
    void *dl_sym;      /* dlsym; likewise */
    void *dl_open_old; /* __libc_dlopen_mode: where older C libraries lack the two above */
    void *dl_sym_old;  /* __libc_dlsym */
    void *errno_location;
    const char *hook_path;   /* absolute */
    const char *driver_path; /* absolute */
    const char *attach_name; /* "gw_hook_attach" */
    const uint32_t *names;   /* name_count offsets into `strings` */
    const char *strings;
    void **table;
    const char *driver_soname;
    const char *driver_build_id; /* hex; "" when the driver has none */
    const uint8_t *stubs;        /* the code that `dlsym` finds: name i at stubs + i * stub_bytes ... */
    uint32_t stub_bytes;
    uint32_t attached;         /* 1 once the hook filled the table */
    const uint8_t *read_stubs; /* ... but for the first read_count names: at read_stubs + i * read_stub_bytes */
    uint32_t read_stub_bytes;
    uint32_t read_count;
    void **reads; /* read_count words, alone on a page: where those names lead; NULL: to the table */
} gw_facade_head;

/* The hook's door. 0: the table is filled; else the facade goes on with the real driver alone. */
typedef int gw_hook_attach_fn(gw_facade_head *head);

typedef struct gw_facade_info {
    char soname[256];                       /* "" when it has none */
    char build_id[GW_FACADE_BUILD_ID_TEXT]; /* hex; "" when it has none */
    uint32_t export_count;
} gw_facade_info;

/* What the library at `path` calls itself. GW_OK; GW_IO, GW_CORRUPT, GW_UNSUPPORTED (not for this machine),
 * GW_NOMEM: `err` names file and reason, *ret_info is untouched. */
GW_MUST_CHECK gw_status gw_facade_driver_info(const char *path, gw_facade_info *ret_info, gw_error *err);

/* Write `out_dir`/libcuda.so.1 and the link libcuda.so beside it, for the driver at `driver_path` and the hook at
 * `hook_path` (both absolute). The folder is made when it is missing; a facade already there is replaced in one
 * step, so that a program starting meanwhile finds the old one or the new one.
 *
 * GW_OK; GW_USAGE: a path is relative; else as gw_facade_driver_info(), and GW_MISSING: the driver exports no
 * name, or the hook is not there. */
GW_MUST_CHECK gw_status gw_facade_write(const char *driver_path, const char *hook_path, const char *out_dir,
                                        gw_error *err);

/* The libcuda.so.1 that the loader would give `program` (absolute path of an executable) when started with
 * `library_path` as its LD_LIBRARY_PATH (NULL: none): the program's own run path, the library path, then the
 * system's cache and default folders (asked in a child process, which opens the library lazily and ends).
 *
 * GW_OK: *ret_path is an absolute path, freed by the caller. GW_MISSING: there is none, `err` says where it was
 * looked for and, for files that were passed over, why. GW_NOMEM, GW_IO. */
GW_MUST_CHECK gw_status gw_driver_locate(const char *program, const char *library_path, char **ret_path, gw_error *err);

#endif
