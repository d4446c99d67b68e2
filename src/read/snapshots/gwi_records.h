/* The records of a PyTorch memory snapshot, a Flight Recorder dump or a dump of py-spy, as read from its pickle, JSON
 * or text. */
#ifndef GW_TORCH_RECORDS_H
#define GW_TORCH_RECORDS_H

#include "gw_event.h"
#include "gw_pickle.h"

typedef struct gwi_torch_frame {
    uint32_t file, name; /* text ids in the pickle: path of the source file, name of the function */
    int32_t line;        /* -1: not known */
} gwi_torch_frame;

typedef struct gwi_torch_block {
    bool has_address;
    uint8_t state; /* gw_block_state */
    uint64_t address, bytes;
    uint64_t requested_bytes; /* 0: not known */
    uint32_t stack;           /* 0: not known */
} gwi_torch_block;

typedef struct gwi_torch_segment {
    uint32_t device;
    bool is_expandable;
    bool is_private; /* in a pool of its own: of a CUDA graph, or made by the program */
    uint64_t address, bytes;
    gw_pickle_value blocks; /* list of the segment's blocks, as folded values (GWI_TAG_BLOCK) */
} gwi_torch_segment;

typedef struct gwi_torch_entry {
    uint8_t action; /* gw_allocator_action */
    uint32_t stack;
    uint32_t stream;  /* index of its stream in gwi_torch.stream */
    uint64_t address; /* of a block or segment; for an out-of-memory error: free bytes of the device */
    uint64_t bytes;
    uint64_t time_us; /* 0: not known */
} gwi_torch_entry;

/* A call of a process group, from a Flight Recorder dump. */
typedef struct gwi_torch_collective {
    uint32_t name, group, dtype; /* text ids in the pickle; dtype: UINT32_MAX: not known */
    uint64_t group_number;       /* PyTorch's number of the group in this process */
    uint64_t number;             /* among the collectives of its process group; 0: not known */
    uint64_t time_ns;            /* when it was called, by the host's realtime clock; 0: not known */
    uint64_t in, out;            /* elements of its first tensor; 0: not known */
    bool is_p2p, is_completed;
    uint32_t stack; /* 0: not known */
} gwi_torch_collective;

/* A thread, from a dump of py-spy. */
typedef struct gwi_torch_thread {
    uint64_t thread_id;      /* Python's number of the thread, or `tid` */
    uint32_t dump, pid, tid; /* dump: counts the dumps of this process in the file, from 0; tid 0: not known */
    uint32_t name, command;  /* text ids; UINT32_MAX: not known. command: the process's command line */
    uint32_t stack;          /* its Python frames; 0: none */
    uint32_t native;         /* text id: name of the innermost native function; UINT32_MAX: not known */
    const char *wait;        /* static; what the thread waits for, as in the fact hang.thread */
    uint64_t locals;         /* hash of the local variables of its frames; 0: they are not in the dump */
    bool is_active;
} gwi_torch_thread;

/* Record types. A folded value replaces a dict or list that became a record. Its tag is the record's type, and its
 * number is the record's index. */
enum {
    GWI_TAG_FRAME = 1,
    GWI_TAG_STACK,
    GWI_TAG_BLOCK,
    GWI_TAG_SEGMENT,
    GWI_TAG_ENTRY,
    GWI_TAG_COLLECTIVE,
    GWI_TAG_THREAD
};

#define GWI_TORCH_NAMES(X)                                                                                             \
    X(PYTORCH_CUDA_ALLOC_CONF)                                                                                         \
    X(action)                                                                                                          \
    X(active)                                                                                                          \
    X(active_allocated)                                                                                                \
    X(active_pending_free)                                                                                             \
    X(addr)                                                                                                            \
    X(address)                                                                                                         \
    X(allocator_settings)                                                                                              \
    X(blocks)                                                                                                          \
    X(collective_seq_id)                                                                                               \
    X(completed)                                                                                                       \
    X(desc)                                                                                                            \
    X(device)                                                                                                          \
    X(device_free)                                                                                                     \
    X(device_traces)                                                                                                   \
    X(entries)                                                                                                         \
    X(filename)                                                                                                        \
    X(frames)                                                                                                          \
    X(history)                                                                                                         \
    X(inactive)                                                                                                        \
    X(input_dtypes)                                                                                                    \
    X(input_sizes)                                                                                                     \
    X(is_expandable)                                                                                                   \
    X(is_p2p)                                                                                                          \
    X(line)                                                                                                            \
    X(locals)                                                                                                          \
    X(name)                                                                                                            \
    X(os_thread_id)                                                                                                    \
    X(output_sizes)                                                                                                    \
    X(pg_config)                                                                                                       \
    X(last_enqueued_collective)                                                                                        \
    X(pg_status)                                                                                                       \
    X(pg_id)                                                                                                           \
    X(pid)                                                                                                             \
    X(process_group)                                                                                                   \
    X(profiling_name)                                                                                                  \
    X(ranks)                                                                                                           \
    X(real_size)                                                                                                       \
    X(repr)                                                                                                            \
    X(requested_size)                                                                                                  \
    X(segment_pool_id)                                                                                                 \
    X(segments)                                                                                                        \
    X(seq_id)                                                                                                          \
    X(size)                                                                                                            \
    X(state)                                                                                                           \
    X(stream)                                                                                                          \
    X(thread_id)                                                                                                       \
    X(thread_name)                                                                                                     \
    X(time_created_ns)                                                                                                 \
    X(time_us)                                                                                                         \
    X(total_size)

