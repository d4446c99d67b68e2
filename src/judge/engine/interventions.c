/* Reads the facts that the supervisor recorded about its own interventions in the run. */
#include "gwi_interventions.h"

#include "gwi_start.h"

#include "gw_array.h"
#include "gw_fact.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- attempts ---- */

/* Copy a text of a fact. An empty or missing text becomes NULL. Returns false if there is no memory. */
static bool copy(bool has, gw_fact_text text, char **ret_copy)
{
    *ret_copy = has && text.bytes > 0 ? strndup(text.data, text.bytes) : NULL;
    return !has || text.bytes == 0 || *ret_copy != NULL;
}

static bool add_attempt(const gw_pair *fact, gw_verdict *verdict)
{
    gw_fact_attempt read;
    gw_fact_attempt_read(gw_fact_text_of(fact->value), &read);
    if (!gw_array_more(&verdict->attempts, verdict->attempt_count, sizeof *verdict->attempts))
        return false;
    gw_verdict_attempt *attempt = &verdict->attempts[verdict->attempt_count++];
    *attempt = (gw_verdict_attempt){.number = read.number, .again = read.again};
    verdict->attempts_max = read.most > verdict->attempts_max ? read.most : verdict->attempts_max;
    bool good = copy(read.has_cause, read.cause, &attempt->cause);
    good = copy(read.has_headline, read.headline, &attempt->headline) && good;
    good = copy(read.has_ended, read.ended, &attempt->ended) && good;
    good = copy(read.has_recording, read.recording, &attempt->recording) && good;
    good = copy(read.has_why, read.why, &attempt->why) && good;
    good = copy(read.has_proof, read.proof, &attempt->proof) && good;
    good = copy(read.has_resumed, read.resumed, &attempt->resumed) && good;
    attempt->seconds = (double)read.took_ms / 1000;
    attempt->kept_seconds = (double)read.kept_ms / 1000;
    return copy(read.has_change, read.change, &attempt->change) && good;
}

/* ---- waits for memory ---- */

static bool add_wait(const gw_pair *fact, gw_verdict *verdict)
{
    gw_fact_memory_wait read;
    gw_text text = {0};
    char bytes[GW_BYTES_TEXT_MAX];
    gw_fact_memory_wait_read(gw_fact_text_of(fact->value), &read);
    gw_bytes_text(bytes, read.bytes);
    const double waited_s = (double)read.waited_ms / 1000;
    if (gw_fact_text_is(read.end, "unknown"))
        gw_text_addf(&text, "did not wait for %s of free memory: %.*s", bytes, (int)read.why.bytes,
                     read.why.bytes > 0 ? read.why.data : "");
    else if (gw_fact_text_is(read.end, "free"))
        gw_text_addf(&text, "waited %.1f s for %s of free memory on GPU %.*s", waited_s, bytes, (int)read.cards.bytes,
                     read.cards.bytes > 0 ? read.cards.data : "");
    else
        gw_text_addf(&text, "waited %.1f s for %s of free memory on GPU %.*s, but it did not become free (%.*s)",
                     waited_s, bytes, (int)read.cards.bytes, read.cards.bytes > 0 ? read.cards.data : "",
                     (int)read.end.bytes, read.end.bytes > 0 ? read.end.data : "");
    if (read.held.bytes > 0)
        gw_text_addf(&text, "; when the wait began, the memory was held by %.*s", (int)read.held.bytes, read.held.data);
    bool good = !text.failed && gwi_list_add(&verdict->interventions, gw_text_str(&text));
    gw_text_free(&text);
    return good;
}

/* ---- --alarm-at ---- */

static bool add_alarm(const gw_pair *fact, gw_verdict *verdict)
{
    gw_fact_memory_alarm read;
    gw_text text = {0};
    char held[GW_BYTES_TEXT_MAX], limit[GW_BYTES_TEXT_MAX], growth[GW_BYTES_TEXT_MAX];
    gw_fact_memory_alarm_read(gw_fact_text_of(fact->value), &read);
    if (read.has_held_bytes)
        gw_text_addf(&text,
                     "%.2f s  --alarm-at: the program held %s of %s on GPU %" PRIu32
                     ", which it could not give back, and "
                     "grew by %s a minute: the card would have been full %" PRIu64 " s later%s%.*s%s",
                     (double)fact->t_ns / 1e9, gw_bytes_text(held, read.held_bytes),
                     gw_bytes_text(limit, read.limit_bytes), read.device, gw_bytes_text(growth, read.bytes_per_minute),
                     read.full_s, read.lines.bytes > 0 ? "; it grew at " : "", (int)read.lines.bytes,
                     read.lines.bytes > 0 ? read.lines.data : "", read.command ? "; the command was started" : "");
    else
        gw_text_addf(&text, "--alarm-at could not judge the growth: %.*s", (int)read.why.bytes,
                     read.why.bytes > 0 ? read.why.data : "");
    bool good = !text.failed && gwi_list_add(&verdict->interventions, gw_text_str(&text));
    gw_text_free(&text);
    return good;
}

/* ---- --cure ---- */

/* Return the highest number of bytes that the judged process had allocated on one card. */
static uint64_t peak_bytes(const gwi_case *c)
{
    uint64_t peak = 0;
    for (size_t i = 0; c->process != NULL && i < GW_MODEL_DEVICES_MAX; i++)
        peak = c->process->usage[i].peak_bytes > peak ? c->process->usage[i].peak_bytes : peak;
    return peak;
}

