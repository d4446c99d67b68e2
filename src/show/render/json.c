/* Writes a verdict as JSON, schema 1 (docs/json-schema.md). An unknown value is null, never zero or an empty string. */
#include "gw_json.h"
#include "gw_render.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct json_object *strings(const gw_string_list *list)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < list->count; i++)
        json_object_array_add(array, gw_json_string(list->item[i]));
    return array;
}

/* Return a JSON number. Whole numbers have no fraction, because most values are bytes and counts. */
static struct json_object *number(double value)
{
    if (!isfinite(value))
        return NULL; /* null, because JSON has no infinity and no NaN */
    if (value >= -9e15 && value <= 9e15 && value == (double)(int64_t)value)
        return json_object_new_int64((int64_t)value);
    return json_object_new_double(value);
}

static struct json_object *seconds(uint64_t t_ns)
{
    char shown[40];
    snprintf(shown, sizeof shown, "%.6f", (double)t_ns / 1e9);
    return json_object_new_double_s((double)t_ns / 1e9, shown);
}

static struct json_object *evidence_array(const gw_verdict *verdict)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < verdict->evidence_count; i++) {
        const gw_evidence *evidence = &verdict->evidence[i];
        struct json_object *line = json_object_new_object();
        json_object_object_add(line, "t_s", evidence->has_time ? seconds(evidence->t_ns) : NULL);
        json_object_object_add(line, "text", gw_json_string(evidence->text));
        json_object_object_add(line, "value", evidence->has_value ? number(evidence->value) : NULL);
        json_object_object_add(line, "unit", evidence->has_value ? gw_json_string(evidence->unit) : NULL);
        json_object_object_add(line, "source", gw_json_string(evidence->source));
        json_object_array_add(array, line);
    }
    return array;
}

static struct json_object *alternative_array(const gw_verdict *verdict)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < verdict->alternative_count; i++) {
        struct json_object *one = json_object_new_object();
        json_object_object_add(one, "cause", gw_json_string(verdict->alternatives[i].cause));
        json_object_object_add(one, "certainty", gw_json_string(gw_certainty_text(verdict->alternatives[i].certainty)));
        json_object_object_add(one, "told_by", gw_json_string(verdict->alternatives[i].told_by));
        json_object_array_add(array, one);
    }
    return array;
}

static struct json_object *known_array(const gw_verdict *verdict)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < verdict->known_count; i++) {
        const gw_verdict_known *known = &verdict->known[i];
        struct json_object *one = json_object_new_object();
        json_object_object_add(one, "text", gw_json_string(known->text));
        json_object_object_add(one, "cure", gw_json_string(known->cure));
        json_object_object_add(one, "source", gw_json_string(known->source));
        json_object_object_add(one, "certainty", gw_json_string(gw_certainty_text(known->certainty)));
        json_object_array_add(array, one);
    }
    return array;
}

static struct json_object *question_object(const gw_verdict_question *question)
{
    if (question == NULL)
        return NULL;
    struct json_object *one = json_object_new_object(), *meanings = json_object_new_array();
    for (size_t i = 0; i < question->meaning_count; i++) {
        const gw_verdict_meaning *from = &question->meaning[i];
        struct json_object *meaning = json_object_new_object();
        json_object_object_add(meaning, "kind", gw_json_string(from->kind));
        json_object_object_add(meaning, "code", from->has_code ? json_object_new_int(from->code) : NULL);
        json_object_object_add(meaning, "name", gw_json_string(from->name));
        json_object_object_add(meaning, "meaning", gw_json_string(from->meaning));
        json_object_object_add(meaning, "hint", gw_json_string(from->hint));
        json_object_object_add(meaning, "verified", gw_json_string(from->verified));
        json_object_object_add(meaning, "source", gw_json_string(from->source));
        json_object_array_add(meanings, meaning);
    }
    struct json_object *decide = question->command == NULL ? NULL : json_object_new_object();
    if (decide != NULL) {
        json_object_object_add(decide, "command", gw_json_string(question->command));
        json_object_object_add(decide, "tells", gw_json_string(question->tells));
    }
    json_object_object_add(one, "text", gw_json_string(question->text));
    json_object_object_add(one, "meanings", meanings);
    json_object_object_add(one, "decide", decide);
    json_object_object_add(one, "misleading", strings(&question->misleading));
    return one;
}

