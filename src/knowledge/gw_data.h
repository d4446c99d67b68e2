/* Known errors, and which versions work together: the tables of data/ as C arrays.
 *
 * Every row states how far it was verified. GW_VERIFIED_YES: read in the vendor's own text or header, or measured.
 * GW_VERIFIED_PARTLY: true for some columns, which its notes name. GW_VERIFIED_NO: known by experience. A verdict is
 * never established by a row alone that is not GW_VERIFIED_YES.
 *
 * Texts are static, and NULL where the table has "-". All data is constant, so any thread may use it. Rows have the
 * order of their files. docs/HOWTO_ADD_DATA.md describes how to add one. */
#ifndef GW_DATA_H
#define GW_DATA_H

#include "gw_version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gw_verified { GW_VERIFIED_NO, GW_VERIFIED_PARTLY, GW_VERIFIED_YES } gw_verified;
const char *gw_verified_text(gw_verified verified); /* "no", "partly", "yes"; static */

/* ---- data/xid.tsv ---- */

typedef enum gw_xid_kind { GW_XID_KIND_XID, GW_XID_KIND_SXID } gw_xid_kind;
typedef struct gw_xid {
    gw_xid_kind kind;
    unsigned code;
    const char *mnemonic;
    const char *meaning;
    const char *class;   /* the first suspect: a word from the list in datagen.c, such as "app-first" or "hardware" */
    const char *hint;    /* usual cause, or what to check */
    const char *flags;   /* from the vendor's older table: letters of HDUMBTF */
    const char *action;  /* immediate action from the vendor's catalogue, such as "RESTART_APP" */
    const char *inquiry; /* investigation action from the same catalogue */
    gw_verified verified;
    const char *source;
} gw_xid;
const gw_xid *gw_data_xid_of(unsigned code);  /* NULL: unknown code */
const gw_xid *gw_data_sxid_of(unsigned code); /* codes of the NVSwitch */

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
    const char *driver_name;   /* NULL: only the runtime has it */
    const char *runtime_name;  /* NULL: only the driver has it */
    unsigned old_code;         /* code of the runtime before CUDA 10.1; 0: the same, or none */
    const char *text;          /* what cuGetErrorString() returns; NULL: unknown */
    const char *log_text;      /* parts of a log line that mean this result, separated by '|'; NULL: none */
    const char *cuda_log_text; /* parts that mean it only on a line that names CUDA */
    gw_sticky sticky;
    const char *sticky_source; /* NULL: not sticky, or unknown */
    gw_usable usable;          /* NONE: there was no context */
    gw_reported reported;
    const char *meaning;
    const char *hint;
    bool documented;      /* true: the headers document the stickiness; false: known by experience */
    gw_verified verified; /* covers code and names */
    const char *source;
} gw_cuda_error;
const gw_cuda_error *gw_data_cuda_error(unsigned code);          /* NULL: unknown code */
const gw_cuda_error *gw_data_cuda_error_named(const char *name); /* the driver's name or the runtime's */
const gw_cuda_error *gw_data_cuda_error_old(unsigned old_code);  /* NULL: unknown before CUDA 10.1, or 0 */
const gw_cuda_error *gw_data_cuda_error_said(const char *text);  /* look up by one part of log_text or cuda_log_text */

/* ---- data/cudnn_status.tsv ---- */

typedef struct gw_cudnn_status {
    unsigned major_first, major_last; /* versions of the library: numbers changed with 9 */
    unsigned code;
    const char *name;
    const char *category;
    const char *meaning;
    const char *hint;
    gw_verified verified;
    const char *source;
} gw_cudnn_status;
/* Look up by name in version `major`. If it is 0, use the newest version that has the name. */
const gw_cudnn_status *gw_data_cudnn_status_named(unsigned major, const char *name);

/* ---- data/library_status.tsv ---- */

typedef enum gw_status_library { GW_STATUS_OF_CUBLAS, GW_STATUS_OF_NCCL } gw_status_library;
typedef struct gw_library_status {
    gw_status_library library;
    unsigned code;
    const char *name;
    const char *meaning;
    const char *hint;
    gw_verified verified; /* covers number and name */
    const char *source;
} gw_library_status;
const gw_library_status *gw_data_library_status_of(gw_status_library library, unsigned code); /* NULL: unknown number */

