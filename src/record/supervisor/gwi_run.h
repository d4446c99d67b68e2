/* Declarations shared by the parts of `gpuwhy run`. All run in one process and one thread; supervisor.c shows the order
 * of calls. A "run time" is in ns since gwi_record.t0_monotonic_ns. */
#ifndef GWI_RUN_H
#define GWI_RUN_H

#include "gw_handout.h"
#include "gw_hang_watch.h"
#include "gw_recording.h"
#include "gw_run_options.h"
#include "gwi_place.h"
#include "gwi_program.h"
#include "gwi_stderr.h"
#include "gwi_still.h"

#include "gw_text.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- loading the hook into the program (doors.c) ---- */

typedef struct gwi_doors {
    bool open;              /* the program will load the hook */
    const char *closed_why; /* why `open` is false: "no driver", "32-bit", ...; not owned */
    bool is_virtual;
    gw_path driver;         /* the driver that the facade loads; "" if none */
    gw_path folder;         /* the facade's folder */
    bool has_c10;           /* `folder` contains libgpuwhy-c10.so */
    gw_path stderr_library; /* path of libgpuwhy-stderr.so; "" if it is not needed */
    gw_path virtual_folder; /* folder of the virtual cards' shared state; "" for real cards */
    gw_path nvml_folder;    /* folder of the virtual cards' libnvidia-ml.so.1; "" for real cards */
    const char *virtual_specification;
} gwi_doors;

/* A source of drivers, selected with `--gpu NAME[:SPECIFICATION]`. Each file source_*.c defines one gwi_gpu_source, and
 * doors.c lists them all. */
typedef struct gwi_gpu_source {
    const char *name;
    /* Set doors->driver and the other fields for virtual cards. `specification` is the text after the colon, or "", and
     * stays valid. Returns GW_USAGE if it is wrong, another error if the driver was not found; `err` has the reason. */
    gw_status (*choose)(gwi_doors *doors, const char *specification, const gwi_program *program, gw_error *err);
} gwi_gpu_source;

extern const gwi_gpu_source gwi_source_real, gwi_source_virtual;

/* For virtual cards: put the folder of their nvidia-smi first in our own PATH, which the program inherits. */
void gwi_doors_path(const gw_run_options *options);
/* Find the driver and write its facade. Returns GW_USAGE if the options are wrong. On any other error the hook cannot
 * be loaded: closed_why is set. `err` has the reason. */
GW_MUST_CHECK gw_status gwi_doors_prepare(gwi_doors *doors, const gw_run_options *options, const gwi_program *program,
                                          const char *run_folder, gw_error *err);
/* If stderr is a terminal whose text is copied, find the library that does so, and record why not all of it will be.
 * Call this after gwi_doors_prepare(). */
void gwi_doors_stderr(gwi_doors *doors, const gwi_program *program, const char *run_folder, gwi_stderr *capture);
/* In the child, before exec: set the variables that load and configure the hook. `run_folder` "": the hook records
 * nothing. `handout`: value of GW_HANDOUT_VARIABLE, or "". `ring_path`: the file of the ring for stderr. */
void gwi_doors_enter(const gwi_doors *doors, const gw_run_options *options, const gwi_program *program,
                     const char *run_folder, const char *handout, const char *ring_path);

/* Write the value of GPUWHY_REHEARSE for the options (rehearsal.c). */
void gwi_rehearsal_setting(const gw_run_options *options, char *out, size_t out_bytes);

/* ---- buffers for processes that cannot create their own (handout.c) ---- */

typedef struct gwi_handout {
    int fd;                     /* socket; -1 if none */
    const char *run_folder;     /* borrowed */
    char text[GW_HANDOUT_TEXT]; /* value of GW_HANDOUT_VARIABLE; "" if none */
    uint32_t handed;            /* number of buffers handed out */
} gwi_handout;

/* Open the socket. If this fails, processes that cannot create their own buffers are not recorded. */
void gwi_handout_begin(gwi_handout *handout, const char *run_folder);
/* Send a buffer to each process that has requested one. Never blocks. */
void gwi_handout_look(gwi_handout *handout);
void gwi_handout_end(gwi_handout *handout);

