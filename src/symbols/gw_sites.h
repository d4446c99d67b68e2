/* Call sites of a run: from what the hook wrote (gw_site.h) to stacks with names, and to the one frame of each that is
 * the user's.
 *
 * Fed with a recording's items in their order; both the supervisor, which names what it has seen before the machine is
 * gone, and the model do that. Sites get numbers of their own, from 1 on, which hold for all processes of the run and
 * are never used twice, also when a process runs another program. Stacks are put together when they are asked for.
 *
 * Merging: a native frame of Python's evaluation loop (_PyEval_EvalFrameDefault, whatever suffix a compiler gave its
 * parts) stands for the Python frames from the next one that is left up to and including one marked as entry. Parts
 * that run on the loop's behalf (the tail-calling interpreter's) are left out with it. Python frames for which no such
 * native frame was found are put where the interpreter's file first shows, else behind all others, and the stack is
 * `unplaced`.
 *
 * The user's frame: each frame belongs to somebody (gw_whose), by the first row of data in whose.c that fits its source
 * file, mapped file or function; a frame that fits none is the user's, and the command's own when its file lies in the
 * working folder or the script's folder, or it is in the command's executable. Of the frames of the most own sort that
 * there is (OWN before USER before PACKAGE before FRAMEWORK) the innermost is the user's frame; only native functions
 * of the user's that are a means and no place are passed over: three or more of the user's functions come to the driver
 * through one line or two of such a function, as of "xmalloc" (means.c). Frames of the runtime
 * (libc, C++ library, loader, driver, CUDA's libraries, interpreter and its standard library, gpuwhy) never are.
 *
 * One thread. All text lives as long as the gw_sites. */
#ifndef GW_SITES_H
#define GW_SITES_H

#include "gw_recording.h"
#include "gw_symbols.h"

typedef struct gw_sites gw_sites;

typedef enum gw_whose {
    GW_WHOSE_OWN,       /* the command's own script or executable, or beside it */
    GW_WHOSE_USER,      /* nothing that we know */
    GW_WHOSE_PACKAGE,   /* installed: site-packages, system libraries */
    GW_WHOSE_FRAMEWORK, /* PyTorch, JAX, TensorFlow, ... */
    GW_WHOSE_RUNTIME,   /* never the user's */
    GW_WHOSE_NOBODY     /* nothing is known of the frame */
} gw_whose;

typedef struct gw_frame {
    const char *function; /* NULL: not known */
    const char *file;     /* source file; NULL: not known */
    const char *module;   /* native: the mapped file; NULL: not known. Python: NULL */
    uint64_t address;     /* native: in the module's symbol table, else in the process; of the call */
    uint32_t line;        /* 0: not known */
    uint8_t whose;        /* gw_whose */
    uint8_t state;        /* native: gw_symbol_state of its name */
    bool python;
    bool inlined; /* native: into the next frame */
} gw_frame;

typedef struct gw_stack {
    const gw_frame *frame; /* innermost first */
    size_t count;
    size_t user;    /* index of the user's frame; `count`: there is none */
    unsigned flags; /* gw_site_flag */
    bool unplaced;  /* where the Python frames belong among the native ones is not known */
} gw_stack;

gw_sites *gw_sites_new(void); /* NULL: no memory */
void gw_sites_free(gw_sites *sites);

/* Take what concerns call sites: META, PROCESS, SYMBOL, events of kinds SITE to PYTHON_LINES and FORK; anything else is
 * passed over, as is what is damaged. False: no memory; what was not taken is then not known. */
bool gw_sites_feed(gw_sites *sites, const gw_item *item);
bool gw_sites_feed_event(gw_sites *sites, const gw_event *event); /* the same for an event */

/* The number of the site `id` of the process that now runs under `pid`; 0: `id` is 0, or was never written. Takes
 * ids that are still to come: their stack is not known until then. */
uint32_t gw_sites_number(gw_sites *sites, uint32_t pid, uint32_t id);
uint32_t gw_sites_count(const gw_sites *sites); /* numbers are 1 to this */

/* Look up the names that the recording does not hold, in the files of this machine. As gw_symbols_resolve(). */
GW_MUST_CHECK gw_status gw_sites_resolve(gw_sites *sites, uint32_t soft_ms, uint32_t hard_ms, gw_error *err);
/* All names, for the recording. Borrowed until the next call on `sites`. */
const gw_symbol *gw_sites_symbols(const gw_sites *sites, size_t *ret_count);

/* The stack of a site; NULL: number 0, its frames were never written, or no memory. */
const gw_stack *gw_sites_stack(gw_sites *sites, uint32_t number);
/* The next frame outwards from the user's that is as much the user's own; NULL: there is none. `user` must be one. */
const gw_frame *gw_stack_caller(const gw_stack *stack);

/* The place in words: "train.py:41 in load_batch", "load_batch (train)", "train+0x1234". The file is named from the
 * working folder on, else by its last part. */
enum { GW_PLACE_TEXT_MAX = 256 };
char *gw_frame_text(const gw_sites *sites, const gw_frame *frame, char out[GW_PLACE_TEXT_MAX]);

#endif