/* ---- data/driver_compat.tsv, data/cuda_families.tsv ---- */

typedef struct gw_driver_row {
    gw_version cuda;    /* 12.4 */
    gw_version release; /* of the toolkit, the first of this CUDA version, such as 12.4.1 */
    gw_version driver_shipped;
    gw_version driver_minimum; /* the oldest driver that runs programs built with it */
    gw_version driver_windows;
    gw_verified verified; /* covers driver_shipped */
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
/* NULL: a major version without minor-version compatibility (before 11), or one not in the table. */
const gw_cuda_family *gw_data_cuda_family(unsigned major);
/* The newest CUDA version shipped with this driver or an older one. The driver's API has at least that minor
 * version. NULL: older than the table. */
const gw_driver_row *gw_data_cuda_of_driver(gw_version driver);

typedef enum gw_driver_fit {
    GW_DRIVER_UNKNOWN, /* the versions are not in the tables */
    GW_DRIVER_TOO_OLD, /* older than the minimum */
    GW_DRIVER_MINOR,   /* works by minor-version compatibility: the driver is older than the CUDA version, with
                        * limits */
    GW_DRIVER_FULL     /* at least as new as that CUDA version */
} gw_driver_fit;
/* Check whether this driver runs programs built with this CUDA. `ret_row` (may be NULL) is the row that decided, or
 * NULL if only a family did. FULL is relative to the first driver shipped with that CUDA. */
gw_driver_fit gw_data_driver_fit(gw_version driver, gw_version cuda, const gw_driver_row **ret_row);

/* ---- data/compute_capability.tsv ---- */

typedef struct gw_capability {
    gw_version capability; /* 9.0 */
    const char *architecture;
    const char *examples;
    gw_version cuda_first; /* the first toolkit that generates native code for it */
    gw_version cuda_last;  /* the last such toolkit; 0: still supported */
    gw_verified verified;
    const char *notes;
    const char *source;
} gw_capability;
const gw_capability *gw_data_capability(gw_version capability); /* NULL: unknown */

/* ---- data/framework_compat.tsv, data/cudnn_support.tsv ---- */

typedef struct gw_framework_row {
    const char *component; /* "pytorch", "tensorflow", "jax" */
    const char *release;   /* "2.11.0", or "2.1.x" for every release of 2.1 */
    const char *cuda;      /* "12.6.3", or "12.1+" for that and later versions */
    const char *cudnn;
    const char *architectures; /* "7.5 8.0 12.0+PTX", see gw_data_covers() */
    gw_verified verified;
    const char *notes;
    const char *source;
} gw_framework_row;
/* The row of a release ("2.9.1"; local parts as in "+cu126" are ignored) with this CUDA (0: any, which returns the
 * first). NULL: unknown. */
const gw_framework_row *gw_data_framework(const char *component, const char *release, gw_version cuda);
/* The newest row of a component whose binaries contain native code for a card. NULL: none. */
const gw_framework_row *gw_data_framework_for(const char *component, gw_version capability);

typedef struct gw_cudnn_support {
    gw_version first, last; /* range of releases; last 0: open */
    gw_version cuda_first, cuda_last;
    gw_version capability_first, capability_last; /* last 0: open */
    gw_verified verified;
    const char *notes;
    const char *source;
} gw_cudnn_support;
const gw_cudnn_support *gw_data_cudnn_support_of(gw_version cudnn); /* NULL: not in the table */

typedef enum gw_cover {
    GW_COVER_NONE,
    GW_COVER_PTX, /* only by PTX that the driver compiles at run time */
    GW_COVER_NATIVE
} gw_cover;
/* Check whether code for `architectures` (words such as "7.5" or "12.0+PTX") runs on a card. Native code runs on
 * cards of the same major version with the same or a later minor version. PTX runs on any card that is not older. */
gw_cover gw_data_covers(const char *architectures, gw_version capability);

/* All tables, for tests and lists. */
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
