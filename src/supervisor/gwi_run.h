/* Declarations that the parts of `gpuwhy run` share. One process, one thread; supervisor.c shows the order of calls. */
#ifndef GWI_RUN_H
#define GWI_RUN_H

#include "gw_handout.h"
#include "gw_hang_watch.h"
#include "gw_recording.h"
#include "gw_run_options.h"
#include "gwi_place.h"
#include "gwi_program.h"
#include "gwi_stderr.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- the doors: how the hook gets into the program (doors.c) ---- */

typedef struct gwi_doors {
    bool open;              /* the hook is in place */
    const char *closed_why; /* static word for the recording if the doors are closed: "no driver", "32-bit", ... */
    bool is_virtual;
    gw_path driver;         /* the next driver; "": none */
    gw_path folder;         /* the facade's folder */
    bool has_c10;           /* the folder contains libgpuwhy-c10.so */
    gw_path virtual_folder; /* the virtual cards' shared state */
    gw_path nvml_folder;    /* folder of the virtual cards' libnvidia-ml.so.1; "" for real cards */
    const char *virtual_specification;
} gwi_doors;

/* A source of drivers: `--gpu NAME[:SPECIFICATION]`. Each source is a file source_*.c with one such struct, and a row
 * in doors.c. */
typedef struct gwi_gpu_source {
    const char *name;
    /* Set doors->driver and the source's other fields. `specification` is the text after the colon, or ""; it outlives
     * the run. GW_USAGE: the specification is wrong. Other errors: there is no such driver. `err` has the reason. */
    gw_status (*choose)(gwi_doors *doors, const char *specification, const gwi_program *program, gw_error *err);
} gwi_gpu_source;

extern const gwi_gpu_source gwi_source_real, gwi_source_virtual;

/* For virtual cards: put their nvidia-smi first in our own search path, so that the program can also be nvidia-smi. */
void gwi_doors_path(const gw_run_options *options);
/* Find the driver and write its facade. GW_OK is also returned without a driver: then `open` is false and `err` has the
 * reason. GW_USAGE: the options are wrong. Other errors: the doors stay closed; `err` has the reason. */
GW_MUST_CHECK gw_status gwi_doors_prepare(gwi_doors *doors, const gw_run_options *options, const gwi_program *program,
                                          const char *run_folder, gw_error *err);
/* In the child: set its environment. `run_folder` "": the hook records nothing. `handout` is the value of
 * GW_HANDOUT_VARIABLE, or "". */
void gwi_doors_enter(const gwi_doors *doors, const gw_run_options *options, const gwi_program *program,
                     const char *run_folder, const char *handout);

/* ---- buffers for processes that cannot create their own (handout.c) ---- */

typedef struct gwi_handout {
    int fd;                     /* -1: none */
    const char *run_folder;     /* borrowed */
    char text[GW_HANDOUT_TEXT]; /* value of GW_HANDOUT_VARIABLE; "": none */
    uint32_t handed;            /* number of buffers */
} gwi_handout;

/* Open the socket. If that fails, such processes are not recorded. */
void gwi_handout_begin(gwi_handout *handout, const char *run_folder);
/* Answer the requests that wait. */
void gwi_handout_look(gwi_handout *handout);
void gwi_handout_end(gwi_handout *handout);

/* ---- the recording (record.c) ---- */

