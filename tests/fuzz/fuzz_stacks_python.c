/* Fuzz the reader of a Python process's memory. The first input byte selects the Python version. Up to 64 records
 * follow: a position (two bytes) and eight bytes to write there into a valid image of the memory. The remaining input
 * is a mapped file. */
#include "gwi_python_image.h"
#include "inputs.h"

static void check(const gw_stack_process *process, const gw_stack_thread *thread)
{
    if (thread->frame_count > GW_SITE_PYTHON_MAX ||
        ((thread->flags & GW_SITE_PYTHON_UNKNOWN) != 0 && thread->frame_count != 0))
        abort();
    for (size_t i = 0; i < thread->frame_count; i++)
        if (GW_FRAME_CODE(thread->frame[i]) >= process->code_count)
            abort();
    for (size_t i = 0; i < process->code_count; i++)
        if (strlen(process->code[i].text) > 960 || strchr(process->code[i].text, '\n') == NULL)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static python_image image;
    enum { WORDS_MAX = 64, EACH = 10, VERSIONS = 6 };
    if (size == 0)
        return 0;
    image_make(&image, 0x0309 + data[0] % VERSIONS);
    size_t at = 1;
    for (unsigned i = 0; i < WORDS_MAX && size - at >= EACH; i++, at += EACH)
        memcpy(image.bytes + (data[at] | data[at + 1] << 8) % (IMAGE_BYTES - 8), data + at + 2, 8);
    gw_stack_process process = {.thread = NULL};
    gw_stack_thread thread = {.tid = IMAGE_TID};
    gwi_python_list(&image.python);
    gwi_python_frames(&image.python, &process, &thread);
    check(&process, &thread);
    image_free_code(&process);
    memset(image.bytes, 0, sizeof image.bytes);
    memcpy(image.bytes, data + at, size - at < sizeof image.bytes ? size - at : sizeof image.bytes);
    gwi_python_try(&image.python, IMAGE_BASE);
    return 0;
}
