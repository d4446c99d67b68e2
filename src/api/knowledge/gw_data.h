/* The tables of data/ as C arrays: known errors, and versions of CUDA, drivers, cards and frameworks that work
 * together.
 *
 * The column `verified` says how well a row was checked:
 * - GW_VERIFIED_YES: read in the vendor's own text or header, or measured. Only such a row is enough for a verdict on
 *   its own.
 * - GW_VERIFIED_PARTLY: only the columns named in the row's notes were checked.
 * - GW_VERIFIED_NO: from experience.
 *
 * Texts are static, and NULL where the table has "-". Rows are in the order of their file. Any thread may use the data.
 * docs/HOWTO_ADD_DATA.md describes how to add a row. */
#ifndef GW_DATA_H
#define GW_DATA_H

#include "gw_version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gw_verified { GW_VERIFIED_NO, GW_VERIFIED_PARTLY, GW_VERIFIED_YES } gw_verified;
const char *gw_verified_text(gw_verified verified); /* "no", "partly" or "yes"; static */

/* ---- data/xid.tsv ---- */

typedef enum gw_xid_kind { GW_XID_KIND_XID, GW_XID_KIND_SXID } gw_xid_kind;
typedef struct gw_xid {
    gw_xid_kind kind;
    unsigned code;
    const char *mnemonic;
    const char *meaning;
    const char *class;   /* likely origin: a word from the list in datagen.c, such as "app-first" or "hardware" */
    const char *hint;    /* usual cause, or what to check */
    const char *flags;   /* possible causes in the vendor's older table, as letters from HDUMBTF (see data/xid.tsv) */
    const char *action;  /* immediate action in the vendor's catalogue, such as "RESTART_APP" */
    const char *inquiry; /* investigation action in the vendor's catalogue */
    gw_verified verified;
    const char *source;
} gw_xid;
const gw_xid *gw_data_xid_of(unsigned code);  /* NULL: unknown code */
const gw_xid *gw_data_sxid_of(unsigned code); /* look up an NVSwitch code (SXid); NULL: unknown */

/* ---- data/cuda_errors.tsv ---- */

typedef enum gw_sticky {
    GW_STICKY_NO,
    GW_STICKY_YES,
    GW_STICKY_PRACTICE,
    GW_STICKY_MAYBE,
    GW_STICKY_UNKNOWN
} gw_sticky;
typedef enum gw_usable { GW_USABLE_NO, GW_USABLE_YES, GW_USABLE_NONE, GW_USABLE_UNKNOWN } gw_usable;
typedef enum gw_reported { GW_REPORTED_SYNC, GW_REPORTED_ASYNC, GW_REPORTED_EITHER } gw_reported;
typedef struct gw_cuda_error {
    unsigned code;
    const char *driver_name;  /* NULL: only the runtime has this code */
    const char *runtime_name; /* NULL: only the driver has this code */
    unsigned old_code;        /* code in the runtime before CUDA 10.1; 0: same code, or none */
    const char *text;         /* text returned by cuGetErrorString(); NULL: unknown */
    const char *log_text;     /* words in a log line that mean this result; alternatives separated by '|'; NULL: none */
    const char *cuda_log_text; /* words that mean this result only in a line that names CUDA; otherwise like log_text */
    gw_sticky sticky;
    const char *sticky_source; /* source of `sticky`; NULL: not sticky, or unknown */
    gw_usable usable;          /* can the context be used after the error? NONE: there was no context */
    gw_reported reported;
    const char *meaning;
    const char *hint;
    bool documented;      /* true: CUDA's headers document `sticky`; false: `sticky` comes from experience */
    gw_verified verified; /* applies to the code and the names */
    const char *source;
} gw_cuda_error;
const gw_cuda_error *gw_data_cuda_error(unsigned code);          /* NULL: unknown code */
const gw_cuda_error *gw_data_cuda_error_named(const char *name); /* look up by driver or runtime name; NULL: unknown */
const gw_cuda_error *gw_data_cuda_error_old(unsigned old_code);  /* look up by old_code; NULL: unknown, or 0 */
const gw_cuda_error *gw_data_cuda_error_said(const char *text);  /* look up by one text of log_text or cuda_log_text */

/* ---- data/cudnn_status.tsv ---- */

typedef struct gw_cudnn_status {
    unsigned major_first, major_last; /* major versions of cuDNN in which the code has this name */
    unsigned code;
    const char *name;
    const char *category;
    const char *meaning;
    const char *hint;
    gw_verified verified;
    const char *source;
} gw_cudnn_status;
/* Look up a status by its name in cuDNN version `major`; 0: the newest version that has the name. Returns NULL if the
 * name is unknown. */
const gw_cudnn_status *gw_data_cudnn_status_named(unsigned major, const char *name);

/* ---- data/library_status.tsv ---- */

typedef enum gw_status_library { GW_STATUS_OF_CUBLAS, GW_STATUS_OF_NCCL } gw_status_library;
typedef struct gw_library_status {
    gw_status_library library;
    unsigned code;
    const char *name;
    const char *meaning;
    const char *hint;
    gw_verified verified; /* applies to the number and the name */
    const char *source;
} gw_library_status;
const gw_library_status *gw_data_library_status_of(gw_status_library library, unsigned code); /* NULL: unknown number */

/* ---- data/driver_compat.tsv, data/cuda_families.tsv ---- */