/* Return the number, or NULL if it is 0, which means unknown. */
static struct json_object *number_or_null(uint64_t value)
{
    return value == 0 ? NULL : number((double)value);
}

static struct json_object *rehearsal_object(const gw_verdict_rehearsal *it)
{
    struct json_object *one = json_object_new_object();
    json_object_object_add(one, "fits",
                           it->fits == GW_FITS_UNKNOWN ? NULL : json_object_new_boolean(it->fits == GW_FITS));
    json_object_object_add(one, "device", json_object_new_int(it->device));
    json_object_object_add(one, "pid", json_object_new_int64(it->pid));
    json_object_object_add(one, "cards", json_object_new_int64((int64_t)it->card_count));
    json_object_object_add(one, "limit_bytes", number((double)it->limit_bytes));
    json_object_object_add(one, "real_bytes", number((double)it->real_bytes));
    json_object_object_add(one, "peak_bytes", number((double)it->peak_bytes));
    json_object_object_add(one, "asked_bytes", number((double)it->asked_bytes));
    json_object_object_add(one, "driver_bytes", number((double)it->driver_bytes));
    json_object_object_add(one, "t_peak_s", seconds(it->t_peak_ns));
    json_object_object_add(one, "place", gw_json_string(it->place));
    json_object_object_add(one, "torch_live_bytes", number_or_null(it->torch_live_bytes));
    json_object_object_add(one, "torch_reserved_bytes", number_or_null(it->torch_reserved_bytes));
    json_object_object_add(one, "equal_iterations", number((double)it->equal_iterations));
    json_object_object_add(one, "launches_each", number((double)it->launches_each));
    json_object_object_add(one, "ended_by_gpuwhy", json_object_new_boolean(it->was_ended));
    json_object_object_add(one, "times_made_up", json_object_new_boolean(it->timed));
    json_object_object_add(one, "refused_requests", number((double)it->refusal_count));
    json_object_object_add(one, "refused", strings(&it->refused));
    json_object_object_add(one, "sizes_read", strings(&it->sizes));
    json_object_object_add(one, "values_read", strings(&it->values));
    return one;
}

static struct json_object *program_object(const gw_verdict *verdict)
{
    bool exited = verdict->exit_known && verdict->signal == 0;
    bool killed = verdict->exit_known && verdict->signal != 0;
    struct json_object *program = json_object_new_object();
    json_object_object_add(program, "argv", strings(&verdict->argv));
    json_object_object_add(program, "exit", exited ? json_object_new_int(verdict->exit_code) : NULL);
    json_object_object_add(program, "signal", killed ? json_object_new_int(verdict->signal) : NULL);
    json_object_object_add(program, "seconds", seconds((uint64_t)(verdict->seconds * 1e9)));
    return program;
}

static struct json_object *gpu_array(const gw_verdict *verdict)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < verdict->gpu_count; i++) {
        const struct gw_verdict_gpu *gpu = &verdict->gpus[i];
        struct json_object *one = json_object_new_object();
        json_object_object_add(one, "name", gw_json_string(gpu->name));
        json_object_object_add(one, "bytes_total", number_or_null(gpu->bytes_total));
        json_object_object_add(one, "bytes_limit", number_or_null(gpu->bytes_limit));
        json_object_object_add(one, "virtual", json_object_new_boolean(gpu->is_virtual));
        json_object_array_add(array, one);
    }
    return array;
}

static struct json_object *recordings(const gw_verdict *verdict)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < verdict->part_count; i++) {
        const gw_verdict_part *part = &verdict->parts[i];
        struct json_object *one = json_object_new_object();
        json_object_object_add(one, "path", gw_json_string(part->recording));
        json_object_object_add(one, "host", gw_json_string(part->host));
        json_object_object_add(one, "rank", part->has_rank ? json_object_new_int64(part->rank) : NULL);
        json_object_object_add(one, "status", gw_json_string(gw_verdict_status_text(part->status)));
        json_object_object_add(one, "cause", gw_json_string(part->cause));
        json_object_object_add(one, "headline", gw_json_string(part->headline));
        json_object_object_add(one, "after_s", part->has_offset ? number(part->offset_s) : NULL);
        json_object_object_add(one, "uncertainty_s", part->has_offset ? number(part->uncertainty_s) : NULL);
        json_object_array_add(array, one);
    }
    return array;
}

