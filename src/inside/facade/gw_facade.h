/* The facade: a small ELF library with the SONAME libcuda.so.1 and exactly the dynamic symbols of one driver library.
 *
 * Functions for the supervisor write a facade. They find the driver that the loader would give a program, and read its
 * SONAME and build id. They never load a driver into the calling process: files are read as data, and damaged ones are
 * refused with a reason. They keep no state and may be called from any thread. */
#ifndef GW_FACADE_H
#define GW_FACADE_H

#include "gw_status.h"

#include <stdint.h>

enum { GW_FACADE_VERSION = 3, GW_FACADE_BUILD_ID_TEXT = 64 };

#define GW_FACADE_MAGIC "GWFACAD"

/* The head of a facade's data, for the facade's machine code and the hook. The data is writable, and the loader
 * relocates the pointers. The machine code in facade_x86_64.c uses the offsets of the members, and assertions check
 * them.
 *
 * The stub of the i-th name jumps to `table[i]`. At first this entry leads to code that opens the hook and calls its
 * gw_hook_attach(head). Then it leads to a wrapper or to the real function. If the hook cannot be opened, that code
 * opens the driver itself, and the program runs as it does without a facade. */
typedef struct gw_facade_head {
    char magic[8];
    uint32_t version;
    uint32_t name_count;
    void *dl_open;     /* address of dlopen(); weak reference: NULL if dlopen() is in libdl, which is not loaded */
    void *dl_sym;      /* address of dlsym(); NULL in the same case */
    void *dl_open_old; /* address of __libc_dlopen_mode(), for older C libraries, where the two above are NULL */
    void *dl_sym_old;  /* address of __libc_dlsym(), for the same C libraries */
    void *errno_location;
    const char *hook_path;   /* absolute */
    const char *driver_path; /* absolute */
    const char *attach_name; /* "gw_hook_attach" */
    const uint32_t *names;   /* name_count offsets into `strings` */
    const char *strings;
    void **table;
    const char *driver_soname;
    const char *driver_build_id; /* hex; "" if the driver has none */
    /* The code that dlsym() finds for name i is at stubs + i * stub_bytes. The first read_count names are exceptions:
     * their code is at read_stubs + i * read_stub_bytes. */
    const uint8_t *stubs;
    uint32_t stub_bytes;
    uint32_t attached; /* 1 once the hook has filled the table */
    const uint8_t *read_stubs;
    uint32_t read_stub_bytes;
    uint32_t read_count;
    void **reads; /* targets of the first read_count names, on a page of their own; NULL: jump through the table */
} gw_facade_head;

/* The hook's entry point. Returns 0 if it has filled the table. Otherwise the facade calls only the real driver.
 * Several threads may call it at once. */
typedef int gw_hook_attach_fn(gw_facade_head *head);

typedef struct gw_facade_info {
    char soname[256];                       /* "" if the library has none */
    char build_id[GW_FACADE_BUILD_ID_TEXT]; /* hex; "" if the library has none */
    uint32_t export_count;
} gw_facade_info;

/* Read the SONAME, the build id and the number of exports of the library at `path`. Returns GW_OK, GW_IO, GW_CORRUPT,
 * GW_UNSUPPORTED (the file is not for this machine) or GW_NOMEM. On an error, *ret_info is unchanged. */
GW_MUST_CHECK gw_status gw_facade_driver_info(const char *path, gw_facade_info *ret_info, gw_error *err);

/* Write `out_dir`/libcuda.so.1 and the link libcuda.so next to it, for the driver and the hook at these absolute paths.
 *
 * Creates the folder if it does not exist, and makes the files readable for every user. An existing facade is kept if
 * its bytes are the same and no other user could have written it. Otherwise it is replaced atomically, so that a
 * program that is just starting finds a complete one.
 *
 * Returns GW_OK, a status of gw_facade_driver_info(), or:
 * - GW_USAGE: a path is relative
 * - GW_MISSING: the driver exports no name, or the hook does not exist */
GW_MUST_CHECK gw_status gw_facade_write(const char *driver_path, const char *hook_path, const char *out_dir,
                                        gw_error *err);

/* Find the libcuda.so.1 that the loader would give `program` (absolute path of an executable).
 *
 * `library_path` is its LD_LIBRARY_PATH (NULL: none). The search order is the program's own run path, `library_path`,
 * the system's cache and the default folders. A child process searches the last two, by opening the library.
 *
 * Returns GW_NOMEM, GW_IO, or:
 * - GW_OK: *ret_path is an absolute path, freed by the caller.
 * - GW_MISSING: no driver was found. `err` lists the places searched and why the last file was skipped. */
GW_MUST_CHECK gw_status gw_driver_locate(const char *program, const char *library_path, char **ret_path, gw_error *err);

#endif
