/* `gpuwhy jupyter`: installs a Jupyter kernel that runs under `gpuwhy run`. A kernelspec is a folder with a
 * kernel.json. gpuwhy marks its own kernelspecs and never changes others. */
#include "gw_json.h"
#include "gw_place.h"
#include "gw_text.h"
#include "gwi_cmd.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_terminal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <pwd.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct gwi_kernelspec {
    const char *gpuwhy;       /* path of the gpuwhy program */
    const char *script;       /* path of gpuwhy_kernel.py */
    const char *display_name; /* NULL: the default name */
    const char *folder;       /* of --folder, for `gpuwhy run`; NULL: none */
    char *const *run_options; /* further options for `gpuwhy run` */
    int run_option_count;
} gwi_kernelspec;

/* Contents of an existing kernel.json: whether gpuwhy wrote the file, and which programs it starts. */
typedef struct gwi_kernel_found {
    bool is_ours;
    gw_path gpuwhy, python;
} gwi_kernel_found;

/* Reads and writes kernelspecs in Jupyter's format. A new kernelspec is the one that ipykernel itself would write for
 * this Python. Only the command (`gpuwhy run` in front, our script), the display name and the metadata (our mark)
 * differ. */

/* A Python program that prints one line of JSON about its interpreter: the parameter `answer` of the functions
 * below. */
static const char question[] =
    "import json, sys\n"
    "answer = {'executable': sys.executable, 'prefix': sys.prefix, 'version': list(sys.version_info[:2])}\n"
    "try:\n"
    "    from ipykernel.kernelspec import get_kernel_dict\n"
    "    answer['spec'] = get_kernel_dict()\n"
    "except ImportError as reason:\n"
    "    answer['missing'] = str(reason)\n"
    "print('\\n' + json.dumps(answer))\n";

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
    if (object != NULL && gw_json_member_text(object, "executable") != NULL &&
        gw_json_member_text(object, "prefix") != NULL)
        return object;
    json_object_put(object);
    return NULL;
}

