/* The state of a supervised program, shared by supervisor.c, loop.c, finish.c and attempt.c. */
#ifndef GWI_STATE_H
#define GWI_STATE_H

#include "gw_live.h"
#include "gw_run_options.h"
#include "gw_status.h"
#include "gwi_alarm.h"
#include "gwi_child.h"
#include "gwi_cudnn.h"
#include "gwi_held.h"
#include "gwi_room_wait.h"
#include "gwi_run.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The file that the processes of a run share (gw_run_shared.h), as the supervisor sees it. */

typedef struct gwi_shared_file {
    struct gw_run_shared *map; /* owned; NULL: the run does not need the file, or it could not be created */
    uint32_t lost_devices;     /* those that were passed on to the virtual cards */
} gwi_shared_file;

/* Create the file in the run folder, if the options need it. Without the file, each process has the whole limit of
 * --memory, and rules with process=N do not take effect; a message says so. */
void gwi_shared_file_make(gwi_shared_file *shared, const gw_run_options *options, const char *run_folder);
/* Let virtual cards be lost that --inject let a process lose. Does nothing for a real card. */
void gwi_shared_file_look(gwi_shared_file *shared, const gwi_doors *doors);
void gwi_shared_file_close(gwi_shared_file *shared);

/* The device memory that a running program holds and keeps: sampled for `run --alarm-at` and `gpuwhy watch`. */

enum { GWI_MEMORY_SAMPLES_MAX = 256, GWI_MEMORY_OTHERS = 9 };

typedef struct gwi_memory_device {
    uint64_t reserved_bytes, allocated_bytes; /* of the frameworks' allocators */
    /* the newest values of what was held beyond reserved_bytes; a ring */
    int64_t other_bytes[GWI_MEMORY_OTHERS];
    size_t other_count;
    gwi_held_sample sample[GWI_MEMORY_SAMPLES_MAX];
    size_t count;
} gwi_memory_device;

typedef struct gwi_memory {
    uint64_t limit_bytes;  /* --memory; 0: none */
    uint64_t looked_at_ns; /* run time */
    uint64_t worked_at_ns; /* run time of the last look that found new launches or waits; 0: none */
    uint64_t launches, waits, rounds;
    uint64_t now_launches, now_waits; /* while looking at the threads */
    gwi_held held;                    /* must get the items of the recording */
    gwi_memory_device device[GWI_HELD_DEVICES_MAX];
} gwi_memory;

/* Take samples if they are due (every 90 ms). Call it after a drain. */
void gwi_memory_look(gwi_memory *memory, gw_drain *drain, uint64_t now_ns);
/* Return the memory that the program can use on a device; 0: unknown. */
uint64_t gwi_memory_limit(const gwi_memory *memory, unsigned device);
/* Judge the samples of a device. Returns false if it was not used or its size is unknown. */
bool gwi_memory_forecast(const gwi_memory *memory, unsigned device, gwi_forecast *ret_forecast);

/* Return a process with PyTorch whose allocator is not followed, so that its cache would count as kept; 0: none. Reads
 * the maps of the processes, so do not call it often. */
uint32_t gwi_memory_blind_pid(gw_drain *drain);

/* Publishes the state of the run about once a second, for `gpuwhy watch` (gw_live.h). */

typedef struct gwi_live {
    uint64_t written_at_ns; /* run time; 0: not yet */
} gwi_live;

struct gw_supervisor;
/* Write the state if it is due. Call it after gwi_memory_look(). */
void gwi_live_look(struct gw_supervisor *run);

