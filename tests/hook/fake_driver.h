/* The fake driver only records which functions were called. This shows which calls reach the driver, and whether the
 * driver's result is returned unchanged. Each build has its own list of exports and its own version. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

typedef struct fake_export {
    const char *name;
    void *address;
} fake_export;

extern int fake_version;
extern const fake_export fake_exports[];
extern const int fake_export_count;

/* Called by every export: record the name; return 0, or the result that fake_set_result() set for it. */
int fake_called(const char *name);

#endif
