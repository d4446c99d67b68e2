/* Call sites of a run: converts the hook's records (gw_site.h) to stacks with names, and finds the one frame of each
 * stack that belongs to the user.
 *
 * The input is a recording's items in their order. Both the supervisor, which looks up names while the files are
 * available, and the model use this. Sites get new numbers, starting at 1, which are valid for all processes of the run
 * and are never reused, even if a process executes another program. Stacks are built on request.
 *
 * Merging: a native frame of Python's evaluation loop (_PyEval_EvalFrameDefault, with any compiler suffix) is replaced
 * by Python frames: from the next unused one up to and including one that is marked as entry. Functions that run for
 * the loop (those of the tail-calling interpreter) are removed with it. Python frames without a matching native frame
 * are inserted where the interpreter's file first appears, otherwise after all other frames, and the stack is
 * `unplaced`.
 *
 * The user's frame: each frame has an owner (gw_whose), which is the first row of the table in whose.c that matches its
 * source file, mapped file or function. A frame without a matching row is the user's. It is the command's own if its
 * file is in the working folder or the script's folder, or if it is in the command's executable. The user's frame is
 * the innermost one of the most specific owner that occurs (OWN before USER before PACKAGE before FRAMEWORK). Native
 * helper functions of the user are skipped: if three or more of the user's functions reach the driver through one or
 * two lines of a function such as "xmalloc", that function is a helper (means.c). Frames of the runtime (libc, C++
 * library, loader, driver, CUDA's libraries, interpreter and its standard library, gpuwhy) are never the user's.
 *
 * Use from one thread. All text lives as long as the gw_sites. */
#ifndef GW_SITES_H
#define GW_SITES_H

#include "gw_recording.h"
#include "gw_symbols.h"

typedef struct gw_sites gw_sites;

typedef enum gw_whose {
    GW_WHOSE_OWN,       /* the command's own script or executable, or a file in its folder */
    GW_WHOSE_USER,      /* no row of the table matches */
    GW_WHOSE_PACKAGE,   /* installed: site-packages, system libraries */
    GW_WHOSE_FRAMEWORK, /* PyTorch, JAX, TensorFlow, ... */
    GW_WHOSE_RUNTIME,   /* never the user's frame */
    GW_WHOSE_NOBODY     /* frame without any name */
} gw_whose;

typedef struct gw_frame {
    const char *function; /* NULL: not known */
    const char *file;     /* source file; NULL: not known */
    const char *module;   /* native: the mapped file; NULL: not known. NULL for Python frames */
    /* native: address of the call, in the module's symbol table or, without a module, in the process */
    uint64_t address;
    uint32_t line; /* 0: not known */
    uint8_t whose; /* gw_whose: the owner */
    uint8_t state; /* native: gw_symbol_state of the name */
    bool python;
    bool inlined; /* native: into the next frame */
} gw_frame;

typedef struct gw_stack {
    const gw_frame *frame; /* innermost first */
    size_t count;
    size_t user;    /* index of the user's frame; equal to `count` if there is none */
    unsigned flags; /* gw_site_flag */
    bool unplaced;  /* the position of the Python frames among the native ones is not known */
} gw_stack;

gw_sites *gw_sites_new(void); /* NULL: no memory */
/* Free `sites` and all text in it. Takes NULL. */
void gw_sites_free(gw_sites *sites);

/* Add an item. Uses META, PROCESS, SYMBOL, events of kinds SITE to PYTHON_LINES, and FORK; ignores other items and
 * damaged ones. False: no memory; the data of this item is then missing. */
bool gw_sites_feed(gw_sites *sites, const gw_item *item);
bool gw_sites_feed_event(gw_sites *sites, const gw_event *event); /* the same for an event */

/* Return the number of the site `id` of the process that currently runs as `pid`; 0: `id` is 0, a limit is reached, or
 * there is no memory. An id may be used before its records arrive; its stack is unknown until then. */
uint32_t gw_sites_number(gw_sites *sites, uint32_t pid, uint32_t id);
uint32_t gw_sites_count(const gw_sites *sites); /* numbers are 1 to this value */

/* Look up the names that the recording does not contain, in the files of this machine. Limits and statuses are those of
 * gw_symbols_resolve(). */
GW_MUST_CHECK gw_status gw_sites_resolve(gw_sites *sites, uint32_t soft_ms, uint32_t hard_ms, gw_error *err);
/* The time limits that a run uses at its end, and a command that judges a recording. */
enum { GW_NAMES_SOFT_MS = 400, GW_NAMES_HARD_MS = 1500 };

/* All names, for writing them to the recording. Borrowed until the next call on `sites`. */
const gw_symbol *gw_sites_symbols(const gw_sites *sites, size_t *ret_count);

/* Return the stack of a site; NULL: number 0, its frames were never recorded, or no memory. */
const gw_stack *gw_sites_stack(gw_sites *sites, uint32_t number);
/* Return the next frame outwards from the user's frame whose owner is at least as specific; NULL: there is none. The
 * stack must have a user's frame. */
const gw_frame *gw_stack_caller(const gw_stack *stack);

/* Format a frame as "train.py:41 in load_batch", "load_batch (train)", "train+0x1234". A file in the working folder is
 * shown with its path from there, any other file with the last part of its path. Writes to `out` and returns it. */
enum { GW_PLACE_TEXT_MAX = 256 };
char *gw_frame_text(const gw_sites *sites, const gw_frame *frame, char out[GW_PLACE_TEXT_MAX]);

#endif
