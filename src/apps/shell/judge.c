/* Judges a recording by its path, and prints the verdict to a terminal or a file. */
#include "gwi_judge.h"
#include "gwi_progress.h"
#include "gwi_terminal.h"

#include "gw_model.h"
#include "gw_render.h"
#include "gw_say.h"
#include "gw_sites.h"
#include "gw_torch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

gw_status gwi_judge_phase(const char *path, const char *name, const gw_text *traceback, gw_verdict **ret_verdict,
                          gw_error *err)
{
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    gw_status st = gw_reader_open(path, &reader, err);
    if (st == GW_OK)
        st = gw_model_build_phase(reader, name, gw_text_str(traceback), traceback->bytes, &model, err);
    if (st == GW_OK)
        st = gw_judge(model, ret_verdict, err);
    gw_model_free(model);
    gw_reader_close(reader);
    return st;
}

/* `progress` may be NULL. */
static gw_status judge(const char *path, bool is_quick, gwi_progress *progress, gw_model **ret_model,
                       gw_verdict **ret_verdict, gw_error *err)
{
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    gw_status st;
    if (gw_torch_is_snapshot(path)) {
        st = gw_torch_snapshot_model(path, &model, err);
    } else {
        st = gw_reader_open(path, &reader, err);
        if (st == GW_OK) {
            gwi_progress_watch(progress, reader);
            st = gw_model_build(reader, &model, err);
        }
    }
    gwi_progress_part(progress, "naming call sites");
    if (st == GW_OK && !is_quick) /* if naming the sites fails, frames are printed as file and address */
        (void)!gw_model_name_sites(model, GW_NAMES_SOFT_MS, GW_NAMES_HARD_MS, NULL);
    gwi_progress_part(progress, "judging");
    if (st == GW_OK)
        st = gw_judge(model, ret_verdict, err);
    if (st == GW_OK) {
        *ret_model = model;
        model = NULL;
    }
    gw_model_free(model);
    gw_reader_close(reader);
    return st;
}

gw_status gwi_judge(const char *path, gw_verdict **ret_verdict, gw_error *err)
{
    gw_model *model = NULL;
    gw_status st = judge(path, false, NULL, &model, ret_verdict, err);
    gw_model_free(model);
    return st;
}

gw_status gwi_judge_quickly(const char *path, gw_verdict **ret_verdict, gw_error *err)
{
    gw_model *model = NULL;
    gw_status st = judge(path, true, NULL, &model, ret_verdict, err);
    gw_model_free(model);
    return st;
}

gw_status gwi_judge_model(const char *path, gw_model **ret_model, gw_verdict **ret_verdict, gw_error *err)
{
    gwi_progress *progress = gwi_progress_begin("reading the recording");
    gw_status st = judge(path, false, progress, ret_model, ret_verdict, err);
    gwi_progress_end(progress);
    return st;
}

gw_status gwi_judge_shown(const char *path, gw_verdict **ret_verdict, gw_error *err)
{
    gw_model *model = NULL;
    gw_status st = gwi_judge_model(path, &model, ret_verdict, err);
    gw_model_free(model);
    return st;
}

/* Write to stderr. A closed output is no reason to fail. */
static void write_whole(int fd, const gw_text *text)
{
    for (size_t at = 0; at < text->bytes;) {
        ssize_t written = write(fd, text->data + at, text->bytes - at);
        if (written < 0 && errno != EINTR)
            return;
        at += written > 0 ? (size_t)written : 0;
    }
}

static gw_render_style style_of(int fd)
{
    return (gw_render_style){.width = gwi_terminal_width(fd), .colour = gwi_has_colour(fd)};
}

void gwi_verdict_print(const gw_verdict *verdict, const gwi_print *how, int fd)
{
    gw_text text = {0};
    gw_render_style style = style_of(fd);
    style.running = how->running;
    style.all = how->all;
    style.again = how->again;
    if (gwi_is_terminal(fd))
        gw_text_add(&text, "\n", 1); /* separate the verdict from the program's own output */
    gw_render_text(verdict, &style, &text);
    if (fd == STDOUT_FILENO) /* main() reports it if this cannot be written */
        gw_put(gw_text_str(&text));
    else
        write_whole(fd, &text);
    gw_text_free(&text);
}

void gwi_rehearsal_print(const gw_verdict *verdict, int fd)
{
    gw_text text = {0};
    gw_render_style style = style_of(fd);
    gw_render_rehearsal(verdict, &style, &text);
    write_whole(fd, &text);
    gw_text_free(&text);
}

void gwi_verdict_print_now(gw_verdict *verdict, const char *recording)
{
    free(verdict->recording);
    verdict->recording = recording == NULL ? NULL : strdup(recording);
    gwi_verdict_print(verdict, &(gwi_print){.running = true, .all = verdict->recording == NULL}, STDERR_FILENO);
}

gw_status gwi_verdict_write_json(const gw_verdict *verdict, const gwi_output *output, gw_error *err)
{
    gw_text text = {0};
    gw_status st = gw_render_json(verdict, &text, err);
    if (st == GW_OK && output != NULL)
        st = gwi_output_write(output, &text, 0, err);
    else if (st == GW_OK)
        gw_put(gw_text_str(&text));
    gw_text_free(&text);
    return st;
}