/* ---- the recording (record.c) ---- */

typedef struct gwi_record {
    gw_writer *writer;  /* owned; NULL if nothing is written, or if writing has stopped */
    gw_drain *drain;    /* owned; NULL if there is no run folder */
    gw_path path;       /* "" if there is no file */
    gw_path spare_path; /* path used if the disk of `path` becomes full; "" if none */
    bool is_on_spare;
    bool is_temporary; /* the file is in the run folder and is removed after the verdict */
    int lock_fd;       /* run.meta, locked so that gwi_run_folders_tidy() skips the folder; -1 if none */
    uint64_t t0_monotonic_ns;
    uint64_t synced_at_ns;
    /* Set while events are recorded: */
    uint64_t failure_at_ns; /* run time of the last failure that may need a verdict; 0 if none since the last verdict */
    uint32_t processes;     /* number of processes whose calls were recorded */
    uint32_t pids[4096];    /* pids of the first 4096 of these processes */
    bool is_steady;         /* a rehearsed process has told that its iterations are equal */
    bool is_refusal_told;   /* the first call that a rehearsal does not support was printed */
    uint64_t failed_at_ns;  /* like failure_at_ns, but never reset */
    uint64_t failure_count; /* number of such failures */
    uint32_t failed_pid;    /* of the last one: process, function and result */
    uint16_t failed_fn, failed_result;
    uint64_t out_of_memory_at_ns; /* run time of the last refused allocation; 0 if none */
    uint64_t holders_told_at_ns;  /* run time at which gwi_holders_record() last recorded facts */
    uint32_t holders_told;        /* number of times that gwi_holders_record() recorded facts */
    struct gw_sites *sites;       /* owned; NULL if nothing is written */
    struct gwi_held *held;        /* borrowed; gets the events of the processes; NULL: not needed */
} gwi_record;

void gwi_record_init(gwi_record *record);
/* Return the length of the recording's path without ".gpuwhy". The names of the recording's other files begin with the
 * same bytes. */
int gwi_record_stem_bytes(const gwi_record *record);
/* Create the recording's file at `options->output` (NULL: in the state folder). On failure, print the reason and use
 * the run folder.
 * Returns GW_USAGE if `options->output` already exists, otherwise GW_OK. The program runs even if nothing can be
 * recorded. */
GW_MUST_CHECK gw_status gwi_record_open(gwi_record *record, const gw_run_options *options, const char *run_folder,
                                        char *const *argv, gw_error *err);
/* Write the facts that every recording begins with: version, command line, machine, environment. */
void gwi_record_meta(gwi_record *record, const gw_run_options *options, char *const *argv, const gwi_doors *doors);
void gwi_record_put(gwi_record *record, const gw_item *item);
__attribute__((format(printf, 3, 4))) void gwi_record_fact(gwi_record *record, const char *key, const char *format,
                                                           ...);
void gwi_record_stderr(gwi_record *record, gwi_stderr *capture);
/* Move the contents of the buffers into the recording's file. Unless `last` is true, events of the last 2 ms stay in
 * the buffers. */
void gwi_record_drain(gwi_record *record, bool last);
void gwi_record_close(gwi_record *record);
/* Send a signal, or 0 to send none, to every recorded process that was alive at the last drain, but not to `except` (0:
 * to all). Returns how many there are. */
size_t gwi_record_signal(const gwi_record *record, pid_t except, int signal);
bool gwi_record_has_process(const gwi_record *record, uint32_t pid);
uint64_t gwi_record_now_ns(const gwi_record *record);

/* On a machine with several cards, record how they are connected, as fact "pci.peers" (senses.c). */
void gwi_record_bus(gwi_record *record);

/* Record the names of all call sites' addresses (senses.c). Takes at most GW_NAMES_HARD_MS of CPU time. Source lines
 * are looked up in the first GW_NAMES_SOFT_MS. */
void gwi_record_names(gwi_record *record);

/* After a refused allocation on a virtual card, record each process's memory on each virtual card, as facts
 * "card.holder" (holders.c). Does so at most once a second, and GWI_HOLDERS_TOLD_MAX times in a run. */
