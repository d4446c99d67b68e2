/* Reads and writes kernelspecs in Jupyter's format. A new kernelspec is the one that ipykernel itself would write for
 * this Python. Only the command (`gpuwhy run` in front, our script), the display name and the metadata (our mark)
 * differ. */
#include "gwi_jupyter.h"

#include <json-c/json.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const gwi_jupyter_question =
    "import json, sys\n"
    "answer = {'executable': sys.executable, 'prefix': sys.prefix, 'version': list(sys.version_info[:2])}\n"
    "try:\n"
    "    from ipykernel.kernelspec import get_kernel_dict\n"
    "    answer['spec'] = get_kernel_dict()\n"
    "except ImportError as reason:\n"
    "    answer['missing'] = str(reason)\n"
    "print('\\n' + json.dumps(answer))\n";

static const char *string_of(struct json_object *object, const char *key)
{
    struct json_object *value = NULL;
    if (!json_object_object_get_ex(object, key, &value) || !json_object_is_type(value, json_type_string))
        return NULL;
    return json_object_get_string(value);
}

/* Parse the last line of `answer`, the output of a Python script that may print more. Returns NULL if the last line is
 * not the expected JSON. */
static struct json_object *parse_answer(const char *answer)
{
    size_t end = strlen(answer);
    while (end > 0 && (answer[end - 1] == '\n' || answer[end - 1] == '\r'))
        end--;
    size_t begin = end;
    while (begin > 0 && answer[begin - 1] != '\n')
        begin--;
    gw_text line = {0};
    gw_text_add(&line, answer + begin, end - begin);
    struct json_object *object = json_tokener_parse(gw_text_str(&line));
    gw_text_free(&line);
    if (object != NULL && string_of(object, "executable") != NULL && string_of(object, "prefix") != NULL)
        return object;
    json_object_put(object);
    return NULL;
}

gw_status gwi_jupyter_prefix(const char *answer, gw_path out, gw_error *err)
{
    struct json_object *object = parse_answer(answer);
    if (object == NULL)
        return gw_fail(err, GW_USAGE, "is not Python 3");
    gw_status st = gw_path_format(out, err, "%s", string_of(object, "prefix"));
    json_object_put(object);
    return st;
}

static void add_string(struct json_object *array, const char *string)
{
    json_object_array_add(array, json_object_new_string(string));
}

/* Return `theirs` with `gpuwhy run` in front, and with our script instead of `-m ipykernel_launcher`. `theirs` is
 * ipykernel's own command, `python [arguments] -m ipykernel_launcher -f {connection_file} [arguments]`. */
static struct json_object *command_of(const char *python, struct json_object *theirs, const gwi_kernelspec *spec)
{
    struct json_object *argv = json_object_new_array();
    static const char *const run[] = {"run", "--quiet", "--end-with-parent"};
    add_string(argv, spec->gpuwhy);
    for (size_t i = 0; i < sizeof run / sizeof run[0]; i++)
        add_string(argv, run[i]);
    if (spec->folder != NULL) {
        add_string(argv, "--folder");
        add_string(argv, spec->folder);
    }
    for (int i = 0; i < spec->run_option_count; i++)
        add_string(argv, spec->run_options[i]);
    add_string(argv, "--");
    add_string(argv, python);
    size_t count = json_object_array_length(theirs), at = 1;
    const char *word = NULL;
    for (; at < count; at++) {
        word = json_object_get_string(json_object_array_get_idx(theirs, at));
        if (word == NULL || strcmp(word, "-m") == 0)
            break;
        add_string(argv, word);
    }
    add_string(argv, spec->script);
    add_string(argv, spec->gpuwhy);
    for (at += 2; at < count; at++) {
        word = json_object_get_string(json_object_array_get_idx(theirs, at));
        add_string(argv, word == NULL ? "" : word);
    }
    return argv;
}

