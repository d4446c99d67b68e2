/* The function that each fuzzer defines, and forms in which several fuzzers need their input: a text, a file in memory,
 * or a valid buffer. */
#ifndef GW_FUZZ_INPUTS_H
#define GW_FUZZ_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Return the input as a text, which the caller frees. */
static inline char *fuzz_text(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (text == NULL)
        abort();
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    return text;
}

/* Store the input without its first byte in `text`, after `front` if this byte is below 128. Returns false if the input
 * is empty or too long. */
static inline bool fuzz_text_after(const char *front, const uint8_t *data, size_t bytes, char *text, size_t text_bytes)
{
    if (bytes == 0 || bytes >= text_bytes - strlen(front))
        return false;
    snprintf(text, text_bytes, "%s", data[0] < 128 ? front : "");
    size_t front_bytes = strlen(text);
    memcpy(text + front_bytes, data + 1, bytes - 1);
    text[front_bytes + bytes - 1] = '\0';
    return true;
}

/* Store the input in a file in memory, the same one in each call. Returns its descriptor. */
static inline int fuzz_file(const uint8_t *data, size_t bytes)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("fuzz", 0);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, bytes, 0) != (ssize_t)bytes)
        abort();
    return fd;
}

#ifdef GW_BUFFER_MAGIC
/* Make a valid buffer with three full chunks from GW_BUFFER_BYTES bytes of zeros. */
static inline void fuzz_buffer_fill(uint8_t *map, uint32_t pid, uint64_t start_ns)
{
    gw_buffer_head *head = (gw_buffer_head *)map;
    memcpy(head->magic, GW_BUFFER_MAGIC, 8);
    head->version = GW_BUFFER_VERSION;
    head->bytes = GW_BUFFER_BYTES;
    head->pid = pid;
    head->start_ticks = head->start_monotonic_ns = start_ns;
    head->slot_offset = GW_SLOTS_OFFSET;
    head->slot_count = GW_SLOT_COUNT;
    head->ring_offset = GW_RINGS_OFFSET;
    head->ring_count = GW_RING_COUNT;
    head->communicator_offset = GW_COMMUNICATORS_OFFSET;
    head->communicator_count = GW_NCCL_COMMUNICATORS;
    head->chunk_offset = GW_CHUNKS_OFFSET;
    head->chunk_count = GW_CHUNK_COUNT;
    head->fn_count = 4;
    gw_buffer_communicator *communicator = (gw_buffer_communicator *)(map + GW_COMMUNICATORS_OFFSET);
    communicator->state = GW_NCCL_READY;
    communicator->total = 2;
    communicator->last[0].stamp = 1;
    communicator->last[1].stamp = 2;
    gw_chunk *chunk = (gw_chunk *)(map + GW_CHUNKS_OFFSET);
    for (uint32_t i = 0; i < 3; i++) {
        chunk[i].head.state = GW_CHUNK_FULL;
        chunk[i].head.sequence = i;
        chunk[i].head.used_bytes = 4 * 64;
        for (unsigned k = 0; k < 4; k++) {
            chunk[i].record[k].ticks = head->start_ticks + k;
            chunk[i].record[k].kind = k == 3 ? GW_EV_TEXT : GW_EV_ALLOC;
        }
    }
    head->ready = 1;
}
#endif

#endif
