/* chroot() for programs that are started with our preloaded libraries.
 *
 * A program such as chroot(8) changes its root folder and then executes another program. Our libraries are usually not
 * in the new root, and the loader would print an error for each one. So they are removed from LD_PRELOAD and
 * LD_LIBRARY_PATH if their folder does not exist there. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Before glibc 2.34 dladdr() is in libdl. Without it, nothing is removed from the environment. */
#pragma weak dladdr

enum { FOLDER_BYTES = 4096 };

static const char a_place_here; /* any address in this library, for dladdr() */

/* Store the path of the folder that contains this library, with a slash at its end. Returns false if the folder is
 * unknown. */
static bool own_folder(char *folder)
{
    Dl_info info;
    const char *slash;
    if (dladdr == NULL || dladdr(&a_place_here, &info) == 0 || info.dli_fname == NULL ||
        (slash = strrchr(info.dli_fname, '/')) == NULL || slash - info.dli_fname + 2 > FOLDER_BYTES)
        return false;
    size_t bytes = (size_t)(slash - info.dli_fname) + 1;
    memcpy(folder, info.dli_fname, bytes);
    folder[bytes] = '\0';
    return true;
}

/* True if the path `element` is `folder` itself, with or without the slash at its end, or is inside `folder`. */
static bool is_in(const char *element, size_t bytes, const char *folder)
{
    size_t length = strlen(folder);
    return bytes + 1 >= length && strncmp(element, folder, length - 1) == 0 &&
           (bytes + 1 == length || element[length - 1] == '/');
}

static void remove_from(const char *variable, const char *separators, const char *folder)
{
    const char *old = getenv(variable);
    char *kept = old == NULL ? NULL : malloc(strlen(old) + 1);
    size_t used = 0;
    if (kept == NULL)
        return;
    for (const char *at = old; *at != '\0';) {
        size_t bytes = strcspn(at, separators);
        if (!is_in(at, bytes, folder)) {
            if (used > 0)
                kept[used++] = ':';
            memcpy(kept + used, at, bytes);
            used += bytes;
        }
        at += bytes;
        at += *at != '\0';
    }
    kept[used] = '\0';
    if (used == 0)
        unsetenv(variable);
    else if (strcmp(kept, old) != 0)
        setenv(variable, kept, 1);
    free(kept);
}

__attribute__((visibility("default"))) int chroot(const char *path)
{
    char folder[FOLDER_BYTES];
    bool is_known = own_folder(folder);
    int result = (int)syscall(SYS_chroot, path);
    int reason = errno;
    if (result == 0 && is_known && access(folder, F_OK) != 0) {
        remove_from("LD_PRELOAD", ": ", folder);
        remove_from("LD_LIBRARY_PATH", ":;", folder);
    }
    errno = reason;
    return result;
}
