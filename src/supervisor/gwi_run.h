/* `gpuwhy run`: what its parts share. One process, one thread; the parts are called in the order supervisor.c shows. */
#ifndef GWI_RUN_H
#define GWI_RUN_H

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
    bool open;              /* something is put in place */
    const char *closed_why; /* static word for the recording when nothing is: "no driver", "32-bit", ... */
    bool is_virtual;
    gw_path driver;         /* the next driver; "" when there is none */
    gw_path folder;         /* of the facade */
    bool has_c10;           /* libgpuwhy-c10.so lies there, too */
    gw_path virtual_folder; /* the virtual cards' shared state */
    gw_path nvml_folder;    /* of the virtual cards' libnvidia-ml.so.1; "" for real ones */
    const char *virtual_specification;
} gwi_doors;

/* Where a driver comes from: `--gpu NAME[:SPECIFICATION]`. One file and one struct each (source_*.c), a row in doors.c.
 */
typedef struct gwi_gpu_source {
    const char *name;
    /* Set doors->driver and what else the source needs. `specification` is what follows the colon, "" without one; it
     * outlives the run. GW_USAGE: the specification makes no sense; else there is no such driver, `err` says why. */
    gw_status (*choose)(gwi_doors *doors, const char *specification, const gwi_program *program, gw_error *err);
} gwi_gpu_source;

extern const gwi_gpu_source gwi_source_real, gwi_source_virtual;

/* On virtual cards, their nvidia-smi comes first in the search path: in ours, so that it may also be the program. */
void gwi_doors_path(const gw_run_options *options);
/* Find the driver and write its facade. GW_OK also when there is none: then `open` is false and `err` says why.
 * GW_USAGE: the options make no sense. Else: the doors stay closed, `err` has the reason. */
GW_MUST_CHECK gw_status gwi_doors_prepare(gwi_doors *doors, const gw_run_options *options, const gwi_program *program,
                                          const char *run_folder, gw_error *err);
/* In the child: set the environment up. `run_folder` "": the hook records nothing. */
void gwi_doors_enter(const gwi_doors *doors, const gw_run_options *options, const gwi_program *program,
                     const char *run_folder);

/* ---- the recording (record.c) ---- */

typedef struct gwi_record {
    gw_writer *writer; /* owned; NULL: nothing is written (any more) */
    gw_drain *drain;   /* owned; NULL: no run folder */
    gw_path path;      /* "" when there is no file */
    bool is_temporary; /* in the run folder: gone after the verdict */
    uint64_t t0_monotonic_ns;
    uint64_t synced_at_ns;
    /* what the sink has seen */
    uint64_t failure_at_ns; /* run time of the last failure worth a judgement; 0: none since gwi_record_failure_clear */
    uint32_t processes;     /* whose calls were recorded */
    uint32_t pids[256];     /* the first of them */
    uint64_t failed_at_ns;  /* run time of the last failure of a call, for good */
    uint64_t out_of_memory_at_ns; /* run time of the last refused allocation; 0: none */
    uint64_t holders_told_at_ns;  /* by gwi_holders_record(), run time */
    uint32_t holders_told;        /* how often */
    struct gw_sites *sites;       /* owned; NULL: nothing is written */
} gwi_record;

void gwi_record_init(gwi_record *record);
/* Create the file: at `output`, else under the state folder, else in the run folder. Says on stderr what it had to do
 * without. GW_OK also when nothing can be written at all: the program runs all the same. GW_USAGE: `output` exists. */
GW_MUST_CHECK gw_status gwi_record_open(gwi_record *record, const gw_run_options *options, const char *run_folder,
                                        char *const *argv, gw_error *err);
/* The start of every recording: version, command line, machine, environment. */
void gwi_record_meta(gwi_record *record, const gw_run_options *options, char *const *argv, const gwi_doors *doors);
void gwi_record_put(gwi_record *record, const gw_item *item);
__attribute__((format(printf, 3, 4))) void gwi_record_fact(gwi_record *record, const char *key, const char *format,
                                                           ...);
void gwi_record_stderr(gwi_record *record, gwi_stderr *capture);
/* Move what the buffers hold into the file. */
void gwi_record_drain(gwi_record *record, bool last);
void gwi_record_close(gwi_record *record);
bool gwi_record_has_process(const gwi_record *record, uint32_t pid);
uint64_t gwi_record_now_ns(const gwi_record *record);

/* Where the machine has several cards: the fact "pci.peers", what stands between them (bus.c). */
void gwi_record_bus(gwi_record *record);

/* Name the addresses of all call sites, and write that (names.c). Takes GW_NAMES_HARD_MS at most; source lines are
 * only looked up for GW_NAMES_SOFT_MS. */
void gwi_record_names(gwi_record *record);

