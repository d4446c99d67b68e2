/* Finds CUDA libraries on a machine: in the loader's search path, in toolkits and in packages. */
#include "gw_libs.h"
#include "gw_text.h"
#include "gwi_doctor.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* True if both paths lead to the same file. Folders such as /usr/local/cuda-12.4/lib64 and files such as libcudnn.so
 * may be links. */
static bool is_same_file(const char *root, const char *a, const char *b)
{
    struct stat x, y;
    gw_text path = {0};
    gw_text_addf(&path, "%s%s", root, a);
    bool same = stat(gw_text_str(&path), &x) == 0;
    gw_text_clear(&path);
    gw_text_addf(&path, "%s%s", root, b);
    same = same && stat(gw_text_str(&path), &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    gw_text_free(&path);
    return same;
}

long long gwi_library_count(const gw_facts *facts)
{
    long long count = gwi_number_or(facts, "libraries", 0);
    if (count < 0)
        return 0;
    if (count > GWI_LIBRARIES_MAX)
        return GWI_LIBRARIES_MAX;
    return count;
}

gw_fact_library gwi_library_fact(const gw_facts *facts, long long index)
{
    gw_fact_library fact;
    gw_fact_library_read(gw_fact_text_of(gw_facts_getf(facts, "library.%03lld", index)), &fact);
    return fact;
}

static void add_fact(gw_facts *facts, const char *root, const char *path)
{
    gw_library library;
    char key[GWI_FACT_KEY_MAX];
    gw_text line = {0};
    long long count = gwi_library_count(facts);
    if (count >= GWI_LIBRARIES_MAX || !gw_library_of_path(path, &library))
        return;
    for (long long i = 0; i < count; i++) {
        gw_fact_library known = gwi_library_fact(facts, i);
        if (known.has_path && is_same_file(root, known.path.data, path)) {
            gw_library_free(&library);
            return;
        }
    }
    gw_library_ask_package(root, &library);
    if (library.version == 0 || library.is_major_only)
        gw_library_read(root, &library);
    snprintf(key, sizeof key, "library.%03lld", count);
    if (library.path != NULL) {
        gw_library_to_line(&library, &line);
        gw_facts_set(facts, key, "%s", gw_text_str(&line));
        gw_text_free(&line);
    }
    gw_facts_set(facts, "libraries", "%lld", count + 1);
    gw_library_free(&library);
}

/* True if the name is a link to another name in the same folder. The caller skips the link, because it also finds the
 * other name. */
static bool is_other_name(const char *root, const char *folder, const char *name)
{
    char target[512];
    gw_text path = {0};
    gw_text_addf(&path, "%s%s/%s", root, folder, name);
    ssize_t bytes = readlink(gw_text_str(&path), target, sizeof target - 1);
    gw_text_free(&path);
    if (bytes <= 0)
        return false;
    target[bytes] = '\0';
    return strchr(target, '/') == NULL;
}

static void look_folder(gw_facts *facts, const char *root, const char *folder)
{
    gw_text whole = {0};
    gw_text_addf(&whole, "%s%s", root, folder);
    struct dirent **entries = NULL;
    int count = scandir(gw_text_str(&whole), &entries, NULL, alphasort);
    gw_text_free(&whole);
    for (int i = 0; i < count; i++) {
        char path[4352];
        const char *name = entries[i]->d_name;
        bool fits = gw_begins(name, "lib") && strstr(name, ".so") != NULL &&
                    snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path;
        if (fits && !is_other_name(root, folder, name))
            add_fact(facts, root, path);
        free(entries[i]);
    }
    free(entries);
}

enum { FOLDER_MAX = 4096 };
static const char *const system_folders[] = {"/usr/local/nvidia/lib64",
                                             "/usr/local/nvidia/lib",
                                             "/usr/lib/x86_64-linux-gnu",
                                             "/usr/lib/aarch64-linux-gnu",
                                             "/lib/x86_64-linux-gnu",
                                             "/usr/lib64",
                                             "/usr/lib/wsl/lib",
                                             "/run/opengl-driver/lib",
                                             "/usr/lib",
                                             "/usr/local/lib"};

/* Search /usr/local/cuda and the folders of its versions for libraries. Links between these folders are skipped. */
static void look_at_toolkits(gw_facts *facts, const char *root)
{
    gw_text folder = {0};
    gw_text_addf(&folder, "%s/usr/local", root);
    struct dirent **entries = NULL;
    int count = scandir(gw_text_str(&folder), &entries, NULL, alphasort);
    gw_text_free(&folder);
    for (int i = 0; i < count; i++) {
        static const char *const parts[] = {"lib64", "compat", "targets/x86_64-linux/lib"};
        const char *name = entries[i]->d_name;
        for (size_t k = 0; gw_begins(name, "cuda") && k < 3 && !is_other_name(root, "/usr/local", name); k++) {
            char path[512];
            snprintf(path, sizeof path, "/usr/local/%.200s/%s", name, parts[k]);
            look_folder(facts, root, path);
        }
        free(entries[i]);
    }
    free(entries);
}

/* Copy the next absolute path of LD_LIBRARY_PATH. *at is the rest of it, or NULL. Returns false if there is none. */
static bool next_folder(const char **at, char folder[FOLDER_MAX])
{
    while (*at != NULL && **at != '\0') {
        const char *from = *at;
        size_t bytes = strcspn(from, ":");
        *at += bytes + (from[bytes] == ':');
        if (bytes == 0 || from[0] != '/' || bytes >= FOLDER_MAX)
            continue;
        snprintf(folder, FOLDER_MAX, "%.*s", (int)bytes, from);
        while (bytes > 1 && folder[bytes - 1] == '/')
            folder[--bytes] = '\0';
        return true;
    }
    return false;
}

/* Find the file that libcuda.so.1 in this folder refers to, and store it as the facts "driver.library*". Returns false
 * without libcuda.so.1. */
static bool find_driver(gw_facts *facts, const char *root, const char *folder)
{
    char target[512];
    gw_text path = {0};
    gw_library library;
    gw_text_addf(&path, "%s%s/libcuda.so.1", root, folder);
    bool found = access(gw_text_str(&path), F_OK) == 0;
    ssize_t bytes = readlink(gw_text_str(&path), target, sizeof target - 1);
    gw_text_free(&path);
    if (!found)
        return false;
    target[bytes > 0 ? bytes : 0] = '\0';
    char whole[PATH_MAX]; /* the path with all links resolved; not used if `root` is not "", because links could lead
                             out of this root folder */
    gw_text_addf(&path, "%s/libcuda.so.1", folder);
    bool resolved = root[0] == '\0' && realpath(gw_text_str(&path), whole) != NULL;
    gw_text_clear(&path);
    if (resolved)
        gw_text_add_str(&path, whole);
    else
        gw_text_addf(&path, "%s/%s", folder, bytes > 0 ? gw_path_last(target) : "libcuda.so.1");
    gw_facts_set(facts, "driver.library", "%s", gw_text_str(&path));
    if (gw_library_of_path(gw_text_str(&path), &library)) {
        gw_facts_set(facts, "driver.library.place", "%s", gw_library_place_text(library.place));
        const char *version = strstr(gw_path_last(gw_text_str(&path)), ".so.");
        if (library.version != 0 && version != NULL)
            gw_facts_set(facts, "driver.library.version", "%s", version + 4);
        gw_library_free(&library);
    }
    gw_text_free(&path);
    return true;
}

/* Search for the driver's library in the loader's order: LD_LIBRARY_PATH, then the usual folders. The loader's cache
 * between them is not read. */
static void look_for_driver(gw_facts *facts, const char *root)
{
    const char *path = gw_facts_get(facts, "env.LD_LIBRARY_PATH");
    char folder[FOLDER_MAX];
    while (next_folder(&path, folder))
        if (find_driver(facts, root, folder))
            return;
    for (size_t i = 0; i < sizeof system_folders / sizeof system_folders[0]; i++) {
        if (find_driver(facts, root, system_folders[i]))
            return;
    }
}

void gwi_look_libraries(gw_facts *facts, const char *root)
{
    const char *path = gw_facts_get(facts, "env.LD_LIBRARY_PATH");
    char folder[FOLDER_MAX];
    while (next_folder(&path, folder))
        look_folder(facts, root, folder);
    for (size_t i = 0; i < sizeof system_folders / sizeof system_folders[0]; i++)
        look_folder(facts, root, system_folders[i]);
    look_at_toolkits(facts, root);
    const char *conda = gw_facts_get(facts, "env.CONDA_PREFIX");
    if (conda != NULL && conda[0] == '/' && strlen(conda) < 4000) {
        snprintf(folder, sizeof folder, "%s/lib", conda);
        look_folder(facts, root, folder);
    }
    look_for_driver(facts, root);
}

/* Store the facts in the script's output. List the CUDA libraries in each folder "python.folder.N", where packages
 * installed libraries. */
void gw_doctor_take_python(gw_facts *facts, const char *root, const char *answers)
{
    gw_facts_parse(facts, answers, "python.");
    for (int i = 0; i < 256; i++) {
        const char *folder = gw_facts_getf(facts, "python.folder.%d", i);
        if (folder == NULL)
            return;
        if (folder[0] == '/' && strlen(folder) < 4000) {
            char copy[4096];
            snprintf(copy, sizeof copy, "%s", folder);
            look_folder(facts, root, copy);
        }
    }
}
