/* A library for python_test.py: reads the Python frames of another process as text. It reads no native stacks, so it
 * does not stop threads. */
#define _GNU_SOURCE
#include "gwi_stacks.h"

#include "gw_python_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

void gwi_stacks_walk(uint32_t pid, gw_stack_process *process, gwi_python *python)
{
    for (size_t i = 0; i < process->thread_count; i++)
        gwi_stacks_unheld(pid, process, &process->thread[i], python);
}

void gw_stacks_let_go(void)
{
}

static void print_frame(FILE *out, const gw_stack_process *process, uint64_t frame)
{
    const gw_stack_code *code = &process->code[GW_FRAME_CODE(frame)];
    int32_t line = code->table == NULL ? -1
                                       : gw_python_line(code->version, code->table, code->table_bytes, code->first_line,
                                                        GW_FRAME_INSTRUCTION(frame));
    fprintf(out, "frame %d %d %s\n", (frame & GW_FRAME_ENTRY) != 0, line, strchr(code->text, '\n') + 1);
    fprintf(out, "name %.*s\n", (int)strcspn(code->text, "\n"), code->text);
}

static void print_thread(FILE *out, const gw_stack_process *process, const gw_stack_thread *thread)
{
    fprintf(out, "thread %u %u\n", thread->tid, thread->flags);
    for (size_t i = 0; i < thread->frame_count; i++)
        print_frame(out, process, thread->frame[i]);
}

/* Return the Python frames of all threads of `pid` as text. The caller frees it with test_free(). Returns NULL if the
 * process cannot be read. */
EXPORT char *test_look(unsigned pid);
char *test_look(unsigned pid)
{
    gw_stack_process *process = NULL;
    gw_error err;
    char *text = NULL;
    size_t bytes;
    if (gw_stacks_look(pid, true, &process, &err) != GW_OK)
        return NULL;
    FILE *out = open_memstream(&text, &bytes);
    for (size_t i = 0; out != NULL && i < process->thread_count; i++)
        print_thread(out, process, &process->thread[i]);
    if (out != NULL) {
        fprintf(out, "missing %s\n", process->no_python);
        fclose(out);
    }
    gw_stack_process_free(process);
    return text;
}

EXPORT void test_free(char *text);
void test_free(char *text)
{
    free(text);
}

/* ---- damage ---- */

typedef struct damaging {
    uint64_t random, reads;
    unsigned one_in; /* one of this many reads is damaged, on average */
} damaging;

static uint64_t next_random(damaging *it)
{
    it->random ^= it->random << 13;
    it->random ^= it->random >> 7;
    return it->random ^= it->random << 17;
}

/* Read our own memory. At random, let the read fail, or change a word, a byte or a bit of the result. */
static bool read_damaged(void *user, uint64_t at, void *out, size_t bytes)
{
    damaging *it = user;
    struct iovec ours = {out, bytes}, theirs = {(void *)(uintptr_t)at, bytes};
    it->reads++;
    if (process_vm_readv(getpid(), &ours, 1, &theirs, 1, 0) != (ssize_t)bytes)
        return false;
    uint64_t random = next_random(it);
    if (bytes == 0 || random % it->one_in != 0)
        return true;
    uint64_t value = next_random(it);
    size_t place = next_random(it) % bytes;
    char *byte = (char *)out + place;
    switch (random >> 32 & 3) {
    case 0:
        return false;
    case 1:
        *byte = (char)value;
        return true;
    case 2:
        *byte = (char)(*byte ^ 1 << (value & 7));
        return true;
    default: /* replace a word by another pointer, possibly a valid one */
        value = (value & 1) != 0 ? value : at + (value >> 8) % 4096;
        memcpy((char *)out + place / 8 * 8, &value, bytes - place / 8 * 8 < 8 ? bytes - place / 8 * 8 : 8);
        return true;
    }
}

/* Read the Python frames `rounds` times, each time with different damage to the data. Returns the total number of
 * frames, or -1 if a result exceeded its limits. */
EXPORT long test_damage(uint64_t base, const uint32_t *tids, unsigned count, unsigned rounds, unsigned one_in);
long test_damage(uint64_t base, const uint32_t *tids, unsigned count, unsigned rounds, unsigned one_in)
{
    long frames = 0;
    damaging it = {0x9E3779B97F4A7C15, 0, one_in};
    gwi_python *python = calloc(1, sizeof *python);
    for (unsigned round = 0; python != NULL && round < rounds; round++) {
        gw_stack_process process = {.thread = NULL};
        memset(python, 0, sizeof *python);
        python->read = read_damaged;
        python->user = &it;
        gwi_python_try(python, base);
        gwi_python_list(python);
        for (unsigned i = 0; i < count; i++) {
            gw_stack_thread thread = {.tid = tids[i]};
            gwi_python_frames(python, &process, &thread);
            if (thread.frame_count > GW_SITE_PYTHON_MAX)
                frames = -1;
            for (size_t k = 0; frames >= 0 && k < thread.frame_count; k++) {
                FILE *nowhere = fopen("/dev/null", "w");
                if (GW_FRAME_CODE(thread.frame[k]) >= process.code_count)
                    frames = -1;
                else if (nowhere != NULL)
                    print_frame(nowhere, &process, thread.frame[k]);
                if (nowhere != NULL)
                    fclose(nowhere);
                frames += frames >= 0;
            }
        }
        for (size_t i = 0; i < process.code_count; i++) {
            free(process.code[i].text);
            free(process.code[i].table);
        }
        free(process.code);
        if (frames < 0)
            break;
    }
    free(python);
    return frames;
}