static bool add_cure(const gwi_case *c, const gw_pair *fact, gw_verdict *verdict)
{
    gw_fact_cure read;
    gw_text text = {0};
    char before[GW_BYTES_TEXT_MAX], expected[GW_BYTES_TEXT_MAX], now[GW_BYTES_TEXT_MAX];
    gw_fact_cure_read(gw_fact_text_of(fact->value), &read);
    if (!read.has_name)
        return gwi_list_add(&verdict->interventions, "--cure: no cure is known for this failure");
    gw_text_addf(&text, "--cure: this run had %.*s=%.*s; ", (int)read.name.bytes, read.name.data, (int)read.value.bytes,
                 read.value.bytes > 0 ? read.value.data : "");
    gw_text_addf(&text, "it allocated at most %s (expected: %s; without the setting: %s) and %s",
                 gw_bytes_text(now, peak_bytes(c)), gw_bytes_text(expected, read.peak_bytes),
                 gw_bytes_text(before, read.peak_bytes_before), c->bad_end ? "failed" : "succeeded");
    bool good = !text.failed && gwi_list_add(&verdict->interventions, gw_text_str(&text));
    gw_text_free(&text);
    return good;
}

/* ---- the memory that the program needs ---- */

/* Return what the refused process would have needed on the card: its memory, the refused request and one context. It is
 * a lower bound, because the process may have gone on to allocate more. The driver itself needs a little of the card,
 * so never return all of it. */
static uint64_t needed_bytes(const gwi_case *c)
{
    const uint64_t context_bytes = (uint64_t)600 << 20;
    const gwi_memory *memory = &c->memory;
    uint64_t needed = memory->own_bytes + memory->wanted_bytes + context_bytes;
    uint64_t most = memory->total_bytes - memory->total_bytes / 32;
    if (c->oom == NULL && c->no_context == NULL)
        return 0;
    return memory->has_total && needed > most ? most : needed;
}

/* ---- what --rescue waits for or leaves out ---- */

/* Return the port that a line of evidence names: "port: 29500", "127.0.0.1:29500 (errno: 98". 0: none. */
static int port_in(const char *text)
{
    enum { DIGITS_LEAST = 4 }; /* fewer may be a time */
    const char *at = strstr(text, "port: ");
    long port = at == NULL ? 0 : strtol(at + strlen("port: "), NULL, 10);
    if (port != 0)
        return port < 65536 ? (int)port : 0;
    for (at = text; (at = strchr(at, ':')) != NULL; at++) /* the last one: others may be numbers of lines */
        if (strspn(at + 1, "0123456789") >= DIGITS_LEAST)
            port = strtol(at + 1, NULL, 10);
    return port > 0 && port < 65536 ? (int)port : 0;
}

static bool is_cause(const gw_verdict *verdict, size_t place)
{
    return gw_str_same(verdict->cause, gwi_causes[place]->id);
}

static int needed_port(const gw_verdict *verdict)
{
    int port = 0;
    for (size_t i = 0; i < verdict->evidence_count && port == 0; i++)
        port = port_in(verdict->evidence[i].text);
    return is_cause(verdict, GWI_CAUSE_PLACE_rendezvous_port_clash) ? port : 0;
}

/* Return CUDA's number of the card of the run that the system or NVML reports as lost, or -1. */
static int lost_device(const gwi_case *c)
{
    int device = -1;
    const gw_machine *machine = &c->model->machine;
    for (size_t i = 0; i < machine->event_count; i++) {
        const gw_machine_event *event = &machine->event[i];
        bool is_loss = event->kind == GW_MACHINE_CARD_LOST || event->kind == GW_MACHINE_XID;
        if (is_loss && event->is_ours && event->device != GW_NO_DEVICE)
            device = gw_machine_device_of(c->model, event->device);
    }
    return device;
}

bool gwi_fill_interventions(const gwi_case *c, gw_verdict *verdict)
{
    verdict->needed_port = needed_port(verdict);
    verdict->lost_device = lost_device(c);
    if (is_cause(verdict, GWI_CAUSE_PLACE_stub_or_wrong_libcuda) ||
        is_cause(verdict, GWI_CAUSE_PLACE_forward_compat_misuse))
        (void)gw_str_copy(gwi_versions_of(c).driver_path, &verdict->wrong_driver); /* without memory: not known */
    verdict->needed_bytes = needed_bytes(c);
    verdict->needed_device = c->memory.device;
    for (size_t i = 0; i < c->model->fact_count; i++) {
        const gw_pair *fact = &c->model->fact[i];
        bool good = true;
        if (fact->value == NULL)
            continue;
        if (fact->what == GW_FACT_ATTEMPT)
            good = add_attempt(fact, verdict);
        else if (fact->what == GW_FACT_OWN_STOP)
            good = gwi_list_add(&verdict->interventions, fact->value);
        else if (fact->what == GW_FACT_MEMORY_WAIT)
            good = add_wait(fact, verdict);
        else if (fact->what == GW_FACT_MEMORY_ALARM)
            good = add_alarm(fact, verdict);
        else if (fact->what == GW_FACT_CURE)
            good = add_cure(c, fact, verdict);
        if (!good)
            return false;
    }
    return true;
}
