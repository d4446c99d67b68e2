/* Internal header of the virtual GPU's NVML.
 *
 * The library exports every name of a real library of the 580 family. A function that is not implemented is a generated
 * weak stub that returns NVML_ERROR_NOT_SUPPORTED. A function of the same name overrides the stub.
 *
 * Values are derived from the specification (GPUWHY_VIRTUAL), the GPU model's data, and the run's shared state
 * (GPUWHY_VIRTUAL_DIR). The first nvmlInit opens them. Any thread may call the functions. */
#ifndef GWI_NVML_H
#define GWI_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gw_cuda_abi.h"
#include "gw_nvml_abi.h"
#include "gw_virt_spec.h"
#include "gwi_shared.h"

#define GWI_NVML __attribute__((visibility("default")))

#define GWI_NVML_DECLARE(symbol, parameters) GWI_NVML nvmlReturn_t symbol parameters;
GW_NVML_FUNCTIONS(GWI_NVML_DECLARE)
#undef GWI_NVML_DECLARE
GWI_NVML const char *nvmlErrorString(nvmlReturn_t result);

/* Make `symbol` an alias of `target`, which must be defined above in the same file. */
#define GWI_NVML_ALIAS(symbol, target) GWI_NVML gw_nvml_fn_##symbol symbol __attribute__((alias(#target)))

/* A GPU. Its address is the handle that programs use. */
struct nvmlDevice_st {
    unsigned index;
};

typedef struct gwi_nvml_state {
    unsigned init_count; /* nvmlInit calls minus nvmlShutdown calls; 0: not initialised */
    gw_virt_spec spec;
    gwi_shared *shared; /* owned: a mapping of the shared state */
    struct nvmlDevice_st devices[GW_VIRT_DEVICES_MAX];
} gwi_nvml_state;

extern gwi_nvml_state gwi_nvml;

/* library.c */
/* Return the result of every stub: "not supported", or "uninitialized" before nvmlInit. */
nvmlReturn_t gwi_nvml_lacks(void);
/* Start a call about a GPU: check the arguments and apply the faults that are due. `out` is the caller's result
 * pointer. Returns NVML_SUCCESS, UNINITIALIZED, INVALID_ARGUMENT or GPU_IS_LOST. */
nvmlReturn_t gwi_enter(nvmlDevice_t device, const void *out);
static inline const gwi_shared_card *gwi_card_of(nvmlDevice_t device)
{
    return &gwi_nvml.shared->cards[device->index];
}
static inline const gw_virt_board *gwi_board(void)
{
    return &gwi_nvml.spec.card.board;
}
static inline unsigned gwi_attribute(int attribute)
{
    return (unsigned)gwi_nvml.spec.card.attributes[attribute];
}

/* Define an NVML function that only returns a result. */
#define GWI_RETURN(symbol, parameters, value)                                                                          \
    GWI_NVML nvmlReturn_t symbol parameters                                                                            \
    {                                                                                                                  \
        return value;                                                                                                  \
    }
/* Define an NVML function that returns one value of a GPU; `expression` may use `device`. */
#define GWI_ANSWER(symbol, type, expression) GWI_ANSWER_IF(symbol, type, true, expression)
/* Like GWI_ANSWER, for a value that some GPUs do not have. `has` is false on such a GPU. */
#define GWI_ANSWER_IF(symbol, type, has, expression)                                                                   \
    GWI_NVML nvmlReturn_t symbol(nvmlDevice_t device, type *ret)                                                       \
    {                                                                                                                  \
        nvmlReturn_t result = gwi_enter(device, ret);                                                                  \
        if (result == NVML_SUCCESS && !(has))                                                                          \
            result = NVML_ERROR_NOT_SUPPORTED;                                                                         \
        if (result == NVML_SUCCESS)                                                                                    \
            *ret = (type)(expression);                                                                                 \
        return result;                                                                                                 \
    }
/* Define an NVML function that returns two values of a GPU. */
#define GWI_ANSWER_BOTH(symbol, type, first, second)                                                                   \
    GWI_NVML nvmlReturn_t symbol(nvmlDevice_t device, type *ret_first, type *ret_second)                               \
    {                                                                                                                  \
        nvmlReturn_t result = gwi_enter(device, ret_first);                                                            \
        if (result != NVML_SUCCESS || ret_second == NULL)                                                              \
            return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;                                      \
        *ret_first = (type)(first);                                                                                    \
        *ret_second = (type)(second);                                                                                  \
        return NVML_SUCCESS;                                                                                           \
    }

/* sensors.c. All percentages cover the last second. */
unsigned gwi_process_busy_percent(unsigned slot, unsigned device);
unsigned gwi_memory_busy_percent(unsigned busy_percent);
uint64_t gwi_wall_us(void);
unsigned gwi_temperature(nvmlDevice_t device);
unsigned gwi_power_mw(nvmlDevice_t device);
unsigned gwi_power_limit_mw(nvmlDevice_t device);
uint64_t gwi_energy_mj(nvmlDevice_t device);
/* Return how long a reason for lower clocks has been active, given the time when it became active (0: not active). */
uint64_t gwi_lasted_ns(uint64_t since_ns);

#endif
