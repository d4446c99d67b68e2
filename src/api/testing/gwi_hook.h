/* Replaces the hook's header in tests of the generated wrappers. The functions declared here store the arguments that a
 * wrapper passes to them. */
#ifndef GWI_HOOK_H
#define GWI_HOOK_H

#include "gw_api.h"
#include "gw_api_proto.h"
#include "gw_buffer.h"

#include <stdbool.h>

typedef struct gwi_slot_ref {
    unsigned fn;
} gwi_slot_ref;

/* The arguments of the latest calls of the functions below, and the number of calls of each function since the test
 * cleared gwi_said. */
typedef struct said {
    int hot_count, read_count, event_count, failed_count, after_count, leave_count;
    unsigned fn, kind, counter, flags;
    int result;
    uint32_t extra;
    uint64_t arg[4];
    uint64_t what, stream, bytes;
    const char *text;
    int order_count;
    unsigned step;
    uint64_t order[4]; /* arguments of gwi_order(): object, source, bytes, stream */
} said;
extern said gwi_said;

extern void *gwi_real[GW_FN_COUNT];
extern void *const gwi_wrappers[GW_FN_COUNT];
extern bool gwi_guard_on;

bool gwi_enter(gwi_slot_ref *th, unsigned fn);
bool gwi_enter_quick(gwi_slot_ref *th, unsigned fn);
void gwi_leave(gwi_slot_ref *th);
void gwi_hot(gwi_slot_ref *th, unsigned fn, unsigned counter, uint64_t what, uint64_t stream, uint64_t bytes);
void gwi_hot_read(gwi_slot_ref *th);
bool gwi_orders(void);
bool gwi_orders_fills(void);
void gwi_order(gwi_slot_ref *th, unsigned fn, unsigned step, unsigned flags, uint64_t object, uint64_t source,
               uint64_t bytes, uint64_t stream);
void gwi_event(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra, uint64_t a0,
               uint64_t a1, uint64_t a2, uint64_t a3, const char *text);
void gwi_failed(gwi_slot_ref *th, unsigned fn, unsigned kind, int result, unsigned flags, uint32_t extra, uint64_t a0,
                uint64_t a1, uint64_t a2, uint64_t a3, const char *text);
void gwi_get_failed(unsigned fn, int result, unsigned flags, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);

#endif
