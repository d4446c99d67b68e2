/* Check the driver: the versions of its kernel module and of its library, the device files, and the support for the
 * installed CUDA runtimes. */
#include "gw_data.h"
#include "gw_libs.h"
#include "gwi_doctor.h"

#include <stdio.h>
#include <string.h>

static const char section[] = "driver";

static void check_module(const gw_facts *facts, gw_checkup *checkup)
{
    const char *module = gw_facts_get(facts, "driver.module");
    long long cards = gwi_card_count(facts);
    bool wsl = gwi_has_device(facts, "dxg");
    if (module != NULL)
        gwi_check(checkup, section, "driver-module", GW_CHECK_PASS, NULL, "kernel driver %s%s%s%s", module,
                  gw_facts_get(facts, "driver.module.kind") != NULL ? " (" : "",
                  gw_facts_get(facts, "driver.module.kind") != NULL ? gw_facts_get(facts, "driver.module.kind") : "",
                  gw_facts_get(facts, "driver.module.kind") != NULL ? ")" : "");
    else if (gw_facts_get(facts, "nvml.driver") != NULL)
        gwi_check(checkup, section, "driver-module", GW_CHECK_PASS, NULL,
                  "driver %s works, but its kernel driver is not visible from here",
                  gw_facts_get(facts, "nvml.driver"));
    else if (wsl)
        gwi_check(checkup, section, "driver-module", GW_CHECK_PASS, NULL,
                  "the driver is that of the Windows host (/dev/dxg)");
    else if (cards == 0)
        gwi_check(checkup, section, "no-device-visible", GW_CHECK_FAIL,
                  "This machine cannot run CUDA programs. gpuwhy run --gpu virtual:h200 runs driver-API programs "
                  "without a card",
                  "no NVIDIA card on the bus, and no kernel driver loaded");
    else if (cards > 0)
        gwi_check(checkup, section, "driver-module", GW_CHECK_FAIL,
                  "Load it (modprobe nvidia), or install the driver for this Linux kernel. Secure boot rejects "
                  "unsigned modules",
                  "%lld card%s on the bus, but the kernel driver is not loaded", cards, cards == 1 ? "" : "s");
    else
        gwi_check(checkup, section, "driver-module", GW_CHECK_UNKNOWN, NULL,
                  "neither /sys nor /proc shows whether a kernel driver is loaded");
}

static void check_match(const gw_facts *facts, gw_checkup *checkup)
{
    const char *module = gw_facts_get(facts, "driver.module"), *library = gw_facts_get(facts, "driver.library.version"),
               *path = gw_facts_get(facts, "driver.library"), *place = gw_facts_get(facts, "driver.library.place");
    if (path == NULL) {
        if (module != NULL)
            gwi_check(checkup, section, "library-not-found", GW_CHECK_FAIL,
                      gw_facts_get(facts, "container") != NULL
                          ? "Start the container with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
                          : "Install the driver libraries with the version of the kernel driver",
                      "the loader finds no libcuda.so.1");
        return;
    }
    if (gwi_is(place, "stubs")) {
        gwi_check(checkup, section, "stub-or-wrong-libcuda", GW_CHECK_FAIL,
                  "Remove the stubs folder from LD_LIBRARY_PATH",
                  "the loader selects %s, which is a stub: cuInit returns 34", path);
        return;
    }
    if (gwi_is(place, "compat"))
        return; /* a forward compatibility package, which check_compat() reports */
    if (module == NULL || library == NULL)
        gwi_check(checkup, section, "driver-library-mismatch", GW_CHECK_UNKNOWN, NULL,
                  "driver library %s: unknown whether it matches the kernel driver", path);
    else if (strcmp(module, library) != 0)
        gwi_check(checkup, section, "driver-library-mismatch", GW_CHECK_FAIL,
                  gw_facts_get(facts, "container") != NULL
                      ? "Remove libcuda.so from the image: the container runtime adds the one of the host"
                      : "Reboot, or unload and load the nvidia modules: the driver was updated while they were loaded",
                  "the kernel driver is %s, but the library is %s: cuInit returns 803", module, path);
    else
        gwi_check(checkup, section, "driver-library-mismatch", GW_CHECK_PASS, NULL,
                  "library %s matches the kernel driver", path);
}