/* After a refused allocation on a virtual card: facts "card.holder", who holds how much of it (holders.c). Once a
 * second at most, and GWI_HOLDERS_TOLD_MAX times. */
enum { GWI_HOLDERS_TOLD_MAX = 16 };
void gwi_holders_record(gwi_record *record, const gwi_doors *doors);

/* A process with memory on a card, NVML's number `card`; bytes UINT64_MAX: not known. `matched`: its pid is one of this
 * machine as we count. card GW_NO_DEVICE: it has a card's device file open. A `user` for the senses: it is a
 * gwi_record. */
void gwi_holder_record(void *user, uint32_t card, uint32_t pid, uint64_t bytes, bool matched);

/* ---- the senses (senses.c) ---- */

typedef struct gwi_senses {
    struct gw_sense *sense; /* owned; NULL: off */
    gw_path nvml;           /* the virtual cards' */
    char specification[1024], folder[PATH_MAX + 32];
    const char *environment[3];
} gwi_senses;

void gwi_senses_begin(gwi_senses *senses, gwi_record *record, const gw_run_options *options, const gwi_doors *doors,
                      pid_t command);
void gwi_senses_look(gwi_senses *senses, gwi_record *record); /* after a drain */
/* At the end, with the program's status. The senses are closed. */
void gwi_senses_last(gwi_senses *senses, gwi_record *record, int status);

/* ---- GPU core dumps (dumps.c) ---- */

typedef struct gwi_dumps {
    bool asked;
    bool is_temporary; /* they lie in the run folder, and go with it */
    gw_path pattern;   /* the driver's name for the files, with its %p, %h, %t; "": none could be given */
    uint64_t since_realtime_ns;
} gwi_dumps;

/* Set the variables of our own environment, which the program inherits, that make the driver write dumps. After
 * gwi_record_open(): the files lie beside the recording. */
void gwi_dumps_ask(gwi_dumps *dumps, const gwi_record *record, const char *run_folder);
/* After the end: what the dumps say, as facts "gpucore.file" and "gpucore.fault". */
void gwi_dumps_take(const gwi_dumps *dumps, gwi_record *record, pid_t command);
/* No dumps from here on: a call that fails then says so itself. */
void gwi_dumps_forbid(void);

/* ---- core dumps of processes (host_core.c) ---- */

/* After the end of the command, with its status: what cores of this run's processes say, as facts "host.core". */
void gwi_host_cores_take(gwi_record *record, pid_t command, int status);

/* ---- the processes (watch.c) ---- */

typedef struct gwi_watch {
    uint64_t next_at_ns; /* monotonic */
    uint64_t interval_ns;
    uint32_t unobserved[64]; /* pids said so far */
    uint32_t unobserved_count;
    struct {
        uint32_t pid;
        uint64_t since_ns; /* monotonic */
    } suspect[64];         /* use a driver behind our hook, and have made no call that it saw */
    uint32_t suspect_count;
    struct {
        uint32_t pid, looks;
    } young[64]; /* children that came since the last long look: they are looked at sooner */
    uint32_t young_count, last_pid;
    uint64_t young_at_ns; /* monotonic: when to look for such children again */
    struct {
        uint32_t pid;
        bool said;
        uint64_t since_ns; /* monotonic */
    } strange[64];         /* without our environment */
    uint32_t strange_count;
    uint32_t mapped[256]; /* pids whose libraries were written */
    uint32_t mapped_count;
    uint64_t library[1024]; /* hashes of pid and path: CUDA libraries told so far */
    uint32_t library_count;
} gwi_watch;

/* Look at the command and its children: libraries of those that are recorded, and real drivers in use that the hook
 * did not see. Does nothing before its time has come, unless `now`. */
void gwi_watch_look(gwi_watch *watch, gwi_record *record, const gwi_doors *doors, pid_t command, bool now);

/* ---- hangs (hang_run.c) ---- */

typedef struct gwi_hangs {
    /* Judge what the run folder holds. True: it is a hang, and was reported. */
    bool (*judge)(void *user, const char *run_folder);
    void *user;
    uint64_t after_ns, looked_at_ns; /* run time; after_ns 0: off */
    bool kill, told;
    uint64_t killed_at_ns; /* run time of the SIGTERM; 0: none */
    gw_hang_watch watch;
} gwi_hangs;

/* Take what the options say; `judge` and `user` are set afterwards. GW_USAGE: they make no sense, `err` says why. */
GW_MUST_CHECK gw_status gwi_hangs_begin(gwi_hangs *hangs, const gw_run_options *options, gw_error *err);
/* Look, when it is time to; to be called after a drain. */
void gwi_hangs_look(gwi_hangs *hangs, gwi_record *record, gwi_stderr *capture, const char *run_folder, pid_t child);

#endif