enum {
#define GW_X(name) GWI_NAME_##name,
    GWI_TORCH_NAMES(GW_X)
#undef GW_X
        GWI_NAME_COUNT
};

enum { GWI_TORCH_STREAMS_MAX = 256, GWI_TORCH_START = 4096 /* bytes that show the kind of a file */ };

typedef struct gwi_torch {
    gw_pickle *pickle; /* owned */
    gw_pickle_value root;
    uint32_t *frame; /* the frames of the list that is read now; owned */
    size_t frame_capacity;
    uint32_t number_most;   /* the highest number of a frame or a stack */
    gwi_torch_block *block; /* owned */
    size_t block_count, block_capacity;
    gwi_torch_segment *segment; /* owned */
    size_t segment_count, segment_capacity;
    gwi_torch_entry *entry; /* owned */
    size_t entry_count, entry_capacity;
    bool is_flight;           /* a Flight Recorder dump */
    bool is_pyspy;            /* a dump of py-spy */
    gwi_torch_thread *thread; /* owned; in the order of the file */
    uint64_t locals;          /* hash of the local variables of the thread that is read now */
    size_t thread_count, thread_capacity;
    gwi_torch_collective *collective; /* owned; oldest first */
    size_t collective_count, collective_capacity;
    /* the streams of the entries; entries of further streams have the index GWI_TORCH_STREAMS_MAX */
    uint64_t stream[GWI_TORCH_STREAMS_MAX];
    uint32_t stream_count;
} gwi_torch;

/* Read and check a snapshot or a dump of any kind. Returns GW_OK, GW_IO, GW_CORRUPT, GW_UNSUPPORTED or GW_NOMEM. On
 * failure, `err` has the reason and `torch` is freed. */
GW_MUST_CHECK gw_status gwi_torch_read(const char *path, gwi_torch *torch, gw_error *err);
void gwi_torch_free(gwi_torch *torch);

/* How a pickle or JSON becomes the records of `torch`. */
gw_pickle_options gwi_records_options(gwi_torch *torch);
/* Find out whether the root is a snapshot or a Flight Recorder dump, and check it. GW_CORRUPT, GW_UNSUPPORTED: it has
 * unexpected parts. */
GW_MUST_CHECK gw_status gwi_records_check(gwi_torch *torch, const char *path, gw_error *err);

/* True if the text begins as `py-spy dump` prints it: a process, then the version of its interpreter. */
bool gwi_pyspy_is(const char *text);
/* Read such a file, which may have several dumps, one after the other, into `torch`, whose pickle has no values. */
GW_MUST_CHECK gw_status gwi_pyspy_read(const char *path, gwi_torch *torch, gw_error *err);
/* Find out what each thread of a dump waits for, and leave frames of native code out of its stack. `err` has no path.
 */
GW_MUST_CHECK gw_status gwi_pyspy_finish(gwi_torch *torch, gw_error *err);

/* Store a frame, or the numbers of the frames of a stack, and return its number. `pickle` becomes torch->pickle. */
GW_MUST_CHECK gw_status gwi_torch_store(gwi_torch *torch, gw_pickle *pickle, const void *data, size_t bytes,
                                        uint32_t *ret_number, gw_error *err);

gwi_torch_frame gwi_torch_frame_of(const gwi_torch *torch, uint32_t number);
/* Copy the numbers of a stack's frames, innermost frame first and at most `frame_max`. Returns how many it has. */
size_t gwi_torch_stack_of(const gwi_torch *torch, uint32_t number, uint32_t *ret_frame, size_t frame_max);

/* Return the list of the devices' histories ("device_traces" in the root). Without such a list, the returned value has
 * the type NONE. */
gw_pickle_value gwi_torch_traces(const gwi_torch *torch);

/* Return the allocator settings that the program was started with, as in PYTORCH_ALLOC_CONF. NULL: not known. The text
 * is borrowed from the pickle. */
const char *gwi_torch_settings(const gwi_torch *torch);

/* Return the ranks of a process group of a dump, such as "[0, 1]". NULL: not known. */
const char *gwi_torch_ranks_of(const gwi_torch *torch, uint32_t group, const char **ret_description);
/* Get the number of the last call that was made in a group. Returns false if the dump does not contain it. */
bool gwi_torch_enqueued(const gwi_torch *torch, uint64_t group_number, uint64_t *ret_number);
/* If the process has only one group, get its name and number. Otherwise return false. */
bool gwi_torch_only_group(const gwi_torch *torch, uint32_t *ret_group, uint64_t *ret_number);

#endif