/* Check a forward compatibility package that the loader finds before the driver's own library. */
static void check_compat(const gw_facts *facts, gw_checkup *checkup)
{
    const char *path = gw_facts_get(facts, "driver.library"), *name = gwi_card(facts, 0, "name"),
               *module = gw_facts_get(facts, "driver.module"), *version = gw_facts_get(facts, "driver.library.version");
    if (!gwi_is(gw_facts_get(facts, "driver.library.place"), "compat"))
        return;
    bool consumer = name != NULL && (strstr(name, "GeForce") != NULL || strstr(name, "TITAN") != NULL);
    if (consumer)
        gwi_check(checkup, section, "forward-compat-misuse", GW_CHECK_FAIL,
                  "Remove the compat folder from LD_LIBRARY_PATH and ld.so.conf, and update the driver instead",
                  "the loader selects %s, but forward compatibility does not support %s (cuInit returns 804)", path,
                  name);
    else if (module != NULL && version != NULL && gwi_version(version) < gwi_version(module))
        gwi_check(checkup, section, "forward-compat-misuse", GW_CHECK_FAIL,
                  "Remove the older compat folder from LD_LIBRARY_PATH",
                  "the loader selects %s, which is older than the kernel driver %s", path, module);
    else
        gwi_check(checkup, section, "forward-compat-misuse", name == NULL ? GW_CHECK_UNKNOWN : GW_CHECK_PASS, NULL,
                  "forward compatibility is in use: %s", path);
}

/* Check that the PTX compiler is present, and that NVML has the version of the kernel driver. */
static void check_companions(const gw_facts *facts, gw_checkup *checkup)
{
    const char *version = gw_facts_get(facts, "driver.library.version");
    long long count = gwi_library_count(facts);
    bool compiler = false;
    for (long long i = 0; i < count; i++) {
        gw_library library;
        const char *line = gw_facts_getf(facts, "library.%03lld", i);
        if (line == NULL || !gw_library_from_line(line, &library))
            continue;
        compiler = compiler || library.kind == GW_LIBRARY_PTX_COMPILER;
        if (library.kind == GW_LIBRARY_NVML && library.place == GW_PLACE_SYSTEM && library.version != 0 &&
            version != NULL && gw_facts_get(facts, "driver.module") != NULL &&
            library.version != gwi_version(gw_facts_get(facts, "driver.module")))
            gwi_check(checkup, section, "driver-library-mismatch", GW_CHECK_WARN,
                      "Remove the leftover library of another driver",
                      "%s does not have the version of the kernel driver", library.path);
        gw_library_free(&library);
    }
    if (gw_facts_get(facts, "driver.library") != NULL && !compiler && !gwi_has_device(facts, "dxg"))
        gwi_check(checkup, section, "jit-library-missing", GW_CHECK_WARN,
                  "In a container, set NVIDIA_DRIVER_CAPABILITIES=compute,utility; otherwise install the complete "
                  "driver package",
                  "libnvidia-ptxjitcompiler is missing: programs that contain only PTX will fail (221)");
}

static void check_device_files(const gw_facts *facts, gw_checkup *checkup)
{
    const char *files = gw_facts_get(facts, "device.files");
    long long cards = gwi_card_count(facts);
    if (gwi_has_device(facts, "dxg") ||
        (gw_facts_get(facts, "driver.module") == NULL && gw_facts_get(facts, "nvml.driver") != NULL))
        return;
    if (files == NULL || (gw_facts_get(facts, "driver.module") == NULL && cards <= 0))
        return;
    long long found = 0;
    for (const char *at = files; (at = strstr(at, "nvidia")) != NULL; at += 6)
        found += at[6] >= '0' && at[6] <= '9';
    const char *refused = gw_facts_get(facts, "device.refused");
    const char *container = gw_facts_get(facts, "container");
    if (found == 0 || !gwi_has_device(facts, "nvidiactl"))
        gwi_check(checkup, section, "no-device-visible", GW_CHECK_FAIL,
                  container != NULL ? "Start the container with --gpus all (or the device plugin)"
                                    : "Create the device files: nvidia-modprobe -c 0 -u",
                  "device files are missing (/dev: %s): cuInit returns 100",
                  files[0] != '\0' ? files : "no nvidia files");
    else if (!gwi_has_device(facts, "nvidia-uvm"))
        gwi_check(checkup, section, "driver-state-lost", container != NULL ? GW_CHECK_FAIL : GW_CHECK_WARN,
                  container != NULL
                      ? "Add /dev/nvidia-uvm to the container"
                      : "Run nvidia-modprobe -u -c 0. The first CUDA program that root runs would also create it",
                  "/dev/nvidia-uvm is missing: without it cuInit returns 999");
    else if (refused != NULL)
        gwi_check(checkup, section, "no-device-visible", GW_CHECK_FAIL,
                  "Join the group that owns it (ls -l /dev/nvidia*)", "this user may not open /dev/%s", refused);
    else
        gwi_check(checkup, section, "device-files", GW_CHECK_PASS, NULL, "device files of %lld card%s found", found,
                  found == 1 ? "" : "s");
}

/* ---- the driver against the runtimes ---- */

