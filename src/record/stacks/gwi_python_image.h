/* Builds a fake memory image of a Python process in the layout of any version, for tests and the fuzzer. One thread
 * runs three Python functions. */
#ifndef GWI_PYTHON_IMAGE_H
#define GWI_PYTHON_IMAGE_H

#include "gwi_python.h"

#include <stdlib.h>
#include <string.h>

enum { IMAGE_BYTES = 1 << 14, IMAGE_TID = 4711, IMAGE_FRAMES = 3, IMAGE_FIRST_LINE = 10 };
#define IMAGE_BASE UINT64_C(0x10000000)
/* Byte offsets of the objects in the image. */
enum {
    IMAGE_RUNTIME = 0,
    IMAGE_INTERPRETER = 0x400,
    IMAGE_STATE = 0x600,
    IMAGE_PTHREAD = 0x800,
    IMAGE_HOLDER = 0xc00,
    IMAGE_FRAME = 0x1000, /* the three frames; since Python 3.12 followed by the shim frame */
    IMAGE_FRAME_STEP = 0x200,
    IMAGE_CODE = 0x2000,
    IMAGE_CODE_STEP = 0x200,
    IMAGE_FILE = 0x2800,
    IMAGE_NAME = 0x2900,
    IMAGE_NAME_STEP = 0x80,
    IMAGE_TABLE = 0x2c00,
    IMAGE_TYPES = 0x3000 /* addresses of the type objects; they are only compared, and the memory there is never read */
};

typedef struct python_image {
    uint8_t bytes[IMAGE_BYTES];
    gwi_python python; /* set up to read from `bytes` */
} python_image;

static inline bool image_read(void *user, uint64_t at, void *out, size_t bytes)
{
    const python_image *image = user;
    if (at < IMAGE_BASE || at - IMAGE_BASE > IMAGE_BYTES || bytes > IMAGE_BYTES - (at - IMAGE_BASE))
        return false;
    memcpy(out, image->bytes + (at - IMAGE_BASE), bytes);
    return true;
}

static inline void image_put(python_image *image, size_t at, uint64_t value, size_t bytes)
{
    memcpy(image->bytes + at, &value, bytes);
}

static inline void image_link(python_image *image, size_t at, size_t to)
{
    image_put(image, at, IMAGE_BASE + to, 8);
}

static inline void image_text(python_image *image, size_t at, const char *text)
{
    const gwi_interpreter *copy = &image->python.copy[0];
    image_put(image, at + GW_PYTHON_OB_TYPE, copy->unicode_type, 8);
    image_put(image, at + GW_PYTHON_OB_SIZE, strlen(text), 8);
    image_put(image, at + GW_PYTHON_TEXT_STATE, 1 << 2 | GW_PYTHON_TEXT_COMPACT | GW_PYTHON_TEXT_ASCII, 4);
    memcpy(image->bytes + at + copy->layout.ascii_bytes, text, strlen(text));
}

static inline void image_frame(python_image *image, unsigned index, const char *name)
{
    const gwi_interpreter *copy = &image->python.copy[0];
    const gw_python_layout *layout = &copy->layout;
    size_t frame = IMAGE_FRAME + index * IMAGE_FRAME_STEP, code = IMAGE_CODE + index * IMAGE_CODE_STEP;
    size_t text = IMAGE_NAME + index * IMAGE_NAME_STEP;
    bool is_last = index + 1 == IMAGE_FRAMES;
    image_link(image, frame + layout->frame_code, code);
    if (!is_last || layout->entry == GW_PYTHON_ENTRY_SHIM)
        image_link(image, frame + layout->frame_previous, frame + IMAGE_FRAME_STEP);
    if (layout->instruction_bytes != 0)
        image_put(image, frame + layout->frame_instruction, 2 * index / layout->instruction_bytes, 4);
    else
        image_link(image, frame + layout->frame_instruction, code + layout->code_start + 2 * index);
    if (layout->entry == GW_PYTHON_ENTRY_FLAG)
        image_put(image, frame + layout->frame_mark, is_last, 1);
    if (layout->entry == GW_PYTHON_ENTRY_SHIM && is_last)
        image_put(image, frame + IMAGE_FRAME_STEP + layout->frame_mark, layout->shim_owner, 1);
    image_put(image, code + GW_PYTHON_OB_TYPE, copy->code_type, 8);
    image_put(image, code + layout->code_first_line, IMAGE_FIRST_LINE + index, 4);
    image_link(image, code + layout->code_file, IMAGE_FILE);
    image_link(image, code + layout->code_name, text);
    image_link(image, code + layout->code_table, IMAGE_TABLE);
    image_text(image, text, name);
}