/* Return the interpreter's sys.prefix in `out`. GW_USAGE: `answer` is not the output of `question`. */
GW_MUST_CHECK
static gw_status jupyter_prefix(const char *answer, gw_path out, gw_error *err)
{
    struct json_object *object = parse_answer(answer);
    if (object == NULL)
        return gw_fail(err, GW_USAGE, "is not Python 3");
    gw_status st = gw_path_format(out, err, "%s", gw_json_member_text(object, "prefix"));
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

/* Write a kernel.json for the interpreter that printed `answer`. GW_MISSING: it cannot import ipykernel. GW_USAGE:
 * `answer` is invalid. */
GW_MUST_CHECK
static gw_status jupyter_spec(const char *answer, const gwi_kernelspec *spec, gw_text *text, gw_error *err)
{
    gw_status st = GW_OK;
    struct json_object *kernel = NULL, *theirs = NULL, *object = parse_answer(answer);
    if (object == NULL)
        return gw_fail(err, GW_USAGE, "is not Python 3");
    const char *python = gw_json_member_text(object, "executable");
    if (!json_object_object_get_ex(object, "spec", &kernel)) {
        const char *why = gw_json_member_text(object, "missing");
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
    st = gw_json_write(json_object_get(kernel), JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED, text, err);
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

/* Read the kernel.json at `path`. GW_MISSING: the file does not exist. GW_CORRUPT: it is not a kernelspec. */
GW_MUST_CHECK
static gw_status jupyter_read(const char *path, gwi_kernel_found *ret_found, gw_error *err)
{
    *ret_found = (gwi_kernel_found){0};
    if (access(path, F_OK) < 0)
        return gw_fail(err, GW_MISSING, "%s: %s", path, strerror(errno));
    struct json_object *kernel = json_object_from_file(path), *argv = gw_json_member(kernel, "argv");
    gw_status st = GW_OK;
    if (!json_object_is_type(argv, json_type_array) || json_object_array_length(argv) == 0) {
        st = gw_fail(err, GW_CORRUPT, "%s is not a kernelspec", path);
        goto out;
    }
    ret_found->is_ours = gw_json_member(gw_json_member(kernel, "metadata"), "gpuwhy") != NULL;
    const char *gpuwhy = json_object_get_string(json_object_array_get_idx(argv, 0)), *python = word_after(argv, "--");
    st = gw_path_format(ret_found->gpuwhy, err, "%s", gpuwhy == NULL ? "" : gpuwhy);
    if (st == GW_OK)
        st = gw_path_format(ret_found->python, err, "%s", python == NULL ? "" : python);
out:
    json_object_put(kernel);
    return st;
}

#define GWI_JUPYTER_OPTIONS(X)                                                                                         \
    X(FLAG, bool, user, "--user", NULL, NULL, "install in the user's data folder (the default)")                       \
    X(FLAG, bool, sys_prefix, "--sys-prefix", NULL, NULL, "install in the environment of the Python")                  \
    X(STRING, const char *, prefix, "--prefix", "DIR", NULL, "install in DIR/share/jupyter")                           \
    X(STRING, const char *, name, "--name", "NAME", "gpuwhy-python3", "the kernel's name in Jupyter")                  \
    X(STRING, const char *, display_name, "--display-name", "TEXT", NULL, "the name that users see")                   \
    X(STRING, const char *, python, "--python", "PYTHON", "python3",                                                   \
      "the Python that runs the cells; it needs ipykernel")

GWI_OPTIONS(jupyter_options, GWI_JUPYTER_OPTIONS);

extern char **environ;

const gwi_manual gwi_manual_jupyter = {
    .usage = "gpuwhy jupyter install [options] [-- options of gpuwhy run]\n"
             "gpuwhy jupyter uninstall [options]\n"
             "gpuwhy jupyter list\n",
    .about = "Installs a notebook kernel that runs under gpuwhy and explains failed cells.",
    .words = "install|uninstall|list",
    .group = {{"install", NULL, options_table, OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "done"},
              {GW_EXIT_USAGE,
               "usage error, or the kernel cannot be installed or removed; one line on stderr gives the reason"}},
    .environment = {{"JUPYTER_DATA_DIR", "the user's data folder of Jupyter; default: $XDG_DATA_HOME/jupyter"},
                    {"XDG_DATA_HOME", "default: ~/.local/share"},
                    {"GPUWHY_DEBUG", "in the environment of the kernel, 1: print errors of gpuwhy's own code"}},
    .examples = {{"gpuwhy jupyter install -- --memory 16GiB", "install a kernel whose cells see 16 GiB"}},
    .see_also = "run"};

/* ---- facts about a Python interpreter ---- */

static gw_status read_all(int fd, gw_text *text, gw_error *err)
{
    enum { ANSWER_BYTES_MAX = 1 << 20 };
    char part[4096];
    for (;;) {
        ssize_t bytes = read(fd, part, sizeof part);
        if (bytes == 0 || text->bytes > ANSWER_BYTES_MAX)
            return GW_OK;
        if (bytes > 0)
            gw_text_add(text, part, (size_t)bytes);
        else if (errno != EINTR)
            return gw_fail(err, GW_IO, "read its answer: %s", strerror(errno));
    }
}

static gw_status ask_python(const char *python, gw_text *answer, gw_error *err)
{
    int ends[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    gw_status st = GW_OK;
    pid_t pid = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return gw_fail(err, GW_IO, "%s: %s", python, strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    char *argv[] = {(char *)python, (char[]){"-c"}, (char *)question, NULL};
    int why = posix_spawnp(&pid, python, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (why != 0) {
        st = gw_fail(err, GW_MISSING, "--python %s: %s", python, strerror(why));
        goto out;
    }
    st = read_all(ends[0], answer, err);
    int status = 0;
    if (waitpid(pid, &status, 0) == pid && st == GW_OK && status != 0)
        st = gw_fail(err, GW_USAGE, "ended with status %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    if (st != GW_OK)
        gw_wrap(err, "--python %s", python);
out:
    close(ends[0]);
    return st;
}

/* ---- data folders ---- */

static bool is_on(const char *variable)
{
    static const char *const off[] = {"", "0", "0.0", "n", "no", "off", "false"};
    const char *value = getenv(variable);
    for (size_t i = 0; value != NULL && i < sizeof off / sizeof off[0]; i++) {
        if (strcasecmp(value, off[i]) == 0)
            return false;
    }
    return value != NULL;
}

/* Find the user's data folder by Jupyter's own rules. */
static gw_status user_folder(gw_path out, gw_error *err)
{
    const char *data = getenv("JUPYTER_DATA_DIR"), *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    const char *leaf = is_on("JUPYTER_PLATFORM_DIRS") ? "Jupyter" : "jupyter";
    if (data != NULL && data[0] != '\0')
        return gw_path_format(out, err, "%s", data);
    if (xdg != NULL && xdg[0] != '\0')
        return gw_path_format(out, err, "%s/%s", xdg, leaf);
    const struct passwd *user = home == NULL || home[0] == '\0' ? getpwuid(getuid()) : NULL;
    if (user != NULL)
        home = user->pw_dir;
    if (home == NULL || home[0] == '\0')
        return gw_fail(err, GW_MISSING, "HOME is not set; use --prefix to name a folder");
    return gw_path_format(out, err, "%s/.local/share/%s", home, leaf);
}

static gw_status data_folder(const jupyter_options *options, const char *answer, gw_path out, gw_error *err)
{
    gw_path prefix;
    if (options->prefix != NULL)
        return gw_path_format(out, err, "%s/share/jupyter", options->prefix);
    if (!options->sys_prefix)
        return user_folder(out, err);
    gw_status st = jupyter_prefix(answer, prefix, err);
    if (st != GW_OK)
        gw_wrap(err, "--python %s", options->python);
    return st != GW_OK ? st : gw_path_format(out, err, "%s/share/jupyter", prefix);
}

static gw_status check_name(const char *name, gw_error *err)
{
    static const char *const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    if (name[0] == '\0' || name[strspn(name, allowed)] != '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return gw_fail(err, GW_USAGE, "--name %s: Jupyter accepts only letters, digits, '-', '.' and '_'", name);
    return GW_OK;
}

static gw_status check_options(const jupyter_options *options, gw_error *err)
{
    if ((options->prefix != NULL) + options->sys_prefix + options->user > 1)
        return gw_fail(err, GW_USAGE, "use only one of --user, --sys-prefix and --prefix");
    return check_name(options->name, err);
}

/* Create the folders with default permissions, so that other users can use a kernel that is installed for all users. */
static gw_status make_folders(const char *path, gw_error *err)
{
    gw_path part;
    gw_status st = gw_path_format(part, err, "%s", path);
    for (char *slash = st == GW_OK ? strchr(part + 1, '/') : NULL; st == GW_OK; slash = strchr(slash + 1, '/')) {
        if (slash != NULL)
            *slash = '\0';
        if (mkdir(part, 0777) < 0 && errno != EEXIST)
            return gw_fail(err, GW_IO, "make folder %s: %s", part, strerror(errno));
        if (slash == NULL)
            break;
        *slash = '/';
    }
    return st;
}

/* ---- install ---- */

static bool is_empty_or_absent(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return errno == ENOENT || errno == ENOTDIR; /* ENOTDIR: `path` is a file; a later step reports this */
    bool empty = true;
    for (struct dirent *entry; empty && (entry = readdir(folder)) != NULL;)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(folder);
    return empty;
}

/* Check that the folder is missing, empty, or has a kernelspec that gpuwhy created. Returns GW_USAGE for the files of
 * other tools. */
static gw_status check_ours(const char *folder, const char *file, const char *name, gw_error *err)
{
    gwi_kernel_found found;
    gw_status st = jupyter_read(file, &found, err);
    if (st == GW_MISSING && is_empty_or_absent(folder))
        return GW_OK;
    if (st == GW_OK && found.is_ours)
        return GW_OK;
    return gw_fail(err, GW_USAGE, "%s was not installed by gpuwhy; choose another --name than %s", folder, name);
}

static gw_status write_file(const char *path, const gw_text *text, gw_error *err)
{
    gw_path temporary;
    gw_status st = gw_path_format(temporary, err, "%s.%d", path, (int)getpid());
    FILE *file = st == GW_OK ? fopen(temporary, "we") : NULL;
    if (st == GW_OK && file == NULL)
        return gw_fail(err, GW_IO, "write %s: %s", temporary, strerror(errno));
    if (st != GW_OK)
        return st;
    bool good = fwrite(text->data, 1, text->bytes, file) == text->bytes;
    good = fclose(file) == 0 && good;
    if (good && rename(temporary, path) == 0)
        return GW_OK;
    st = gw_fail(err, GW_IO, "write %s: %s", path, strerror(errno));
    unlink(temporary);
    return st;
}

static gw_status kernel_paths(const char *data, const char *name, gw_path folder, gw_path file, gw_error *err)
{
    gw_status st = gw_path_format(folder, err, "%s/kernels/%s", data, name);
    return st != GW_OK ? st : gw_path_format(file, err, "%s/kernel.json", folder);
}

static gw_status own_program(gw_path out, gw_error *err)
{
    ssize_t bytes = readlink("/proc/self/exe", out, PATH_MAX - 1);
    if (bytes < 0)
        return gw_fail(err, GW_IO, "read /proc/self/exe: %s", strerror(errno));
    out[bytes] = '\0';
    return GW_OK;
}

static gw_status install_as(const jupyter_options *options, gwi_kernelspec *spec, const char *answer, gw_error *err)
{
    gw_text text = {0};
    gw_path data, folder, file, gpuwhy, script;
    gw_status st = own_program(gpuwhy, err);
    if (st == GW_OK)
        st = gw_library_find("python/gpuwhy_kernel.py", script, err);
    if (st == GW_OK)
        st = data_folder(options, answer, data, err);
    if (st == GW_OK)
        st = kernel_paths(data, options->name, folder, file, err);
    if (st == GW_OK)
        st = check_ours(folder, file, options->name, err);
    if (st != GW_OK)
        return st;
    spec->gpuwhy = gpuwhy;
    spec->script = script;
    st = jupyter_spec(answer, spec, &text, err);
    if (st != GW_OK)
        gw_wrap(err, "--python %s", options->python);
    if (st == GW_OK)
        st = make_folders(folder, err);
    if (st == GW_OK)
        st = write_file(file, &text, err);
    if (st == GW_OK)
        gw_print("kernel %s: %s\n", options->name, folder);
    gw_text_free(&text);
    return st;
}

static gw_status install(const jupyter_options *options, int argc, char **argv, gw_error *err)
{
    gwi_kernelspec spec = {.display_name = options->display_name,
                           .folder = gwi_common()->folder,
                           .run_options = argv,
                           .run_option_count = argc};
    gw_text answer = {0};
    gw_status st = gwi_run_options_check(argc, argv, err);
    if (st == GW_OK)
        st = ask_python(options->python, &answer, err);
    if (st == GW_OK)
        st = install_as(options, &spec, gw_text_str(&answer), err);
    gw_text_free(&answer);
    return st;
}

/* ---- uninstall, list ---- */

static gw_status find_data(const jupyter_options *options, gw_path data, gw_error *err)
{
    gw_text answer = {0};
    gw_status st = options->sys_prefix ? ask_python(options->python, &answer, err) : GW_OK;
    if (st == GW_OK)
        st = data_folder(options, gw_text_str(&answer), data, err);
    gw_text_free(&answer);
    return st;
}

static gw_status uninstall(const jupyter_options *options, gw_error *err)
{
    gw_path data, folder, file;
    gwi_kernel_found found;
    gw_status st = find_data(options, data, err);
    if (st == GW_OK)
        st = kernel_paths(data, options->name, folder, file, err);
    if (st == GW_OK)
        st = jupyter_read(file, &found, err);
    if (st == GW_OK && !found.is_ours)
        st = gw_fail(err, GW_USAGE, "%s was not installed by gpuwhy", folder);
    if (st != GW_OK)
        return st;
    if (unlink(file) < 0)
        return gw_fail(err, GW_IO, "remove %s: %s", file, strerror(errno));
    if (rmdir(folder) < 0)
        gw_print("removed %s; other files in %s were kept\n", file, folder);
    else
        gw_print("removed %s\n", folder);
    return GW_OK;
}

static void list_one(const char *kernels, const char *name)
{
    gw_path file;
    gwi_kernel_found found;
    if (gw_path_format(file, NULL, "%s/%s/kernel.json", kernels, name) != GW_OK ||
        jupyter_read(file, &found, NULL) != GW_OK || !found.is_ours)
        return;
    bool has_gpuwhy = access(found.gpuwhy, X_OK) == 0, has_python = access(found.python, X_OK) == 0;
    gw_print("%-20s %s  %s%s%s\n", name, found.python, kernels, has_python ? "" : "  (that Python no longer exists)",
             has_gpuwhy ? "" : "  (its gpuwhy no longer exists; install the kernel again)");
}

static void list_folder(const char *data)
{
    gw_path kernels;
    if (gw_path_format(kernels, NULL, "%s/kernels", data) != GW_OK)
        return;
    struct dirent **entry = NULL;
    int count = scandir(kernels, &entry, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (entry[i]->d_name[0] != '.')
            list_one(kernels, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
}

/* List the kernels in the folder of --prefix or --sys-prefix. By default, search all folders that can be found without
 * Python: those of the user, the active environments and the system. */
static gw_status list(const jupyter_options *options, gw_error *err)
{
    gw_path data;
    if (options->prefix != NULL || options->sys_prefix) {
        gw_status st = find_data(options, data, err);
        if (st == GW_OK)
            list_folder(data);
        return st;
    }
    if (user_folder(data, err) == GW_OK)
        list_folder(data);
    const char *const prefixes[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"), "/usr/local", "/usr"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        bool twice = i == 1 && prefixes[0] != NULL && prefixes[1] != NULL && strcmp(prefixes[0], prefixes[1]) == 0;
        if (prefixes[i] != NULL && !twice && gw_path_format(data, err, "%s/share/jupyter", prefixes[i]) == GW_OK)
            list_folder(data);
    }
    return GW_OK;
}

static gw_status run(const char *what, const jupyter_options *options, int argc, char **argv, gw_error *err)
{
    gw_status st = check_options(options, err);
    if (st != GW_OK)
        return st;
    if (strcmp(what, "install") == 0)
        return install(options, argc, argv, err);
    if (argc > 0)
        return gw_fail(err, GW_USAGE, "%s takes no arguments: %s", what, argv[0]);
    if (strcmp(what, "uninstall") == 0)
        return uninstall(options, err);
    if (strcmp(what, "list") == 0)
        return list(options, err);
    return gw_fail(err, GW_USAGE, "unknown command %s; use install, uninstall or list", what);
}

int gwi_cmd_jupyter(int argc, char **argv)
{
    jupyter_options options = {0};
    gw_error err = {0};
    int index = 0, first = 1;
    gw_status st = gwi_options_parse_common(argc, argv, &first, &err);
    argc -= first - 1;
    argv += first - 1;
    if (st == GW_OK && (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        (void)gwi_manual_print(&gwi_manual_jupyter);
        return argc < 2 ? GW_EXIT_USAGE : GW_EXIT_OK;
    }
    if (st == GW_OK)
        st = gwi_options_parse(options_table, OPTION_COUNT, &options, argc - 1, argv + 1, &index, &err);
    if (st == GW_OK && options.help)
        return gwi_manual_print(&gwi_manual_jupyter);
    bool is_separated =
        st == GW_OK &&
        strcmp(argv[index], "--") == 0; /* `index` counts from argv + 1, so this is the last word that was parsed */
    if (st == GW_OK && index < argc - 1 && !is_separated)
        st = gw_fail(&err, GW_USAGE, "%s: write options of gpuwhy run after `--`", argv[1 + index]);
    if (st == GW_OK)
        st = run(argv[1], &options, argc - 1 - index, argv + 1 + index, &err);
    if (st == GW_OK)
        return GW_EXIT_OK;
    return gwi_refuse("jupyter", &err);
}