static void check_runtime(const gw_facts *facts, gw_checkup *checkup, gw_version driver, const char *driver_text,
                          const char *what, gw_version cuda)
{
    const gw_driver_row *row = NULL;
    gw_driver_fit fit = gw_data_driver_fit(driver, cuda, &row);
    const gw_cuda_family *family = gw_data_cuda_family(gw_version_part(cuda, 0));
    const char *minimum = NULL;
    if (family != NULL)
        minimum = family->driver_minimum_text;
    else if (row != NULL)
        minimum = row->driver_minimum_text;
    const gw_driver_row *own = gw_data_cuda_of_driver(driver);
    char text[GW_VERSION_TEXT_MAX], own_text[GW_VERSION_TEXT_MAX];
    gw_version_text(text, gw_version_of(gw_version_part(cuda, 0), gw_version_part(cuda, 1), 0));
    bool sure = family != NULL ? family->verified == GW_VERIFIED_YES : row != NULL && row->verified == GW_VERIFIED_YES;
    bool compat = gwi_is(gw_facts_get(facts, "driver.library.place"), "compat");
    if (fit == GW_DRIVER_TOO_OLD && !compat)
        gwi_check(checkup, section, "driver-too-old", sure ? GW_CHECK_FAIL : GW_CHECK_WARN,
                  "Update the driver, or use a build for an older CUDA", "%s needs driver %s or newer; this one is %s",
                  what, minimum, driver_text);
    else if (fit == GW_DRIVER_MINOR)
        gwi_check(checkup, section, "driver-runtime", GW_CHECK_PASS, NULL,
                  "%s runs on driver %s (%s is the oldest for CUDA %u.x). The driver itself supports CUDA %s: PTX "
                  "compiled by %s, and calls added after %s, do not work",
                  what, driver_text, minimum != NULL ? minimum : "?", gw_version_part(cuda, 0),
                  own != NULL ? gw_version_text(own_text, own->cuda) : "an older version", text,
                  own != NULL ? gw_version_text(own_text, own->cuda) : "it");
    else if (fit == GW_DRIVER_FULL)
        gwi_check(checkup, section, "driver-runtime", GW_CHECK_PASS, NULL, "%s runs on driver %s", what, driver_text);
    else if (fit == GW_DRIVER_UNKNOWN && driver != 0)
        gwi_check(checkup, section, "driver-runtime", GW_CHECK_UNKNOWN, NULL,
                  "unknown whether driver %s runs %s: the versions are not in the tables", driver_text, what);
}

static void check_runtimes(const gw_facts *facts, gw_checkup *checkup)
{
    const char *driver_text = gwi_driver(facts);
    gw_version driver = gwi_version(driver_text), said[64];
    long long count = gwi_library_count(facts);
    size_t said_count = 0;
    for (long long i = 0; i < count; i++) {
        gw_library library;
        const char *line = gw_facts_getf(facts, "library.%03lld", i);
        char what[4500], version[GW_VERSION_TEXT_MAX];
        if (line == NULL || !gw_library_from_line(line, &library))
            continue;
        gw_version minor = gw_version_of(gw_version_part(library.version, 0), gw_version_part(library.version, 1),
                                         library.is_major_only);
        bool known = library.kind != GW_LIBRARY_CUDART || library.version == 0 || said_count == 64;
        for (size_t k = 0; k < said_count; k++)
            known = known || said[k] == minor;
        if (!known) {
            said[said_count++] = minor;
            snprintf(what, sizeof what, "the CUDA %s runtime (%s)", gw_library_version_text(version, &library),
                     library.path);
            check_runtime(facts, checkup, driver, driver_text, what, library.version);
        }
        gw_library_free(&library);
    }
}

void gwi_check_driver(const gw_facts *facts, gw_checkup *checkup)
{
    check_module(facts, checkup);
    check_match(facts, checkup);
    check_compat(facts, checkup);
    check_companions(facts, checkup);
    check_device_files(facts, checkup);
    check_runtimes(facts, checkup);
}

/* Check for several copies of CUDA libraries. Only a copy in a folder of LD_LIBRARY_PATH is a problem: every
 * process uses it. */

static const char libraries_section[] = "libraries";

static void read_all(const gw_facts *facts, gw_libraries *list)
{
    long long count = gwi_library_count(facts);
    for (long long i = 0; i < count; i++) {
        gw_library library;
        const char *line = gw_facts_getf(facts, "library.%03lld", i);
        if (line != NULL && gw_library_from_line(line, &library))
            (void)gw_libraries_add(list, &library);
    }
}