struct gw_supervisor {
    gw_run_options options;
    gw_run_judges judges;
    char *const *argv;
    gwi_program program;
    gw_path run_folder; /* "" if there is none */
    gw_path unfinished; /* see gwi_unfinished_set() */
    gwi_handout handout;
    gwi_shared_file shared;
    gwi_doors doors;
    char doors_reason[512]; /* why the hook could not be set up, as a sentence */
    gwi_record record;
    gwi_dumps dumps;
    gwi_cudnn cudnn; /* --deep */
    gwi_stderr capture;
    gwi_signals signals;
    gwi_watch watch;
    gwi_senses senses;
    gwi_around around;
    pid_t child;
    bool is_host_full;      /* a virtual card has ended a process, because the host's memory was used up */
    uint64_t started_at_ns; /* run time at which the program was started */
    int status;
    gwi_hangs hangs;        /* --hang-after */
    gwi_room_wanted wanted; /* --wait-memory */
    gwi_alarm alarm;        /* --alarm-at */
    gwi_memory memory;      /* for the alarm and for `gpuwhy watch` */
    gwi_live live;          /* for `gpuwhy watch` */
    /* --on-failure */
    uint64_t judged_at_ns;
    bool failure_told;
    pid_t command_pid;
    bool is_second;              /* this is the second run of --blame */
    unsigned attempt;            /* number of this attempt, from 1; 0 for the second run of --blame */
    gw_path output;              /* -o for this attempt, if it is not the first one */
    off_t input_at;              /* initial offset of the program's standard input; -1 if it cannot be read again */
    uint64_t rehearsal_ended_ns; /* run time at which a rehearsal was ended; 0: it was not */
    /* --end-with-parent */
    pid_t parent;
    uint64_t parent_gone_at_ns; /* monotonic; 0 while the parent exists */
};

/* Store the options and `argv` in `run`, and start the run time. Set its file descriptors to -1, and all other fields
 * to zero. */
void gwi_supervisor_init(gw_supervisor *run, const gw_run_options *options, char *const *argv);
/* Set up the run and start the program (supervisor.c). Returns GW_EXIT_OK (0), or gpuwhy's exit status on failure.
 * After a failure, call gwi_supervisor_clean_up(). */
int gwi_supervisor_start(gw_supervisor *run);
/* Like gwi_supervisor_start(), and clean up if the program was not started. */
int gwi_supervisor_start_or_clean_up(gw_supervisor *run);
/* Undo this run's signal handling, before another run in this process sets up its own. */
void gwi_supervisor_release_signals(gw_supervisor *run);
/* Close everything that is open, and remove the run folder and old recordings. May be called even if the program was
 * not started. */
void gwi_supervisor_clean_up(gw_supervisor *run);

/* Check the options of a rehearsal (rehearsal.c). GW_USAGE: they are wrong. */
GW_MUST_CHECK gw_status gwi_rehearsal_check(const gw_run_options *options, gw_error *err);
/* Return GW_EXIT_OK if the hook will be in the rehearsed program, or if this run is real and not inside a rehearsal.
 * Otherwise the program would take memory and compute, so it must not be started: print the reason and return gpuwhy's
 * exit status. */
int gwi_rehearsal_possible(const gw_supervisor *run);
/* Before the program is started: what a rehearsed program starts shall be ended with it. */
void gwi_rehearsal_begin(const gw_run_options *options);
/* When the recording is complete: end the processes that a rehearsed program has left behind, and append a sentence
 * that names them. */
void gwi_rehearsal_end(const gw_run_options *options, gw_text *left_behind);
/* End the rehearsed program if enough is known. */
void gwi_rehearsal_look(gw_supervisor *run);
typedef struct gwi_setting {
    const char *name, *value;
} gwi_setting;
/* Start `command` in a shell with additional environment variables, up to one with the name NULL. Its output goes to
 * our stderr. Returns its pid, or -1. */
pid_t gwi_command_start(const gw_supervisor *run, const char *command, const gwi_setting *settings);

/* While no program runs: read the signals that arrived. Returns true if one of them, or the end of the parent
 * (--end-with-parent), asked the run to end; run->signals.stop_signal is then set (loop.c). */
bool gwi_is_asked_to_end(gw_supervisor *run);
/* Watch the program until it has ended (loop.c). */
void gwi_loop_run(gw_supervisor *run);
/* Wait until a signal arrives, a process requests a buffer, a recorded process ends, or the next drain is due. */
void gwi_loop_wait(const gw_supervisor *run);

/* Call this after the program has ended. Records the last facts, and finally the names of the call sites (finish.c). */
void gwi_finish_recording(gw_supervisor *run);

#endif
