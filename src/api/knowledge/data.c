/* Look up rows in the tables of data/: errors by code or name, and drivers, CUDA versions, cards and frameworks. */
#include "gw_data.h"
#include "gw_text.h"

#include <string.h>
#include <strings.h>

const char *gw_verified_text(gw_verified verified)
{
    static const char *const texts[] = {"no", "partly", "yes"};
    return texts[verified];
}

static const gw_xid *find_xid(gw_xid_kind kind, unsigned code)
{
    for (size_t i = 0; i < gw_data_xid_count; i++) {
        if (gw_data_xid[i].kind == kind && gw_data_xid[i].code == code)
            return &gw_data_xid[i];
    }
    return NULL;
}

const gw_xid *gw_data_xid_of(unsigned code)
{
    return find_xid(GW_XID_KIND_XID, code);
}

const gw_xid *gw_data_sxid_of(unsigned code)
{
    return find_xid(GW_XID_KIND_SXID, code);
}

const gw_cuda_error *gw_data_cuda_error(unsigned code)
{
    for (size_t i = 0; i < gw_data_cuda_errors_count; i++) {
        if (gw_data_cuda_errors[i].code == code)
            return &gw_data_cuda_errors[i];
    }
    return NULL;
}

static bool is_name(const char *name, const char *wanted)
{
    return name != NULL && strcmp(name, wanted) == 0;
}

const gw_cuda_error *gw_data_cuda_error_named(const char *name)
{
    for (size_t i = 0; i < gw_data_cuda_errors_count; i++) {
        const gw_cuda_error *error = &gw_data_cuda_errors[i];
        if (is_name(error->driver_name, name) || is_name(error->runtime_name, name))
            return error;
    }
    return NULL;
}

const gw_cuda_error *gw_data_cuda_error_old(unsigned old_code)
{
    for (size_t i = 0; old_code != 0 && i < gw_data_cuda_errors_count; i++) {
        if (gw_data_cuda_errors[i].old_code == old_code)
            return &gw_data_cuda_errors[i];
    }
    return NULL;
}

static bool has_part(const char *parts, const char *wanted)
{
    size_t bytes = strlen(wanted);
    for (const char *at = parts; at != NULL && *at != '\0'; at += *at == '|') {
        size_t length = strcspn(at, "|");
        if (length == bytes && memcmp(at, wanted, bytes) == 0)
            return true;
        at += length;
    }
    return false;
}

const gw_cuda_error *gw_data_cuda_error_said(const char *text)
{
    for (size_t i = 0; i < gw_data_cuda_errors_count; i++) {
        const gw_cuda_error *error = &gw_data_cuda_errors[i];
        if (has_part(error->log_text, text) || has_part(error->cuda_log_text, text))
            return error;
    }
    return NULL;
}

static bool has_major(const gw_cudnn_status *status, unsigned major)
{
    return major >= status->major_first && major <= status->major_last;
}

const gw_cudnn_status *gw_data_cudnn_status_named(unsigned major, const char *name)
{
    const gw_cudnn_status *found = NULL;
    for (size_t i = 0; i < gw_data_cudnn_status_count; i++) {
        const gw_cudnn_status *status = &gw_data_cudnn_status[i];
        if ((major == 0 || has_major(status, major)) && strcmp(status->name, name) == 0 &&
            (found == NULL || status->major_first > found->major_first))
            found = status;
    }
    return found;
}

const gw_library_status *gw_data_library_status_of(gw_status_library library, unsigned code)
{
    for (size_t i = 0; i < gw_data_library_status_count; i++) {
        if (gw_data_library_status[i].library == library && gw_data_library_status[i].code == code)
            return &gw_data_library_status[i];
    }
    return NULL;
}

/* ---- drivers and CUDA ---- */

static gw_version minor_of(gw_version version)
{
    return gw_version_of(gw_version_part(version, 0), gw_version_part(version, 1), 0);
}

const gw_cuda_family *gw_data_cuda_family(unsigned major)
{
    for (size_t i = 0; i < gw_data_cuda_families_count; i++) {
        if (gw_data_cuda_families[i].major == major)
            return &gw_data_cuda_families[i];
    }
    return NULL;
}

/* Return the first row with this CUDA version, or NULL. Only major and minor are compared. */
static const gw_driver_row *data_driver_for(gw_version cuda)
{
    for (size_t i = 0; i < gw_data_driver_compat_count; i++) {
        if (gw_data_driver_compat[i].cuda == minor_of(cuda))
            return &gw_data_driver_compat[i];
    }
    return NULL;
}