/* True if the file is in a folder of LD_LIBRARY_PATH. */
static bool is_forced(const gw_facts *facts, const gw_library *library)
{
    const char *path = gw_facts_get(facts, "env.LD_LIBRARY_PATH");
    size_t folder = (size_t)(gw_path_last(library->path) - library->path);
    for (const char *at = path; at != NULL && *at != '\0';) {
        size_t bytes = strcspn(at, ":");
        while (bytes > 1 && at[bytes - 1] == '/')
            bytes--;
        if (bytes + 1 == folder && memcmp(at, library->path, bytes) == 0)
            return true;
        at += strcspn(at, ":");
        at += *at == ':';
    }
    return false;
}

static const gw_library *find_copy(const gw_libraries *list, gw_library_kind kind, gw_library_place place,
                                   bool is_place)
{
    for (size_t i = 0; i < list->count; i++) {
        const gw_library *library = &list->item[i];
        if (library->kind == kind && library->part[0] == '\0' && (library->place == place) == is_place)
            return library;
    }
    return NULL;
}

/* Report a copy in LD_LIBRARY_PATH that the loader uses instead of the copy of an installed Python package. */
static bool check_forced(const gw_facts *facts, gw_checkup *checkup, const gw_libraries *list, gw_library_kind kind)
{
    const gw_library *own = find_copy(list, kind, GW_PLACE_WHEEL, true);
    for (size_t i = 0; i < list->count; i++) {
        const gw_library *library = &list->item[i];
        char version[GW_VERSION_TEXT_MAX], own_version[GW_VERSION_TEXT_MAX];
        if (library->kind != kind || library->place == GW_PLACE_WHEEL || own == NULL || !is_forced(facts, library))
            continue;
        if (library->version != 0 && own->version != 0 &&
            gw_version_part(library->version, 0) != gw_version_part(own->version, 0))
            continue; /* libraries of different major versions have different file names, so they do not conflict */
        if (library->version == own->version && !library->is_major_only && !own->is_major_only)
            continue;
        gwi_check(checkup, libraries_section, "cudnn-mixed-libraries", GW_CHECK_WARN,
                  "Unset LD_LIBRARY_PATH, or remove that folder from it: the package has its own copy",
                  "LD_LIBRARY_PATH puts %s (%s) before the package's %s (%s)", library->path,
                  gw_library_version_text(version, library), gw_library_kind_text(kind),
                  gw_library_version_text(own_version, own));
        return true;
    }
    return false;
}

static void say_copies(gw_checkup *checkup, const gw_libraries *list, gw_library_kind kind)
{
    gw_text text = {0};
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        char version[GW_VERSION_TEXT_MAX];
        if (list->item[i].kind != kind || list->item[i].part[0] != '\0')
            continue;
        gw_text_addf(&text, "%s%s in %s", count > 0 ? ", " : "", gw_library_version_text(version, &list->item[i]),
                     gw_library_place_words(list->item[i].place));
        count++;
    }
    if (count > 0)
        gwi_check(checkup, libraries_section, gw_library_kind_text(kind), GW_CHECK_PASS, NULL, "%s: %s",
                  gw_library_kind_text(kind), gw_text_str(&text));
    gw_text_free(&text);
}

/* Report cuDNN libraries of different versions in one folder: all parts of cuDNN must have the same version. */
static void check_parts(gw_checkup *checkup, const gw_libraries *list)
{
    for (size_t i = 0; i < list->count; i++) {
        for (size_t k = i + 1; k < list->count; k++) {
            const gw_library *a = &list->item[i], *b = &list->item[k];
            size_t folder = (size_t)(gw_path_last(a->path) - a->path);
            if (a->kind != GW_LIBRARY_CUDNN || b->kind != GW_LIBRARY_CUDNN || a->is_major_only || b->is_major_only ||
                a->version == 0 || b->version == 0 || a->version == b->version ||
                gw_version_part(a->version, 0) != gw_version_part(b->version, 0) ||
                folder != (size_t)(gw_path_last(b->path) - b->path) || memcmp(a->path, b->path, folder) != 0)
                continue;
            gwi_check(checkup, libraries_section, "cudnn-mixed-libraries", GW_CHECK_FAIL,
                      "Install one complete version of cuDNN", "%s and %s are in one folder: parts of two versions",
                      a->path, gw_path_last(b->path));
            return;
        }
    }
}

void gwi_check_libraries(const gw_facts *facts, gw_checkup *checkup)
{
    static const gw_library_kind forced[] = {GW_LIBRARY_CUDNN, GW_LIBRARY_CUBLAS, GW_LIBRARY_CUBLASLT, GW_LIBRARY_NCCL};
    gw_libraries list = {0};
    read_all(facts, &list);
    check_parts(checkup, &list);
    for (size_t i = 0; i < sizeof forced / sizeof forced[0]; i++)
        (void)check_forced(facts, checkup, &list, forced[i]);
    say_copies(checkup, &list, GW_LIBRARY_CUDNN);
    say_copies(checkup, &list, GW_LIBRARY_NCCL);
    gw_libraries_free(&list);
}
