/* Ranks of MPI poll for messages without a rest, so a rank that waits looks busy. This file finds out whether it does
 * anything else: messages between ranks of one machine go through memory that they share, and the stack shows whether
 * the main thread is inside MPI. */
#include "gwi_still.h"

#include "gw_filter.h"
#include "gw_hash.h"
#include "gw_stacks.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, PAGES_AT_ONCE = 64 };

/* The library that has the functions MPI_*, in Open MPI, MPICH and their relatives. */
static bool is_mpi(const char *path)
{
    const char *name = strrchr(path, '/');
    return name != NULL && (gw_begins(name + 1, "libmpi") || gw_begins(name + 1, "libpmpi"));
}

static bool add_pages(pid_t pid, uint64_t at, size_t count, gwi_shared *shared)
{
    static uint64_t word[PAGES_AT_ONCE * PAGE_BYTES / sizeof(uint64_t)];
    struct iovec ours = {word, count * PAGE_BYTES}, theirs = {(void *)(uintptr_t)at, ours.iov_len};
    if (count == 0)
        return true;
    if (!gw_rare_calls_are_safe() || process_vm_readv(pid, &ours, 1, &theirs, 1, 0) != (ssize_t)ours.iov_len)
        return false;
    for (size_t i = 0; i < ours.iov_len / sizeof word[0]; i++)
        shared->hash = gw_hash_mix(shared->hash, word[i]);
    return true;
}

/* Returns true if the page is new. At GWI_PAGES_MAX, no page is added. */
static bool enter(gwi_pages *pages, uint64_t identity)
{
    identity += identity == 0;
    size_t at = (size_t)(identity % GWI_PAGE_SLOTS);
    while (pages->slot[at] != 0 && pages->slot[at] != identity)
        at = (at + 1) % GWI_PAGE_SLOTS;
    if (pages->slot[at] == identity || pages->count == GWI_PAGES_MAX)
        return pages->slot[at] != identity;
    pages->slot[at] = identity;
    pages->count++;
    return true;
}

/* A mapping of shared memory. */
typedef struct piece {
    uint64_t start, end;
    uint64_t segment; /* identity of its file */
    uint64_t offset;  /* in the file */
} piece;

/* Add the pages of a mapping that the process has used. Others must not be read, because that would create them. */
static bool add_memory(pid_t pid, int pagemap, const piece *of, gwi_pages *pages, gwi_shared *shared)
{
    static const uint64_t present = UINT64_C(1) << 63;
    uint64_t entry[PAGES_AT_ONCE];
    for (uint64_t at = of->start; at < of->end;) {
        uint64_t left = (of->end - at) / PAGE_BYTES, wanted = left < PAGES_AT_ONCE ? left : PAGES_AT_ONCE;
        uint64_t first = (at - of->start + of->offset) / PAGE_BYTES;
        size_t bytes = (size_t)wanted * sizeof entry[0];
        if (pread(pagemap, entry, bytes, (off_t)(at / PAGE_BYTES * sizeof entry[0])) != (ssize_t)bytes)
            return false;
        for (size_t i = 0, count; i < wanted; i += count + 1) {
            for (count = 0; i + count < wanted && (entry[i + count] & present) != 0 &&
                            enter(pages, gw_hash_mix(of->segment, first + i + count));)
                count++;
            if (pages->count == GWI_PAGES_MAX || !add_pages(pid, at + i * PAGE_BYTES, count, shared))
                return false;
        }
        at += wanted * PAGE_BYTES;
    }
    return true;
}