static json_object *job_object(const gw_verdict *verdict)
{
    const gw_verdict_job *job = verdict->job;
    json_object *object = json_object_new_object(), *missing = json_object_new_array();
    for (size_t i = 0; i < job->missing_count; i++)
        json_object_array_add(missing, json_object_new_int64(job->missing[i]));
    json_object_object_add(object, "recordings", json_object_new_int64((int64_t)verdict->part_count));
    json_object_object_add(object, "hosts", json_object_new_int64((int64_t)job->host_count));
    json_object_object_add(object, "cut_short", json_object_new_int64((int64_t)job->cut_count));
    json_object_object_add(object, "damaged", json_object_new_int64((int64_t)job->damaged_count));
    json_object_object_add(object, "ranks", job->world == 0 ? NULL : json_object_new_int64(job->world));
    json_object_object_add(object, "missing_ranks", missing);
    json_object_object_add(object, "unreadable", strings(&job->unread));
    return object;
}

static struct json_object *failure_object(const gw_verdict *verdict)
{
    if (!verdict->has_failure)
        return NULL;
    struct json_object *failure = json_object_new_object();
    json_object_object_add(failure, "t_s", seconds(verdict->t_failure_ns));
    json_object_object_add(failure, "phase", gw_json_string(verdict->failure_phase));
    json_object_object_add(failure, "context_lost", json_object_new_boolean(verdict->context_lost));
    return failure;
}

static struct json_object *block_array(const gw_verdict_kept *kept)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < kept->block_count; i++) {
        const gw_verdict_block *block = &kept->block[i];
        struct json_object *one = json_object_new_object();
        json_object_object_add(one, "address", json_object_new_int64((int64_t)block->address));
        json_object_object_add(one, "bytes", json_object_new_int64((int64_t)block->bytes));
        json_object_object_add(one, "t_s", block->has_time ? seconds(block->t_ns) : NULL);
        json_object_array_add(array, one);
    }
    return array;
}

static struct json_object *kept_array(const gw_verdict *verdict)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < verdict->kept_count; i++) {
        const gw_verdict_kept *kept = &verdict->kept[i];
        struct json_object *one = json_object_new_object();
        json_object_object_add(one, "phase", gw_json_string(kept->phase));
        json_object_object_add(one, "bytes", json_object_new_int64((int64_t)kept->bytes));
        json_object_object_add(one, "count", json_object_new_int64((int64_t)kept->count));
        json_object_object_add(one, "first_t_s", kept->time_known ? seconds(kept->t_first_ns) : NULL);
        json_object_object_add(one, "last_t_s", kept->time_known ? seconds(kept->t_last_ns) : NULL);
        json_object_object_add(one, "blocks", block_array(kept));
        json_object_array_add(array, one);
    }
    return array;
}

static struct json_object *frame_object(const gw_where_frame *frame)
{
    struct json_object *one = json_object_new_object();
    json_object_object_add(one, "function", gw_json_string(frame->function));
    json_object_object_add(one, "file", gw_json_string(frame->file));
    json_object_object_add(one, "line", frame->line == 0 ? NULL : json_object_new_int64(frame->line));
    json_object_object_add(one, "kind", json_object_new_string(frame->python ? "python" : "native"));
    json_object_object_add(one, "inlined", json_object_new_boolean(frame->inlined));
    json_object_object_add(one, "module", gw_json_string(frame->module));
    json_object_object_add(one, "address",
                           frame->module == NULL ? NULL : json_object_new_int64((int64_t)frame->address));
    json_object_object_add(one, "whose", gw_json_string(frame->whose));
    return one;
}