/* Build an intact image. `version` must be one that gw_python_layout_of() supports. */
static inline void image_make(python_image *image, unsigned version)
{
    memset(image, 0, sizeof *image);
    gwi_python *python = &image->python;
    gwi_interpreter *copy = &python->copy[0];
    python->read = image_read;
    python->user = image;
    python->copy_count = 1;
    copy->layout = *gw_python_layout_of(version);
    /* newer versions publish these offsets in the process, so use invented ones here */
    if (!gw_python_lists_of(&copy->layout, NULL, &copy->lists))
        copy->lists = (gw_python_lists){0x40, 0x10, 0x18, 8, copy->layout.thread_ident + 8u};
    copy->runtime = IMAGE_BASE + IMAGE_RUNTIME;
    copy->code_type = IMAGE_BASE + IMAGE_TYPES;
    copy->unicode_type = copy->code_type + 0x100;
    copy->bytes_type = copy->code_type + 0x200;
    const gw_python_layout *layout = &copy->layout;
    const gw_python_lists *lists = &copy->lists;
    image_put(image, IMAGE_RUNTIME, 1, 4);
    image_link(image, IMAGE_RUNTIME + (lists->runtime_interpreters == 0 ? 40 : lists->runtime_interpreters),
               IMAGE_INTERPRETER);
    /* the pointer to the main interpreter is the word after the pointer to the newest one */
    image_link(image, IMAGE_RUNTIME + 48, IMAGE_INTERPRETER);
    image_link(image, IMAGE_INTERPRETER + lists->interpreter_threads, IMAGE_STATE);
    image_link(image, IMAGE_STATE + layout->thread_interpreter, IMAGE_INTERPRETER);
    image_link(image, IMAGE_STATE + layout->thread_ident, IMAGE_PTHREAD);
    if (lists->thread_native_id != 0)
        image_put(image, IMAGE_STATE + lists->thread_native_id, IMAGE_TID, 8);
    image_put(image, IMAGE_PTHREAD + 720, IMAGE_TID, 4); /* offset of the thread id in glibc on x86-64 */
    image_put(image, IMAGE_PTHREAD + 208, IMAGE_TID, 4); /* the same on arm64 */
    image_link(image, IMAGE_STATE + layout->thread_frame, layout->has_holder ? IMAGE_HOLDER : IMAGE_FRAME);
    if (layout->has_holder)
        image_link(image, IMAGE_HOLDER + layout->holder_frame, IMAGE_FRAME);
    image_text(image, IMAGE_FILE, "/data/image.py");
    image_put(image, IMAGE_TABLE + GW_PYTHON_OB_TYPE, copy->bytes_type, 8);
    image_put(image, IMAGE_TABLE + GW_PYTHON_OB_SIZE, 6, 8);
    memcpy(image->bytes + IMAGE_TABLE + GW_PYTHON_BYTES_DATA, "\x80\x00\x80\x00\x80\x00", 6);
    image_frame(image, 0, "inner");
    image_frame(image, 1, "middle");
    image_frame(image, 2, "outer");
}

static inline void image_free_code(gw_stack_process *process)
{
    for (size_t i = 0; i < process->code_count; i++) {
        free(process->code[i].text);
        free(process->code[i].table);
    }
    free(process->code);
    *process = (gw_stack_process){.thread = NULL};
}

#endif
