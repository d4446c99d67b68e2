/* `gpuwhy run --rescue`: what to change so that the next attempt gets through.
 *
 * causes.def says for each cause which acts (gw_act) can help. gwi_rescue_settings() takes those that change no number
 * of the training, gwi_rescue_do_without() and gwi_numbers_change() (gwi_rehearsals.h) the others, which need the
 * user's placeholders (gwi_places.h). gwi_rescue_resume() lets a program go on whose memory grows. attempts.c decides
 * and records. One thread. */
#ifndef GWI_RESCUE_H
#define GWI_RESCUE_H

#include "gw_place.h"
#include "gw_supervisor.h"
#include "gwi_places.h"

typedef struct gwi_rescue {
    const gw_run_options *options; /* borrowed */
    bool is_on;
    bool may_leak;     /* --rescue=leak */
    bool may_write;    /* --rescue=rehearse: what rehearsals write may stay, if it cannot be set aside */
    uint32_t attempts; /* after the first one, at most */
    gwi_places places;
    double attempt_seconds;      /* how long the attempt that has ended ran */
    uint64_t job_ns, attempt_ns; /* realtime at which the job and the present attempt began */
    uint64_t rehearsed;          /* the batch or size that a rehearsal showed to fit for this attempt; 0: none */
    uint64_t rehearsed_next;     /* the next larger one, which a rehearsal showed not to fit; 0: none */
    bool has_checkpoint;         /* the program has written one, in this attempt or before */
    gw_path checkpoint;          /* from which the next attempt goes on; "": from the beginning */
    double kept_seconds;         /* the part of this attempt before that checkpoint */
} gwi_rescue;

/* What is changed for the next attempt. Texts are owned by the caller. */
typedef struct gwi_rescued {
    gw_text change, proof;
    const char *why_not; /* static; why nothing is changed, as the end of a sentence; NULL: not known */
} gwi_rescued;

/* Read the options and the placeholders of `program`, and set `ret_command` to the command of the first attempt.
 * GW_USAGE: `err` names the option and the reason. GW_NOMEM. Free the rescue in every case. */
GW_MUST_CHECK gw_status gwi_rescue_begin(gwi_rescue *rescue, const gw_run_options *options, char *const *program,
                                         gwi_command *ret_command, gw_error *err);
void gwi_rescue_free(gwi_rescue *rescue);

/* Change the environment so that this cause does not come back: a setting that switches a known problem off, growth
 * instead of preallocation, or a library path. Returns true if something was changed. */
bool gwi_rescue_settings(const gw_verdict *verdict, gwi_rescued *rescued);
/* Go on without the lost card, or with fewer workers, as far as placeholders allow. Returns true if something was
 * changed. */
bool gwi_rescue_do_without(gwi_rescue *rescue, const gw_verdict *verdict, gwi_rescued *rescued);
/* True if a program whose memory grows may go on from its new checkpoint (--rescue=leak). */
bool gwi_rescue_resume(const gwi_rescue *rescue, const gw_verdict *verdict, gwi_rescued *rescued);
/* Find the checkpoint from which the next attempt goes on. Call it once when an attempt has ended. */
void gwi_rescue_look(gwi_rescue *rescue);
/* Make the command of the next attempt: with the values in use, and with the words of --resume-with. */
bool gwi_rescue_command(const gwi_rescue *rescue, gwi_command *ret_command);
/* The next attempt begins. */
void gwi_rescue_next(gwi_rescue *rescue);

#endif