static void name_kernel(struct json_object *kernel, struct json_object *answer, const gwi_kernelspec *spec)
{
    char standard[64];
    struct json_object *version = NULL, *metadata = NULL;
    json_object_object_get_ex(answer, "version", &version);
    if (spec->display_name == NULL && json_object_is_type(version, json_type_array) &&
        json_object_array_length(version) >= 2)
        snprintf(standard, sizeof standard, "Python %d.%d (gpuwhy)",
                 json_object_get_int(json_object_array_get_idx(version, 0)),
                 json_object_get_int(json_object_array_get_idx(version, 1)));
    else
        snprintf(standard, sizeof standard, "Python (gpuwhy)");
    json_object_object_add(kernel, "display_name",
                           json_object_new_string(spec->display_name != NULL ? spec->display_name : standard));
    if (!json_object_object_get_ex(kernel, "metadata", &metadata) || !json_object_is_type(metadata, json_type_object)) {
        metadata = json_object_new_object();
        json_object_object_add(kernel, "metadata", metadata);
    }
    struct json_object *ours = json_object_new_object(); /* uninstall removes only folders with this mark */
    json_object_object_add(ours, "version", json_object_new_string(GW_PROGRAM_VERSION));
    json_object_object_add(metadata, "gpuwhy", ours);
}

gw_status gwi_jupyter_spec(const char *answer, const gwi_kernelspec *spec, gw_text *text, gw_error *err)
{
    gw_status st = GW_OK;
    struct json_object *kernel = NULL, *theirs = NULL, *object = parse_answer(answer);
    if (object == NULL)
        return gw_fail(err, GW_USAGE, "is not Python 3");
    const char *python = string_of(object, "executable");
    if (!json_object_object_get_ex(object, "spec", &kernel)) {
        const char *why = string_of(object, "missing");
        st = gw_fail(err, GW_MISSING, "cannot import ipykernel (%s); %s -m pip install ipykernel", why ? why : "?",
                     python);
        goto out;
    }
    if (!json_object_object_get_ex(kernel, "argv", &theirs) || !json_object_is_type(theirs, json_type_array)) {
        st = gw_fail(err, GW_USAGE, "its ipykernel has no command that starts a kernel");
        goto out;
    }
    json_object_object_add(kernel, "argv", command_of(python, theirs, spec));
    name_kernel(kernel, object, spec);
    const char *shown = json_object_to_json_string_ext(kernel, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                                   JSON_C_TO_STRING_NOSLASHESCAPE);
    gw_text_addf(text, "%s\n", shown == NULL ? "" : shown);
    if (shown == NULL || text->failed)
        st = gw_fail(err, GW_NOMEM, "write a kernelspec");
out:
    json_object_put(object);
    return st;
}

/* ---- existing kernels ---- */

/* Return the word of argv that follows `before`, or NULL if there is none. */
static const char *word_after(struct json_object *argv, const char *before)
{
    size_t count = json_object_array_length(argv);
    for (size_t i = 0; i + 1 < count; i++) {
        const char *word = json_object_get_string(json_object_array_get_idx(argv, i));
        if (word != NULL && strcmp(word, before) == 0)
            return json_object_get_string(json_object_array_get_idx(argv, i + 1));
    }
    return NULL;
}

gw_status gwi_jupyter_read(const char *path, gwi_kernel_found *ret_found, gw_error *err)
{
    *ret_found = (gwi_kernel_found){0};
    if (access(path, F_OK) < 0)
        return gw_fail(err, GW_MISSING, "%s: %s", path, strerror(errno));
    struct json_object *kernel = json_object_from_file(path), *argv = NULL, *metadata = NULL, *ours = NULL;
    gw_status st = GW_OK;
    if (!json_object_is_type(kernel, json_type_object) || !json_object_object_get_ex(kernel, "argv", &argv) ||
        !json_object_is_type(argv, json_type_array) || json_object_array_length(argv) == 0) {
        st = gw_fail(err, GW_CORRUPT, "%s is not a kernelspec", path);
        goto out;
    }
    ret_found->is_ours = json_object_object_get_ex(kernel, "metadata", &metadata) &&
                         json_object_is_type(metadata, json_type_object) &&
                         json_object_object_get_ex(metadata, "gpuwhy", &ours);
    const char *gpuwhy = json_object_get_string(json_object_array_get_idx(argv, 0)), *python = word_after(argv, "--");
    st = gw_path_format(ret_found->gpuwhy, err, "%s", gpuwhy == NULL ? "" : gpuwhy);
    if (st == GW_OK)
        st = gw_path_format(ret_found->python, err, "%s", python == NULL ? "" : python);
out:
    json_object_put(kernel);
    return st;
}