static struct json_object *where_object(const gw_where *where)
{
    if (where == NULL)
        return NULL;
    const gw_where_frame *user = &where->frame[where->user];
    struct json_object *one = json_object_new_object(), *frames = json_object_new_array();
    for (size_t i = 0; i < where->frame_count; i++)
        json_object_array_add(frames, frame_object(&where->frame[i]));
    json_object_object_add(one, "text", gw_json_string(user->text));
    json_object_object_add(one, "what", gw_json_string(where->what));
    json_object_object_add(one, "function", gw_json_string(user->function));
    json_object_object_add(one, "file", gw_json_string(user->file));
    json_object_object_add(one, "line", user->line == 0 ? NULL : json_object_new_int64(user->line));
    json_object_object_add(one, "user", json_object_new_int64((int64_t)where->user));
    json_object_object_add(one, "frames", frames);
    json_object_object_add(one, "notes", strings(&where->notes));
    return one;
}

static struct json_object *leak_array(const gw_verdict *verdict)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < verdict->leak_count; i++) {
        const gw_verdict_leak *leak = &verdict->leaks[i];
        struct json_object *one = json_object_new_object();
        json_object_object_add(one, "kind", gw_json_string(leak->kind));
        json_object_object_add(one, "call", gw_json_string(leak->call));
        json_object_object_add(one, "pid", json_object_new_int64(leak->pid));
        json_object_object_add(one, "made", json_object_new_int64((int64_t)leak->made));
        json_object_object_add(one, "left", json_object_new_int64((int64_t)leak->left));
        json_object_object_add(one, "bytes", leak->bytes == 0 ? NULL : json_object_new_int64((int64_t)leak->bytes));
        json_object_object_add(one, "first_t_s", seconds(leak->t_first_ns));
        json_object_object_add(one, "last_t_s", seconds(leak->t_last_ns));
        json_object_object_add(one, "where", where_object(leak->where));
        json_object_array_add(array, one);
    }
    return array;
}

static struct json_object *unfreed_object(const gw_verdict_unfreed *unfreed)
{
    struct json_object *root = json_object_new_object(), *turns = json_object_new_array(),
                       *places = json_object_new_array();
    for (size_t i = 0; i < unfreed->place_count; i++) {
        const gw_verdict_leak *place = &unfreed->place[i];
        struct json_object *one = json_object_new_object();
        const gw_where *where = place->where;
        json_object_object_add(one, "place", gw_json_string(where == NULL ? NULL : where->frame[where->user].text));
        json_object_object_add(one, "kind", gw_json_string(place->kind));
        json_object_object_add(one, "pid", json_object_new_int64(place->pid));
        json_object_object_add(one, "count", json_object_new_int64((int64_t)place->left));
        json_object_object_add(one, "bytes", json_object_new_int64((int64_t)place->bytes));
        json_object_array_add(places, one);
    }
    bool is_known = unfreed->unknown_because == NULL;
    for (size_t i = 0; i < unfreed->turns_count; i++) {
        struct json_object *one = json_object_new_object();
        json_object_object_add(one, "phase", gw_json_string(unfreed->turns[i].phase));
        json_object_object_add(one, "pid", json_object_new_int64(unfreed->turns[i].pid));
        json_object_object_add(one, "turns", json_object_new_int64((int64_t)unfreed->turns[i].count));
        json_object_object_add(one, "bytes", json_object_new_int64((int64_t)unfreed->turns[i].bytes));
        json_object_array_add(turns, one);
    }
    json_object_object_add(root, "bytes", is_known ? json_object_new_int64((int64_t)unfreed->bytes) : NULL);
    json_object_object_add(root, "unknown_because", gw_json_string(unfreed->unknown_because));
    json_object_object_add(root, "places", places);
    json_object_object_add(root, "growth", turns);
    return root;
}

static struct json_object *attempt_array(const gw_verdict *verdict)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < verdict->attempt_count; i++) {
        const gw_verdict_attempt *attempt = &verdict->attempts[i];
        struct json_object *one = json_object_new_object();
        json_object_object_add(one, "number", json_object_new_int64(attempt->number));
        json_object_object_add(one, "cause", gw_json_string(attempt->cause));
        json_object_object_add(one, "headline", gw_json_string(attempt->headline));
        json_object_object_add(one, "ended", gw_json_string(attempt->ended));
        json_object_object_add(one, "again", json_object_new_boolean(attempt->again));
        json_object_object_add(one, "why", gw_json_string(attempt->why));
        json_object_object_add(one, "change", gw_json_string(attempt->change));
        json_object_object_add(one, "recording", gw_json_string(attempt->recording));
        json_object_object_add(one, "proof", gw_json_string(attempt->proof));
        json_object_object_add(one, "resumed", gw_json_string(attempt->resumed));
        json_object_object_add(one, "seconds", attempt->seconds > 0 ? json_object_new_double(attempt->seconds) : NULL);
        json_object_object_add(one, "kept_seconds", json_object_new_double(attempt->kept_seconds));
        json_object_array_add(array, one);
    }
    return array;
}

