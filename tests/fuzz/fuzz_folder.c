/* Reads a run folder with damaged files: run.meta, a buffer, and the recording that run.meta names.
 *
 * For each of the three files, the input has the number of changes (u16), then each change as { u24 place, u8 byte }.
 * real_place() maps the place to an offset in the file. The files are those of a valid folder, so that the reader gets
 * past the first checks. Checksums are ignored. */
#include "gw_buffer.h"
#include "gw_clock.h"
#include "gw_recording.h"
#include "inputs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 3 };
static char folder[] = "/dev/shm/gw-fuzz-folder-XXXXXX";
static const char *const names[FILES] = {"run.meta", "1-1.buf", "x.gpuwhy"};
static char path[FILES][96];
static uint8_t *sound[FILES]; /* contents of the valid files */
static size_t sound_bytes[FILES];
static const char *const fn_names[] = {"cuMemAlloc_v2", "cuMemFree_v2", "cuLaunchKernel", "cuInit"};

static void remove_folder(void)
{
    for (int i = 0; i < FILES; i++)
        unlink(path[i]);
    rmdir(folder);
}

static void must(gw_status st)
{
    if (st != GW_OK)
        abort();
}

static void write_recording(void)
{
    gw_error err;
    gw_writer *writer;
    must(gw_writer_create(path[2], 0, fn_names, 4, &writer, &err));
    gw_item process = {.kind = GW_ITEM_PROCESS, .pid = 1, .process = {2, 3, "exe", "driver", "id"}};
    must(gw_writer_put(writer, &process, &err));
    for (uint64_t i = 0; i < 20; i++) {
        gw_item item = {.kind = GW_ITEM_EVENT, .t_ns = i, .pid = 1, .tid = 1};
        item.event = (gw_event){.t_ns = i, .pid = 1, .tid = 1, .kind = GW_EV_ALLOC, .arg = {i << 12, 4096}};
        must(gw_writer_put(writer, &item, &err));
    }
    must(gw_writer_close(writer, &err));
}

static void write_buffer(void)
{
    uint8_t *data = calloc(1, GW_BUFFER_BYTES);
    FILE *file = fopen(path[1], "w");
    if (data == NULL || file == NULL)
        abort();
    fuzz_buffer_fill(data, 1, gw_monotonic_ns());
    if (fwrite(data, 1, GW_BUFFER_BYTES, file) != GW_BUFFER_BYTES || fclose(file) != 0)
        abort();
    free(data);
}

/* Read a valid file into memory. */
static void load(int index)
{
    struct stat info;
    FILE *file = fopen(path[index], "r");
    if (file == NULL || fstat(fileno(file), &info) != 0)
        abort();
    sound_bytes[index] = (size_t)info.st_size;
    sound[index] = malloc(sound_bytes[index]);
    if (sound[index] == NULL || fread(sound[index], 1, sound_bytes[index], file) != sound_bytes[index])
        abort();
    fclose(file);
}

static void begin(void)
{
    gw_error err;
    if (mkdtemp(folder) == NULL)
        abort();
    atexit(remove_folder);
    for (int i = 0; i < FILES; i++)
        snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
    const char *argv[] = {"train", NULL};
    gw_run_meta meta = {.recording = path[2], .supervisor_pid = 1, .argv = argv};
    must(gw_run_meta_write(folder, &meta, fn_names, 4, &err));
    write_recording();
    write_buffer();
    for (int i = 0; i < FILES; i++)
        load(i);
}

/* Map a number from the input to an offset in the file. A buffer is mostly zeros, so choose an offset in the first 64
 * KiB of one of its four areas. */
static size_t real_place(int index, uint32_t place)
{
    static const uint32_t starts[] = {0, GW_SLOTS_OFFSET, GW_RINGS_OFFSET, GW_CHUNKS_OFFSET};
    if (index != 1)
        return place % sound_bytes[index];
    return (starts[place >> 22 & 3] + (place & 0xffff)) % sound_bytes[index];
}

/* Apply the changes from the input at `at` to the file, or undo them if `undo` is true. Returns the end of these
 * changes in the input. */
static const uint8_t *change(int index, const uint8_t *at, const uint8_t *end, bool undo)
{
    int fd = open(path[index], O_WRONLY);
    unsigned count = end - at < 2 ? 0 : (unsigned)(at[0] | at[1] << 8);
    at += end - at < 2 ? end - at : 2;
    for (unsigned i = 0; i < count && end - at >= 4; i++, at += 4) {
        size_t place = real_place(index, (uint32_t)(at[0] | at[1] << 8 | at[2] << 16));
        if (pwrite(fd, undo ? &sound[index][place] : &at[3], 1, (off_t)place) != 1)
            abort();
    }
    close(fd);
    return at;
}

static volatile uint64_t sink;

static void read_all(void)
{
    gw_error err;
    gw_reader *reader;
    const gw_item *item;
    gw_status st;
    if (gw_reader_open(folder, &reader, &err) != GW_OK)
        return;
    while ((st = gw_reader_next(reader, &item, &err)) == GW_OK || st == GW_CORRUPT || st == GW_UNSUPPORTED) {
        if (st == GW_OK && item->kind == GW_ITEM_EVENT && item->event.text != NULL)
            sink += strlen(item->event.text);
        if (st == GW_OK && item->kind == GW_ITEM_PROCESS)
            sink += strlen(item->process.exe) + strlen(item->process.driver_path);
    }
    gw_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (sound[0] == NULL)
        begin();
    const uint8_t *at = data;
    for (int i = 0; i < FILES; i++)
        at = change(i, at, data + bytes, false);
    read_all();
    at = data;
    for (int i = 0; i < FILES; i++)
        at = change(i, at, data + bytes, true);
    return 0;
}