typedef struct gw_driver_row {
    gw_version cuda;           /* major and minor version, such as 12.4 */
    gw_version release;        /* toolkit release of this row, such as 12.4.1 */
    gw_version driver_shipped; /* driver that was released with this toolkit */
    gw_version driver_minimum; /* oldest driver that runs programs built with this CUDA version */
    gw_version driver_windows;
    gw_verified verified; /* applies to driver_shipped */
    const char *notes;
    const char *source;
    const char *driver_shipped_text, *driver_minimum_text; /* as written by the vendor; NULL: unknown */
} gw_driver_row;
typedef struct gw_cuda_family {
    unsigned major;
    gw_version driver_minimum;
    gw_verified verified;
    const char *notes;
    const char *source;
    const char *driver_minimum_text;
} gw_cuda_family;
/* Return the row of a major version of CUDA. Returns NULL for unknown versions and those before 11, which have no
 * minor-version compatibility. */
const gw_cuda_family *gw_data_cuda_family(unsigned major);
/* Return the newest CUDA version that was shipped with this driver or with an older one. The driver supports at least
 * this version. NULL: the driver is older than the table. */
const gw_driver_row *gw_data_cuda_of_driver(gw_version driver);

typedef enum gw_driver_fit {
    GW_DRIVER_UNKNOWN, /* the versions are not in the tables */
    GW_DRIVER_TOO_OLD, /* the driver is older than the minimum for this CUDA version */
    GW_DRIVER_MINOR,   /* at least the minimum driver, but older than the CUDA version: programs run with limits */
    GW_DRIVER_FULL     /* the driver is at least as new as the CUDA version */
} gw_driver_fit;
/* Check whether this driver runs programs built with this CUDA version. GW_DRIVER_FULL: the driver is not older than
 * the first one shipped with that version. *ret_row is the row of the CUDA version, or NULL if there is none. `ret_row`
 * may be NULL. */
gw_driver_fit gw_data_driver_fit(gw_version driver, gw_version cuda, const gw_driver_row **ret_row);

/* ---- data/compute_capability.tsv ---- */

typedef struct gw_capability {
    gw_version capability; /* such as 9.0 */
    const char *architecture;
    const char *examples;
    gw_version cuda_first; /* first toolkit that generates native code for this capability */
    gw_version cuda_last;  /* last toolkit that generates it; 0: the newest toolkit still does */
    gw_verified verified;
    const char *notes;
    const char *source;
} gw_capability;
const gw_capability *gw_data_capability(gw_version capability); /* NULL: unknown */

/* ---- data/framework_compat.tsv, data/cudnn_support.tsv ---- */

typedef struct gw_framework_row {
    const char *component; /* "pytorch", "tensorflow", "jax" */
    const char *release;   /* "2.11.0", or "2.1.x" for every release of 2.1 */
    const char *cuda;      /* "12.6.3", or "12.1+" for 12.1 and all later versions */
    const char *cudnn;
    const char *architectures; /* "7.5 8.0 12.0+PTX", see gw_data_covers() */
    gw_verified verified;
    const char *notes;
    const char *source;
} gw_framework_row;
/* Return the row of a release such as "2.9.1" with this CUDA version; 0: the first row of the release. A suffix of the
 * release such as "+cu126" is ignored. Returns NULL if there is none. */
const gw_framework_row *gw_data_framework(const char *component, const char *release, gw_version cuda);
/* Return the newest row of a component whose binaries have native code for a card of this compute capability, or
 * NULL. */
const gw_framework_row *gw_data_framework_for(const char *component, gw_version capability);

typedef struct gw_cudnn_support {
    gw_version first, last; /* range of cuDNN releases; `last` 0: no upper limit */
    gw_version cuda_first, cuda_last;
    gw_version capability_first, capability_last; /* `capability_last` 0: no upper limit */
    gw_verified verified;
    const char *notes;
    const char *source;
} gw_cudnn_support;
const gw_cudnn_support *gw_data_cudnn_support_of(gw_version cudnn); /* NULL: not in the table */

typedef enum gw_cover {
    GW_COVER_NONE,
    GW_COVER_PTX, /* runs only through PTX, which the driver compiles at run time */
    GW_COVER_NATIVE
} gw_cover;
/* Check whether code for `architectures` (a list such as "7.5 12.0+PTX") runs on a card. Native code needs the same
 * major version and the same or a later minor version of the card. PTX needs the same or a later version. */
gw_cover gw_data_covers(const char *architectures, gw_version capability);

/* All tables, as X(name, row type). */
#define GW_DATA_TABLES(X)                                                                                              \
    X(xid, gw_xid)                                                                                                     \
    X(cuda_errors, gw_cuda_error)                                                                                      \
    X(cudnn_status, gw_cudnn_status)                                                                                   \
    X(library_status, gw_library_status)                                                                               \
    X(driver_compat, gw_driver_row)                                                                                    \
    X(cuda_families, gw_cuda_family)                                                                                   \
    X(compute_capability, gw_capability)                                                                               \
    X(framework_compat, gw_framework_row)                                                                              \
    X(cudnn_support, gw_cudnn_support)
#define GW_X(name, type)                                                                                               \
    extern const type gw_data_##name[];                                                                                \
    extern const size_t gw_data_##name##_count;
GW_DATA_TABLES(GW_X)
#undef GW_X

#endif