/* See one line of /proc/PID/maps. Returns false if shared memory cannot be read. */
static bool see_mapping(pid_t pid, int pagemap, const char *line, gwi_pages *pages, gwi_shared *shared)
{
    enum { SEGMENT_BYTES_MIN = 64 << 10 }; /* smaller ones are locks and counters, also of the launcher */
    piece of;
    uint64_t inode;
    char rights[8], device[16];
    int at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %15s %" SCNu64 " %n", &of.start, &of.end, rights,
               &of.offset, device, &inode, &at) < 6 ||
        at == 0)
        return true;
    const char *path = line + at;
    if (strncmp(rights, "rw-s", 4) != 0)
        return true;
    if (gw_begins(path, "/dev/") && !gw_begins(path, "/dev/shm/") && !gw_begins(path, "/dev/zero"))
        return gw_begins(path, "/dev/nvidia"); /* of network cards, which carry messages past the kernel */
    of.segment = gw_hash_mix(gw_hash_bytes(GW_HASH_START, device, strlen(device)), inode);
    if (of.end - of.start >= SEGMENT_BYTES_MIN && shared->segment_count < GWI_SEGMENTS_MAX)
        shared->segment[shared->segment_count++] = of.segment;
    return add_memory(pid, pagemap, &of, pages, shared);
}

void gwi_shared_read(pid_t pid, gwi_pages *pages, gwi_shared *ret_shared)
{
    char path[64], *line = NULL;
    size_t room = 0;
    *ret_shared = (gwi_shared){.hash = GW_HASH_START};
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)pid);
    FILE *pagemap = fopen(path, "re");
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    ret_shared->is_known = maps != NULL;
    /* Without MPI, the result is not used, and the memory need not be read. */
    while (maps != NULL && getline(&line, &room, maps) > 0 && !ret_shared->has_mpi)
        ret_shared->has_mpi = strchr(line, '/') != NULL && is_mpi(strchr(line, '/'));
    if (maps != NULL)
        rewind(maps);
    if (ret_shared->has_mpi)
        ret_shared->is_known = pagemap != NULL;
    while (ret_shared->has_mpi && ret_shared->is_known && getline(&line, &room, maps) > 0)
        ret_shared->is_known = see_mapping(pid, fileno(pagemap), line, pages, ret_shared);
    free(line);
    if (maps != NULL)
        fclose(maps);
    if (pagemap != NULL)
        fclose(pagemap);
}

bool gwi_shared_is_linked(const gwi_shared *one, const gwi_shared *other)
{
    for (size_t i = 0; i < one->segment_count; i++)
        for (size_t k = 0; k < other->segment_count; k++)
            if (one->segment[i] == other->segment[k])
                return true;
    return false;
}

/* True if the code belongs to MPI. `any`: also to the libraries below it, which have threads of their own. */
static bool is_in_mpi(const gw_stack_process *process, uint64_t address, bool any)
{
    static const char *const names[] = {"libopen-pal", "libopen-rte", "libpmix", "mca_"};
    for (size_t i = 0; i < process->mapping_count; i++) {
        const gw_stack_mapping *mapping = &process->mapping[i];
        if (address <= mapping->start || address - mapping->start > mapping->bytes)
            continue;
        const char *name = strrchr(mapping->path, '/');
        bool found = is_mpi(mapping->path);
        for (size_t k = 0; name != NULL && any && k < sizeof names / sizeof names[0]; k++)
            found = found || gw_begins(name + 1, names[k]);
        return found;
    }
    return false;
}

uint64_t gwi_call_of_mpi(pid_t pid, uint32_t tid)
{
    gw_stack_process *process = NULL;
    uint64_t hash = 0;
    if (gw_stacks_look((uint32_t)pid, true, &process, NULL) != GW_OK)
        return 0;
    for (size_t i = 0; i < process->thread_count; i++) {
        const gw_stack_thread *thread = &process->thread[i];
        for (size_t k = 0; thread->tid == tid && k < thread->frame_count; k++) {
            if ((thread->frame[k] & GW_FRAME_PYTHON) != 0)
                break;
            /* start again at each frame of MPI: the one that the program called is the last */
            if (is_in_mpi(process, thread->frame[k], tid != (uint32_t)pid))
                hash = GW_HASH_START;
            else if (hash != 0)
                hash = gw_hash_mix(hash, thread->frame[k]);
        }
    }
    gw_stack_process_free(process);
    return hash;
}
