/* A library whose constructor calls the driver. At that time, the loader holds its lock. */
void harm_constructed(void);

static __attribute__((constructor)) void begin(void)
{
    harm_constructed();
}