enum { GWI_HOLDERS_TOLD_MAX = 16 };
void gwi_holders_record(gwi_record *record, const gwi_doors *doors);

/* Callback for gw_sense_sink: record a process that has memory on NVML's card number `card`. If `card` is
 * GW_NO_DEVICE, the process only has some card's device file open. `bytes` is UINT64_MAX if unknown. `matched` is true
 * if the pid is valid in our pid namespace. `user` is a gwi_record. */
void gwi_holder_record(void *user, uint32_t card, uint32_t pid, uint64_t bytes, bool matched);

/* ---- sampling of the machine and its cards (senses.c) ---- */

typedef struct gwi_senses {
    struct gw_sense *sense; /* owned; NULL if sampling is off */
    gw_path nvml;           /* path of the virtual cards' NVML library; "" for real cards */
    char specification[1024], folder[PATH_MAX + 32];
    const char *environment[3];
} gwi_senses;

struct gw_sense_options;
/* Choose the NVML library in `options`: for virtual cards, theirs and not that of a real card. The strings belong to
 * `senses`. */
void gwi_senses_choose(gwi_senses *senses, const gwi_doors *doors, struct gw_sense_options *options);
void gwi_senses_begin(gwi_senses *senses, gwi_record *record, const gw_run_options *options, const gwi_doors *doors,
                      pid_t command);
void gwi_senses_look(gwi_senses *senses, gwi_record *record); /* call it after a drain */
/* Sample once more at the program's end, and stop sampling. `status` is the program's status. */
void gwi_senses_last(gwi_senses *senses, gwi_record *record, int status);

/* ---- what happens around the program (around.c) ---- */

typedef struct gwi_around {
    int terminal_fd;     /* one of our standard descriptors that is a terminal; -1: none, or it was closed */
    bool is_clock_known; /* asleep_ns is valid */
    uint64_t asleep_ns;  /* how long the machine has slept since it started */
} gwi_around;

void gwi_around_begin(gwi_around *around);
/* Record it if the terminal was closed, and if the machine slept. */
void gwi_around_look(gwi_around *around, gwi_record *record);
/* Return how long the machine slept since the last call; 0: it did not. The arguments are the clocks with sleep
 * (CLOCK_BOOTTIME) and without (CLOCK_MONOTONIC); 0 if one could not be read. */
uint64_t gwi_asleep_ns(gwi_around *around, uint64_t boot_ns, uint64_t monotonic_ns);

/* ---- GPU core dumps (dumps.c) ---- */

typedef struct gwi_dumps {
    bool asked;
    bool is_temporary; /* the dumps are in the run folder and are removed with it */
    bool is_our_name;  /* we set the variable with the file name */
    gw_path pattern;   /* file name given to the driver, with its %p, %h and %t; "" if none */
    uint64_t since_realtime_ns;
} gwi_dumps;

/* Set the environment variables that make the driver write dumps; the program inherits them. Call this after
 * gwi_record_open(): the dumps are stored beside the recording. */
void gwi_dumps_ask(gwi_dumps *dumps, const gwi_record *record, const char *run_folder);
/* After the program's end: record the contents of the dumps as facts "gpucore.file" and "gpucore.fault". */
void gwi_dumps_take(const gwi_dumps *dumps, gwi_record *record, pid_t command);
/* Remove our file name from the environment, so that the next run chooses its own. */
void gwi_dumps_end(gwi_dumps *dumps);
/* Stop requesting dumps for the programs that we start from now on. Without dumps, a failing call returns its error;
 * with dumps, the driver aborts the process. */
void gwi_dumps_forbid(void);

/* ---- core dumps of processes (host_core.c) ---- */

/* After the command's end: record the core dumps of this run's processes as facts "host.core". `status` is the
 * command's status. */
void gwi_host_cores_take(gwi_record *record, pid_t command, int status);

/* ---- the processes (watch.c) ---- */

