/* Make a scope the owner of resources that other code has created, and give them up again. */
#include "gwi_scope.h"

#include "gwi_libraries.h"

gs_status gwi_adopt(gs_scope *scope, gs_kind kind, uint64_t handle, uint64_t bytes, gs_source source,
                    gs_release *release, const char *release_call, const char *call, const char *file, int line)
{
    gwi_thing *thing;
    gs_kind owned_kind;
    const char *owner_file;
    int owner_line;
    gs_status status = gwi_usable(scope, call, file, line);
    if (status != GS_OK)
        return status;
    if (kind < 0 || kind >= GS_KIND_COUNT || kind == GS_KIND_POOL)
        return gwi_refuse(scope, GS_MISUSE, call, file, line, "%d is not a kind that a scope can adopt", (int)kind);
    if (handle == 0)
        return gwi_refuse(scope, GS_MISUSE, call, file, line, "no %s was given", gs_kind_text(kind));
    if (gwi_thing_owned(kind, handle, &owned_kind, &owner_file, &owner_line))
        return gwi_refuse(scope, GS_MISUSE, call, file, line, "a scope owns this %s already, since %s:%d",
                          gs_kind_text(owned_kind), owner_file, owner_line);
    status = gwi_thing_new(scope, kind, bytes, call, file, line, &thing);
    if (status != GS_OK)
        return status;
    thing->release = release;
    thing->release_call = release_call;
    thing->release_source = source;
    gwi_thing_own(thing, handle);
    return GS_OK;
}

gs_status gs_adopt_at(gs_scope *scope, gs_kind kind, uint64_t handle, size_t bytes, const char *file, int line)
{
    char why[256];
    gs_release *release = NULL;
    const char *call = NULL;
    gs_source source = GS_FROM_DRIVER;
    const gwi_library *lib = gwi_library_for(kind);
    if (lib != NULL) {
        source = lib->source;
        gs_status status = gwi_library_release(kind, &release, &call, why, sizeof why);
        if (status != GS_OK)
            return gwi_refuse(scope, status, "gs_adopt", file, line, "%s", why);
    }
    return gwi_adopt(scope, kind, handle, bytes, source, release, call, "gs_adopt", file, line);
}

gs_status gs_adopt_with_at(gs_scope *scope, gs_kind kind, uint64_t handle, size_t bytes, gs_source source,
                           gs_release *release, const char *call, const char *file, int line)
{
    if (release == NULL || call == NULL)
        return gwi_refuse(scope, GS_MISUSE, "gs_adopt_with", file, line, "no release function or name was given");
    return gwi_adopt(scope, kind, handle, bytes, source, release, call, "gs_adopt_with", file, line);
}

gs_status gs_disown_at(gs_scope *scope, gs_kind kind, uint64_t handle, const char *file, int line)
{
    gs_status status = gwi_usable(scope, "gs_disown", file, line);
    if (status != GS_OK)
        return status;
    gwi_thing *thing = gwi_thing_take(scope, kind, handle, false);
    if (thing == NULL)
        return gwi_refuse(scope, GS_MISUSE, "gs_disown", file, line, "the scope owns no such %s (0x%llx)",
                          gs_kind_text(kind), (unsigned long long)handle);
    gwi_thing_drop(thing);
    return GS_OK;
}