static struct json_object *coverage_object(const gw_verdict *verdict)
{
    if (!verdict->is_coverage_known)
        return NULL;
    struct json_object *one = json_object_new_object();
    json_object_object_add(one, "processes", json_object_new_int64((int64_t)verdict->observed_count));
    json_object_object_add(one, "unobserved", strings(&verdict->unobserved));
    return one;
}

static struct json_object *peak_object(const gw_verdict_peak *peak)
{
    if (!peak->is_known)
        return NULL;
    struct json_object *one = json_object_new_object();
    json_object_object_add(one, "bytes", number((double)peak->bytes));
    json_object_object_add(one, "device", peak->bytes == 0 ? NULL : json_object_new_int(peak->device));
    json_object_object_add(one, "pid", number_or_null(peak->pid));
    return one;
}

gw_status gw_render_json(const gw_verdict *verdict, gw_text *text, gw_error *err)
{
    bool fault = verdict->status == GW_VERDICT_FAULT;
    struct json_object *root = json_object_new_object();
    if (root == NULL)
        return gw_fail(err, GW_NOMEM, "write the verdict as JSON");
    json_object_object_add(root, "schema", json_object_new_int(GW_JSON_SCHEMA));
    json_object_object_add(root, "status", gw_json_string(gw_verdict_status_text(verdict->status)));
    json_object_object_add(root, "cause", gw_json_string(verdict->cause));
    json_object_object_add(root, "certainty", fault ? gw_json_string(gw_certainty_text(verdict->certainty)) : NULL);
    json_object_object_add(root, "headline", gw_json_string(verdict->headline));
    json_object_object_add(root, "evidence", evidence_array(verdict));
    json_object_object_add(root, "alternatives", alternative_array(verdict));
    json_object_object_add(root, "ruled_out", strings(&verdict->ruled_out));
    json_object_object_add(root, "consequences", strings(&verdict->consequences));
    json_object_object_add(root, "next", strings(&verdict->next));
    json_object_object_add(root, "advice", strings(&verdict->advice));
    json_object_object_add(root, "known", known_array(verdict));
    json_object_object_add(root, "where", where_object(verdict->where));
    json_object_object_add(root, "where_reason", gw_json_string(verdict->where_reason));
    json_object_object_add(root, "program", program_object(verdict));
    json_object_object_add(root, "gpus", gpu_array(verdict));
    json_object_object_add(root, "coverage", coverage_object(verdict));
    json_object_object_add(root, "peak", peak_object(&verdict->peak));
    json_object_object_add(root, "failure", failure_object(verdict));
    json_object_object_add(root, "kept", kept_array(verdict));
    json_object_object_add(root, "leaks", leak_array(verdict));
    json_object_object_add(root, "unfreed", unfreed_object(&verdict->unfreed));
    json_object_object_add(root, "rehearsal", verdict->rehearsal == NULL ? NULL : rehearsal_object(verdict->rehearsal));
    json_object_object_add(root, "attempts", attempt_array(verdict));
    json_object_object_add(root, "interventions", strings(&verdict->interventions));
    json_object_object_add(root, "recording", gw_json_string(verdict->recording));
    json_object_object_add(root, "recordings", verdict->part_count > 0 ? recordings(verdict) : NULL);
    json_object_object_add(root, "job", verdict->job == NULL ? NULL : job_object(verdict));
    json_object_object_add(root, "snapshot", gw_json_string(verdict->snapshot));
    json_object_object_add(root, "log", gw_json_string(verdict->log));
    json_object_object_add(root, "question", question_object(verdict->question));
    return gw_json_write(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED, text, err);
}