typedef struct gwi_watch {
    const char *run_folder; /* borrowed; set by the caller before the first call */
    uint64_t next_at_ns;    /* monotonic; time of the next look at all processes */
    uint64_t interval_ns;
    uint32_t unobserved[64]; /* pids reported as unobserved */
    uint32_t unobserved_count;
    struct {
        uint32_t pid, parent; /* parent 0: the supervisor */
        uint64_t since_ns;    /* monotonic; time at which the process became a suspect */
    } suspect[64];            /* processes that loaded the hook and a driver, but had no recorded call at `since_ns` */
    uint32_t suspect_count;
    struct {
        uint32_t pid, looks;
    } young[64]; /* processes of the run, each examined a few times soon after its start */
    uint32_t young_count, last_pid;
    uint64_t young_at_ns; /* monotonic; next time to examine new processes */
    struct {
        uint32_t pid;
        bool said;
        uint64_t since_ns; /* monotonic; time at which the process was first found */
    } strange[64];         /* processes that were started without our environment variables */
    uint32_t strange_count;
    uint32_t mapped[256]; /* pids whose libraries were recorded */
    uint32_t mapped_count;
    uint64_t library[1024]; /* hashes of pid and path of the libraries recorded so far */
    uint32_t library_count;
    struct {
        uint32_t pid;
        bool is_hooked;  /* the process has mapped the facade */
        bool has_driver; /* the process has mapped a driver besides the facade */
        char name[16];
    } seen[512]; /* all processes examined so far */
    uint32_t seen_count;
} gwi_watch;

/* Examine the command and its descendants: record libraries, and report processes that use a driver without the hook.
 * If `now` is false and no look is due, examine only new processes. */
void gwi_watch_look(gwi_watch *watch, gwi_record *record, const gwi_doors *doors, pid_t command, bool now);
/* After the last drain: record for each process whether it was observed ("process.coverage"). Report processes that
 * used a driver without any recorded event. */
void gwi_watch_last(gwi_watch *watch, gwi_record *record);

/* Record the paths of the Flight Recorder dumps that PyTorch wrote during the run (flight.c). */
void gwi_flights_take(gwi_record *record);

/* ---- hangs (hang_watch.c) ---- */

typedef struct gwi_hangs {
    /* Judge the recording in the run folder. If it shows a hang, report it and return true. */
    bool (*judge)(void *user, const char *run_folder);
    void *user;
    /* after_ns: a process that makes no progress for this long hangs; 0: hangs are not detected. looked_at_ns: run
     * time of the last look. */
    uint64_t after_ns, looked_at_ns;
    bool kill, told;
    bool no_ras;           /* do not ask NCCL's RAS */
    bool ras_is_asked;     /* it was asked; this is done once */
    uint64_t killed_at_ns; /* run time of the last kill signal; 0 if none */
    gw_hang_watch watch;
    gwi_still_job job;                             /* the ranks of a job, even if they make no driver calls */
    gwi_still_rank told_rank[GWI_STILL_RANKS_MAX]; /* the ranks of the last hang of the job that was recorded */
    size_t told_rank_count;
} gwi_hangs;

/* --kill-on-hang: time between SIGTERM and SIGKILL. */
#define GWI_KILL_AFTER_NS UINT64_C(10000000000)

/* Read the options for hangs into `hangs`. The caller then sets `judge` and `user`. Returns GW_USAGE, with the reason
 * in `err`, if the options are wrong. */
GW_MUST_CHECK gw_status gwi_hangs_begin(gwi_hangs *hangs, const gw_run_options *options, gw_error *err);
/* Look for hangs if a look is due. Call it after a drain. */
void gwi_hangs_look(gwi_hangs *hangs, gwi_record *record, gwi_stderr *capture, const char *run_folder, pid_t child);
/* If gpuwhy ended the command because of a hang: send a signal, or 0 to send none, to the ranks and recorded processes
 * that outlive it. They would wait for ever. Returns how many there are. */
size_t gwi_hangs_signal(const gwi_hangs *hangs, const gwi_record *record, int signal);
void gwi_hangs_close(gwi_hangs *hangs);
/* Ask NCCL's RAS how many collectives each rank has launched, twice, and record the answers (ras_ask.c). Does nothing
 * if no process of the run has RAS, or if it was asked before. */
void gwi_ras_ask(gwi_hangs *hangs, gwi_record *record);

#endif