typedef struct gwi_record {
    gw_writer *writer;  /* owned; NULL: nothing is written, or nothing any more */
    gw_drain *drain;    /* owned; NULL: there is no run folder */
    gw_path path;       /* "": there is no file */
    gw_path spare_path; /* takes over if the disk of `path` is full; "": none */
    bool is_on_spare;
    bool is_temporary; /* the file is in the run folder, and is removed after the verdict */
    int lock_fd;       /* run.meta, locked while the supervisor lives, for gwi_run_folders_tidy(); -1: none */
    uint64_t t0_monotonic_ns;
    uint64_t synced_at_ns;
    /* Filled by the sink: */
    uint64_t failure_at_ns;       /* run time of the last failure worth judging; 0: none since it was last judged */
    uint32_t processes;           /* number of processes whose calls were recorded */
    uint32_t pids[4096];          /* the first of these processes */
    uint64_t failed_at_ns;        /* run time of the last failure of a call; never reset */
    uint64_t out_of_memory_at_ns; /* run time of the last refused allocation; 0: none */
    uint64_t holders_told_at_ns;  /* run time of the last gwi_holders_record() */
    uint32_t holders_told;        /* number of those calls that recorded something */
    struct gw_sites *sites;       /* owned; NULL: nothing is written */
} gwi_record;

void gwi_record_init(gwi_record *record);
/* Create the file: at `output`, else in the state folder, else in the run folder. Reports on stderr what it has to do
 * without. GW_OK is returned even if nothing can be written, because the program runs anyway. GW_USAGE: `output`
 * exists. */
GW_MUST_CHECK gw_status gwi_record_open(gwi_record *record, const gw_run_options *options, const char *run_folder,
                                        char *const *argv, gw_error *err);
/* Write the facts at the start of every recording: version, command line, machine, environment. */
void gwi_record_meta(gwi_record *record, const gw_run_options *options, char *const *argv, const gwi_doors *doors);
void gwi_record_put(gwi_record *record, const gw_item *item);
__attribute__((format(printf, 3, 4))) void gwi_record_fact(gwi_record *record, const char *key, const char *format,
                                                           ...);
void gwi_record_stderr(gwi_record *record, gwi_stderr *capture);
/* Move the contents of the buffers into the file. */
void gwi_record_drain(gwi_record *record, bool last);
void gwi_record_close(gwi_record *record);
bool gwi_record_has_process(const gwi_record *record, uint32_t pid);
uint64_t gwi_record_now_ns(const gwi_record *record);

/* On a machine with several cards, record how they are connected: fact "pci.peers" (bus.c). */
void gwi_record_bus(gwi_record *record);

/* Resolve the addresses of all call sites to names and write them (names.c). Takes at most GW_NAMES_HARD_MS; source
 * lines are looked up only during the first GW_NAMES_SOFT_MS. */
void gwi_record_names(gwi_record *record);

/* After a refused allocation on a virtual card, record who holds how much of it: facts "card.holder" (holders.c). At
 * most once a second, and GWI_HOLDERS_TOLD_MAX times in all. */
enum { GWI_HOLDERS_TOLD_MAX = 16 };
void gwi_holders_record(gwi_record *record, const gwi_doors *doors);

/* Record a process that has memory on NVML's card `card`. `bytes` UINT64_MAX: not known. `matched`: the pid is valid in
 * our pid namespace. `card` GW_NO_DEVICE: the process has the device file of some card open. `user`, from the senses,
 * is a gwi_record. */
void gwi_holder_record(void *user, uint32_t card, uint32_t pid, uint64_t bytes, bool matched);

/* ---- the senses (senses.c) ---- */

typedef struct gwi_senses {
    struct gw_sense *sense; /* owned; NULL: off */
    gw_path nvml;           /* folder of the virtual cards' NVML */
    char specification[1024], folder[PATH_MAX + 32];
    const char *environment[3];
} gwi_senses;

void gwi_senses_begin(gwi_senses *senses, gwi_record *record, const gw_run_options *options, const gwi_doors *doors,
                      pid_t command);
void gwi_senses_look(gwi_senses *senses, gwi_record *record); /* after a drain */
/* At the end, with the program's status. Closes the senses. */
void gwi_senses_last(gwi_senses *senses, gwi_record *record, int status);

/* ---- GPU core dumps (dumps.c) ---- */

