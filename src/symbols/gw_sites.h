/* Call sites of a run: convert the hook's records (gw_site.h) to stacks with names, and find the one frame of each
 * stack that belongs to the user.
 *
 * The input is a recording's items in their order. This module has two users: the supervisor, which looks up names
 * while the files are available, and the model. Sites get new numbers, starting at 1. A number is valid for all
 * processes of the run and is never reused, even if a process executes another program. Stacks are built on request.
 *
 * Merging: each native frame of Python's evaluation loop (_PyEval_EvalFrameDefault, with any compiler suffix) is
 * replaced by Python frames. These start at the next unused Python frame and end with the first frame that is marked as
 * an entry. The helper functions of a tail-calling interpreter's loop are removed together with the native frame.
 * Python frames without a matching native frame are inserted where the interpreter's file first appears, or after all
 * other frames if it does not appear. The stack is then `unplaced`.
 *
 * The user's frame: each frame has an owner (gw_whose). The first row of the table in whose.c that matches the frame's
 * source file, mapped file or function decides the owner. A frame without a matching row belongs to the user. It
 * belongs to the command (OWN) if its file is in the working folder or the script's folder, or if it is in the
 * command's executable. The user's frame is the innermost frame of the most specific owner in the stack (OWN before
 * USER before PACKAGE before FRAMEWORK). Native helper functions of the user are skipped: if three or more of the
 * user's functions reach the driver through one or two lines of a function such as "xmalloc", that function is a helper
 * (means.c). Frames of the runtime (libc, C++ library, loader, driver, CUDA's libraries, interpreter and its standard
 * library, gpuwhy) are never the user's frame.
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
    GW_WHOSE_PACKAGE,   /* installed software: site-packages, system libraries */
    GW_WHOSE_FRAMEWORK, /* PyTorch, JAX, TensorFlow, ... */
    GW_WHOSE_RUNTIME,   /* never the user's frame */
    GW_WHOSE_NOBODY     /* no function, source file or mapped file is known */
} gw_whose;

typedef struct gw_frame {
    const char *function; /* NULL: not known */
    const char *file;     /* source file; NULL: not known */
    const char *module;   /* mapped file of a native frame; NULL: not known, or a Python frame */
    /* native frames only: address of the call as in the symbol table of `module`; without a module, as in the
     * process */
    uint64_t address;
    uint32_t line; /* 0: not known */
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
/* Free `sites` and all text in it. Takes NULL. */
void gw_sites_free(gw_sites *sites);

/* Add an item. Uses META, PROCESS, SYMBOL, FORK, and the events from SITE to PYTHON_LINES. Ignores other items and
 * damaged ones. Returns false if there is no memory; the data of this item is then missing. */
bool gw_sites_feed(gw_sites *sites, const gw_item *item);
bool gw_sites_feed_event(gw_sites *sites, const gw_event *event); /* the same for an event */

/* Return the number of the site `id` in the process that has this pid at this point of the recording. Returns 0 if `id`
 * is 0, a limit is reached, or there is no memory. An id may be used before its records arrive; its stack is unknown
 * until then. */
uint32_t gw_sites_number(gw_sites *sites, uint32_t pid, uint32_t id);
uint32_t gw_sites_count(const gw_sites *sites); /* numbers run from 1 to this count */

/* Look up the names that the recording lacks, in the files of this machine. Limits and results are as for
 * gw_symbols_resolve(). */
GW_MUST_CHECK gw_status gw_sites_resolve(gw_sites *sites, uint32_t soft_ms, uint32_t hard_ms, gw_error *err);
/* Limits on CPU time for looking up names, at the end of a run and in commands that read a recording. */
enum { GW_NAMES_SOFT_MS = 400, GW_NAMES_HARD_MS = 1500 };

/* Return all names, to write them to the recording. The array is borrowed, and valid until the next call on `sites`. */
const gw_symbol *gw_sites_symbols(const gw_sites *sites, size_t *ret_count);

/* Return the stack of a site. Returns NULL if `number` is 0, no frames were recorded, or there is no memory. */
const gw_stack *gw_sites_stack(gw_sites *sites, uint32_t number);
/* Return the nearest caller of the user's frame whose owner is at least as specific as the owner of the user's frame.
 * Returns NULL if there is none. The stack must have a user's frame. */
const gw_frame *gw_stack_caller(const gw_stack *stack);

/* Format a frame as "train.py:41 in load_batch", "load_batch (train)" or "train+0x1234". A file in the working folder
 * is shown with its relative path, any other file with its base name. Writes to `out` and returns it. */
enum { GW_PLACE_TEXT_MAX = 256 };
char *gw_frame_text(const gw_sites *sites, const gw_frame *frame, char out[GW_PLACE_TEXT_MAX]);

#endif
