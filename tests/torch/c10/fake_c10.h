/* What the fake libraries of PyTorch agree on. */
#ifndef FAKE_C10_H
#define FAKE_C10_H

#include <stdint.h>

/* The reserved bytes that belong to a number of allocated bytes. As in PyTorch, they seldom change. */
static inline uint64_t fake_reserved(uint64_t allocated_bytes)
{
    const uint64_t segment_bytes = 16u << 20;
    return (allocated_bytes / segment_bytes + 1) * segment_bytes + 12345;
}

#endif