typedef struct gwi_dumps {
    bool asked;
    bool is_temporary; /* they are in the run folder, and are removed with it */
    gw_path pattern;   /* the name that the driver uses for the files, with %p, %h, %t; "": the driver has no name */
    uint64_t since_realtime_ns;
} gwi_dumps;

/* Set the variables that make the driver write dumps in our own environment, which the program inherits. Call it after
 * gwi_record_open(), because the files are put beside the recording. */
void gwi_dumps_ask(gwi_dumps *dumps, const gwi_record *record, const char *run_folder);
/* After the end: record the contents of the dumps as facts "gpucore.file" and "gpucore.fault". */
void gwi_dumps_take(const gwi_dumps *dumps, gwi_record *record, pid_t command);
/* Request no dumps from now on, so that a failing call reports its own failure. */
void gwi_dumps_forbid(void);

/* ---- core dumps of processes (host_core.c) ---- */

/* After the end of the command, with its status: record what core dumps of this run's processes show, as facts
 * "host.core". */
void gwi_host_cores_take(gwi_record *record, pid_t command, int status);

/* ---- the processes (watch.c) ---- */

typedef struct gwi_watch {
    const char *run_folder; /* borrowed; set by the caller before the first look */
    uint64_t next_at_ns;    /* monotonic */
    uint64_t interval_ns;
    uint32_t unobserved[64]; /* pids that were reported */
    uint32_t unobserved_count;
    struct {
        uint32_t pid;
        uint64_t since_ns; /* monotonic */
    } suspect[64];         /* processes that use a driver behind our hook without a call that the hook saw */
    uint32_t suspect_count;
    struct {
        uint32_t pid, looks;
    } young[64]; /* children since the last full look; they are examined earlier */
    uint32_t young_count, last_pid;
    uint64_t young_at_ns; /* monotonic: the next time to look for such children */
    struct {
        uint32_t pid;
        bool said;
        uint64_t since_ns; /* monotonic */
    } strange[64];         /* processes without our environment */
    uint32_t strange_count;
    uint32_t mapped[256]; /* pids whose libraries were recorded */
    uint32_t mapped_count;
    uint64_t library[1024]; /* hashes of pid and path: CUDA libraries recorded so far */
    uint32_t library_count;
    struct {
        uint32_t pid;
        bool is_hooked;  /* the facade is mapped */
        bool has_driver; /* a driver behind it is mapped */
        char name[16];
    } seen[512]; /* all processes that were looked at */
    uint32_t seen_count;
} gwi_watch;

/* Look at the command and its children: record the libraries of recorded processes, and real drivers in use that the
 * hook did not see. Does nothing until the next look is due, unless `now` is true. */
void gwi_watch_look(gwi_watch *watch, gwi_record *record, const gwi_doors *doors, pid_t command, bool now);
/* After the last drain: record for each process whether it was observed ("process.coverage"), and which processes used
 * a driver but gave us no event. */
void gwi_watch_last(gwi_watch *watch, gwi_record *record);

/* ---- hangs (hang_run.c) ---- */

typedef struct gwi_hangs {
    /* Judge the contents of the run folder. Returns true if it is a hang, which was then reported. */
    bool (*judge)(void *user, const char *run_folder);
    void *user;
    uint64_t after_ns, looked_at_ns; /* run time; after_ns 0: off */
    bool kill, told;
    uint64_t killed_at_ns; /* run time of the SIGTERM; 0: none */
    gw_hang_watch watch;
} gwi_hangs;

/* Read the options; the caller sets `judge` and `user` afterwards. GW_USAGE: the options are wrong; `err` has the
 * reason. */
GW_MUST_CHECK gw_status gwi_hangs_begin(gwi_hangs *hangs, const gw_run_options *options, gw_error *err);
/* Look if it is time to. Call it after a drain. */
void gwi_hangs_look(gwi_hangs *hangs, gwi_record *record, gwi_stderr *capture, const char *run_folder, pid_t child);

#endif
