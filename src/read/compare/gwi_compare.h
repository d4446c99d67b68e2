/* Declarations shared by the files of src/read/compare. */
#ifndef GWI_COMPARE_H
#define GWI_COMPARE_H

#include "gw_compare.h"

typedef struct gwi_call {
    uint64_t t_ns, bytes;
    uint32_t site; /* index of a site in the model */
    uint16_t fn, result;
} gwi_call;

typedef struct gwi_thread_calls {
    uint32_t pid, tid;
    uint32_t process, place; /* number of the process in the run and of the thread in its process; both count from 1, in
                                the order of first calls */
    gwi_call *call;          /* owned */
    size_t count, capacity;
    uint64_t total; /* number of calls, including those that were not stored */
} gwi_thread_calls;

struct gw_calls {
    gwi_thread_calls *thread; /* owned; in the order of their first calls */
    size_t thread_count;
    uint64_t kept_count;
    size_t last; /* index of the thread that made the latest call; the search starts there */
    bool cut;
};

typedef struct gwi_traits {
    gw_trait *item; /* owned */
    size_t count, capacity;
    bool failed;
} gwi_traits;

struct gw_portrait {
    gw_model *model; /* owned */
    gw_calls *calls; /* owned */
    gwi_traits traits;
    bool has_traits;
};

/* Find all traits of a run. Returns false if out of memory. */
bool gwi_traits_find(const gw_model *model, gwi_traits *ret_traits);
void gwi_traits_free(gwi_traits *traits);
/* Return the trait with this area and name, or NULL. */
gw_trait *gwi_trait_find(const gwi_traits *traits, gw_area area, const char *name);

/* Find the first call where the runs diverge. Returns false if out of memory. */
bool gwi_parting_find(const gw_portrait *good, const gw_portrait *bad, gw_parting *ret_parting);

/* Return the place of a call, such as "train.py:41 in load, called at train.py:88 in main", or NULL if it is unknown.
 * The caller frees it. */
char *gwi_place_of(const gw_model *model, uint32_t site);

#endif
