/* Overwrite parts of a valid buffer and drain it, twice. A process may write anything into its buffer, so draining must
 * never fail.
 *
 * Input: records of { u16 place, u8 length, bytes }. real_place() turns `place` into an offset. It hits the header,
 * slots, rings, chunk headers and records often. */
#include "gw_buffer.h"
#include "gw_clock.h"
#include "gw_recording.h"
#include "inputs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char folder[] = "/dev/shm/gw-fuzz-drain-XXXXXX";
static char path[64];
static uint8_t *map;

static void remove_folder(void)
{
    unlink(path);
    rmdir(folder);
}

static void make_file(void)
{
    if (mkdtemp(folder) == NULL)
        abort();
    atexit(remove_folder);
    snprintf(path, sizeof path, "%s/1-1.buf", folder);
}

static void map_file(void)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 0) != 0 || ftruncate(fd, GW_BUFFER_BYTES) != 0)
        abort();
    map = mmap(NULL, GW_BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        abort();
}

static void fill_sound(void)
{
    fuzz_buffer_fill(map, (uint32_t)getpid(), gw_monotonic_ns() - 1000000000);
    gw_slot *slot = (gw_slot *)(map + GW_SLOTS_OFFSET);
    slot->state = GW_SLOT_LIVE;
    slot->ring_head = 5;
}

/* Map a number from the input to an offset in the buffer. It is near the start of one of the four areas, or of one
 * of the first four chunks. */
static uint32_t real_place(uint16_t place)
{
    uint32_t area = place >> 13, at = place & 0x1fff;
    static const uint32_t start[] = {0, GW_SLOTS_OFFSET, GW_RINGS_OFFSET, GW_CHUNKS_OFFSET};
    if (area < 4)
        return start[area] + at;
    return (GW_CHUNKS_OFFSET + (area - 4) * GW_CHUNK_BYTES + at % 512) % GW_BUFFER_BYTES;
}

static size_t lay_over(const uint8_t *data, size_t bytes, size_t at, unsigned count)
{
    for (unsigned i = 0; i < count && at + 3 <= bytes; i++) {
        uint32_t place = real_place((uint16_t)(data[at] | data[at + 1] << 8));
        size_t length = data[at + 2] % 33;
        at += 3;
        length = length < bytes - at ? length : bytes - at;
        if (place + length <= GW_BUFFER_BYTES)
            memcpy(map + place, data + at, length);
        at += length;
    }
    return at;
}

static volatile uint64_t sink;

static gw_status see(void *user, const gw_item *item, gw_error *err)
{
    (void)user;
    (void)err;
    if (item->kind == GW_ITEM_EVENT && item->event.text != NULL)
        sink += strlen(item->event.text);
    if (item->kind == GW_ITEM_RING)
        for (uint32_t i = 0; i < item->ring.count; i++)
            sink += item->ring.call[i].t_ns;
    if (item->kind == GW_ITEM_PROCESS)
        sink += strlen(item->process.exe) + strlen(item->process.driver_path);
    return GW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    gw_error err;
    gw_drain *drain;
    if (path[0] == '\0')
        make_file();
    map_file();
    fill_sound();
    size_t at = lay_over(data, bytes, 0, 4);
    if (gw_drain_open(folder, 0, &drain, &err) != GW_OK)
        abort();
    if (gw_drain_run(drain, false, see, NULL, &err) != GW_OK)
        abort(); /* damage must be reported as an item, never as an error */
    lay_over(data, bytes, at, 64);
    if (gw_drain_run(drain, bytes % 2, see, NULL, &err) != GW_OK)
        abort();
    sink += (uint64_t)gw_drain_fill_ratio(drain);
    gw_drain_close(drain);
    munmap(map, GW_BUFFER_BYTES);
    return 0;
}
