/* A fake driver that shows which calls reach the driver, and whether its results are returned unchanged. It
 * simulates only a few functions. Each build has its own list of exports and its own version. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

typedef struct fake_export {
    const char *name;
    void *address;
} fake_export;

extern int fake_version;
extern const fake_export fake_exports[];
extern const int fake_export_count;

/* Called by every export. Records the name. Returns 0, or the result that fake_set_result() set for this name. */
int fake_called(const char *name);

#endif