const gw_driver_row *gw_data_cuda_of_driver(gw_version driver)
{
    const gw_driver_row *found = NULL;
    for (size_t i = 0; i < gw_data_driver_compat_count; i++) {
        const gw_driver_row *row = &gw_data_driver_compat[i];
        if (row->driver_shipped != 0 && row->driver_shipped <= driver && (found == NULL || row->cuda > found->cuda))
            found = row;
    }
    return found;
}

gw_driver_fit gw_data_driver_fit(gw_version driver, gw_version cuda, const gw_driver_row **ret_row)
{
    const gw_driver_row *row = data_driver_for(cuda);
    const gw_cuda_family *family = gw_data_cuda_family(gw_version_part(cuda, 0));
    if (ret_row != NULL)
        *ret_row = row;
    if (driver == 0 || cuda == 0)
        return GW_DRIVER_UNKNOWN;
    if (row != NULL && row->driver_shipped != 0 && driver >= row->driver_shipped)
        return GW_DRIVER_FULL;
    gw_version minimum = 0;
    if (row != NULL)
        minimum = row->driver_minimum;
    else if (family != NULL)
        minimum = family->driver_minimum;
    if (minimum == 0)
        return GW_DRIVER_UNKNOWN;
    return driver < minimum ? GW_DRIVER_TOO_OLD : GW_DRIVER_MINOR;
}

const gw_capability *gw_data_capability(gw_version capability)
{
    for (size_t i = 0; i < gw_data_compute_capability_count; i++) {
        if (gw_data_compute_capability[i].capability == minor_of(capability))
            return &gw_data_compute_capability[i];
    }
    return NULL;
}

/* ---- frameworks ---- */

/* True if the pattern matches the release. The pattern "2.1.x" matches every release of 2.1. */
static bool is_release(const char *pattern, gw_version release)
{
    gw_version wanted;
    const char *end;
    if (!gw_version_parse(pattern, &wanted, &end))
        return false;
    return strcmp(end, ".x") == 0 ? minor_of(release) == wanted : release == wanted;
}

/* True if the pattern matches a build with this CUDA version.
 * - "12.6.3" matches every 12.6.
 * - "12.1+" matches 12.1 and all later versions, including 13.0. */
static bool is_cuda(const char *pattern, gw_version cuda)
{
    gw_version wanted;
    const char *end;
    if (cuda == 0)
        return true;
    if (pattern == NULL || !gw_version_parse(pattern, &wanted, &end))
        return false;
    return *end == '+' ? minor_of(cuda) >= minor_of(wanted) : minor_of(cuda) == minor_of(wanted);
}

const gw_framework_row *gw_data_framework(const char *component, const char *release, gw_version cuda)
{
    gw_version version;
    const char *end;
    if (!gw_version_parse(release, &version, &end))
        return NULL;
    for (size_t i = 0; i < gw_data_framework_compat_count; i++) {
        const gw_framework_row *row = &gw_data_framework_compat[i];
        if (strcasecmp(row->component, component) == 0 && is_release(row->release, version) && is_cuda(row->cuda, cuda))
            return row;
    }
    return NULL;
}

const gw_framework_row *gw_data_framework_for(const char *component, gw_version capability)
{
    const gw_framework_row *found = NULL;
    for (size_t i = 0; i < gw_data_framework_compat_count; i++) {
        const gw_framework_row *row = &gw_data_framework_compat[i];
        if (strcasecmp(row->component, component) == 0 && row->architectures != NULL &&
            gw_data_covers(row->architectures, capability) == GW_COVER_NATIVE)
            found = row; /* no break: the rows are sorted by release, and the last match is the newest */
    }
    return found;
}

const gw_cudnn_support *gw_data_cudnn_support_of(gw_version cudnn)
{
    for (size_t i = 0; i < gw_data_cudnn_support_count; i++) {
        const gw_cudnn_support *row = &gw_data_cudnn_support[i];
        /* a row whose last version is "8.5" includes all of 8.5 */
        if (cudnn >= row->first && (row->last == 0 || cudnn <= row->last || minor_of(cudnn) == row->last))
            return row;
    }
    return NULL;
}

gw_cover gw_data_covers(const char *architectures, gw_version capability)
{
    gw_cover best = GW_COVER_NONE;
    capability = minor_of(capability);
    for (const char *at = architectures; *at != '\0';) {
        gw_version built;
        const char *end;
        if (!gw_version_parse(at, &built, &end))
            return best;
        if (gw_version_part(built, 0) == gw_version_part(capability, 0) && built <= capability)
            return GW_COVER_NATIVE;
        if (gw_begins(end, "+PTX") && built <= capability)
            best = GW_COVER_PTX;
        at = end + strcspn(end, " ");
        at += strspn(at, " ");
    }
    return best;
}
