/* Converts the call sites of a run, as recorded by the hook (gw_site.h), to stacks with names. Finds the one frame of
 * each stack that belongs to the user.
 *
 * The input is a recording's items in their order. The supervisor looks up names while the files are available; the
 * model uses the stacks. Sites get new numbers, starting at 1. A number is valid for all processes of the run and is
 * never reused, even if a process executes another program. Stacks are built on request.
 *
 * Python frames:
 * - Each native frame of Python's evaluation loop (_PyEval_EvalFrameDefault, with any compiler suffix) is replaced by
 *   the next unused Python frames, up to and including one marked as an entry.
 * - The helper functions of a tail-calling interpreter's loop are removed with it.
 * - Python frames without a native frame are inserted where the interpreter's file first appears, or else at the end.
 *   The stack is then `unplaced`.
 *
 * Owners: the first row of the table in whose.c that matches a frame's source file, mapped file or function decides its
 * owner (gw_whose). Without such a row, the owner is the user. It is OWN if the file is in the working folder or the
 * script's folder, or if the frame is in the command's executable.
 *
 * The user's frame is the innermost frame of the most specific owner in the stack (OWN, USER, PACKAGE, FRAMEWORK). It
 * is never a frame of the runtime: libc, C++ library, loader, driver, CUDA's libraries, interpreter and its standard
 * library, gpuwhy. A native helper function, such as "xmalloc", is skipped. Three or more of the user's functions reach
 * the driver through one or two of its lines (means.c).
 *
 * Use from one thread. All text lives as long as the gw_sites.
 *
 * The supervisor looks names up at the end of the run, while the files still exist, and writes them into the recording
 * as SYMBOL items, so `explain` prints the same on another machine. `explain` looks up only names that are missing,
 * because the supervisor was killed, and none for a recording of another user: a recording can name any file. */
#ifndef GW_SITES_H
#define GW_SITES_H

#include "gw_hash.h"
#include "gw_recording.h"
#include "gw_symbols.h"

#include <limits.h>
#include <sys/stat.h>

typedef struct gw_sites gw_sites;

typedef enum gw_whose {
    GW_WHOSE_OWN,       /* the command's own script or executable, or a file in its folder */
    GW_WHOSE_USER,      /* no row of the table matches */
    GW_WHOSE_PACKAGE,   /* installed software: site-packages, system libraries */
    GW_WHOSE_FRAMEWORK, /* PyTorch, JAX, TensorFlow, ... */
    GW_WHOSE_RUNTIME,   /* never the user's frame */
    GW_WHOSE_NOBODY     /* no function, source file or mapped file is known */
} gw_whose;

typedef struct gw_frame {
    const char *function; /* NULL: not known */
    const char *file;     /* source file; NULL: not known */
    const char *module;   /* mapped file of a native frame; NULL: not known, or a Python frame */
    /* native frames only: address of the call, as in the symbol table of `module`; if there is no module, the address
     * in the process */
    uint64_t address;
    uint32_t line; /* 0: not known */
    /* The part of the line that was running, in bytes from 0; `column_end` is 0 if it is not known. Of a native frame,
     * only the beginning is known: `column_end` is then column + 1. */
    uint32_t column, column_end;
    uint8_t whose; /* gw_whose: the owner */
    uint8_t state; /* gw_symbol_state of the function's name; native frames only */
    bool python;
    bool inlined; /* inlined into the next frame; native frames only */
} gw_frame;

typedef struct gw_stack {
    const gw_frame *frame; /* array, innermost frame first */
    size_t count;
    size_t user;    /* index of the user's frame; equal to `count` if there is none */
    unsigned flags; /* gw_site_flag bits */
    bool unplaced;  /* the position of the Python frames among the native ones is not known */
} gw_stack;

gw_sites *gw_sites_new(void); /* returns NULL if there is no memory */
/* Free `sites` and all text in it. `sites` may be NULL. */
void gw_sites_free(gw_sites *sites);

/* Add an item. Uses META, PROCESS, SYMBOL, FORK, and the events from SITE to PYTHON_LINES; ignores others and
 * damaged ones. Returns false if memory runs out. The item's data is then missing. */
bool gw_sites_feed(gw_sites *sites, const gw_item *item);
bool gw_sites_feed_event(gw_sites *sites, const gw_event *event); /* the same for an event */

/* Return the number of site `id` of the process that has this pid at this point of the recording. Returns 0 if `id`
 * is 0, at a limit, if memory runs out, or if processes of several pid namespaces have this pid. The stack is unknown
 * until the site's records arrive. */
uint32_t gw_sites_number(gw_sites *sites, uint32_t pid, uint32_t id);
uint32_t gw_sites_count(const gw_sites *sites); /* numbers run from 1 to this count */

/* Look up in the files of this machine the names that the recording lacks. Limits and results are as for
 * gw_symbols_resolve(). */
GW_MUST_CHECK gw_status gw_sites_resolve(gw_sites *sites, uint32_t soft_ms, uint32_t hard_ms, gw_error *err);
/* Limits on CPU time for looking up names, at the end of a run and in commands that read a recording. */
enum { GW_NAMES_SOFT_MS = 400, GW_NAMES_HARD_MS = 1500 };

/* Return all names that are known, for writing them to the recording. The array is borrowed, and valid until the next
 * call on `sites`. */
const gw_symbol *gw_sites_symbols(const gw_sites *sites, size_t *ret_count);

/* Return the stack of a site. Returns NULL if `number` is 0, no frames were recorded, or there is no memory. */
const gw_stack *gw_sites_stack(gw_sites *sites, uint32_t number);
/* Return the nearest caller of the user's frame whose owner is at least as specific; NULL if there is none. The
 * stack must have a user's frame. */
const gw_frame *gw_stack_caller(const gw_stack *stack);

/* Format a frame as "train.py:41 in load_batch", "load_batch (train)" or "train+0x1234". Files outside the working
 * folder are shown without their folder. Returns `out`. */
enum { GW_PLACE_TEXT_MAX = 256 };
char *gw_frame_text(const gw_sites *sites, const gw_frame *frame, char out[GW_PLACE_TEXT_MAX]);

/* ---- source files (source.c) ---- */

enum { GW_SOURCE_BYTES_MAX = 8 << 20 }; /* larger source files are not read */

/* Return the path of a source file. A relative name is one of the folder `cwd`; NULL: unknown. False: there is none. */
bool gw_source_path(const char *cwd, const char *file, char out[PATH_MAX]);
/* True if the file may have changed since the run began or, for a native frame, since its module was built. `module`
 * NULL: unknown. */
bool gw_source_may_have_changed(const struct stat *info, uint64_t begun_realtime_ns, bool python, const char *module);
/* Read a whole open file and compute its hash. The caller frees the result. Returns NULL if the file cannot be read,
 * has more than `bytes_max` bytes, or grows or shrinks meanwhile, or if there is no memory. */
char *gw_source_read(int fd, size_t bytes_max, size_t *ret_bytes, char sha256[GW_SHA256_TEXT_MAX]);

/* Pass the hashes of the source files of all sites to `sink`; `file` is as in gw_frame. Files of the user come first,
 * those of frameworks last. Files that may have changed are left out, as are those that exceed a limit: 1,024 files,
 * GW_SOURCE_BYTES_MAX in all, and 20 ms of CPU time. */
typedef void gw_source_sink(void *user, const char *file, const char *sha256);
void gw_sites_sources(const gw_sites *sites, gw_source_sink *sink, void *user);

#endif
