/* The program of the relay (gwi_relay.h). */
#include "gwi_relay.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct stat shared;
    if (argc != 4 || fstat(atoi(argv[2]), &shared) != 0 || shared.st_size != sizeof(gwi_stderr_tail))
        return 1; /* by hand, or by another version of gpuwhy */
    void *tail = mmap(NULL, sizeof(gwi_stderr_tail), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[2]), 0);
    if (tail == MAP_FAILED || dup2(atoi(argv[3]), STDERR_FILENO) < 0)
        return 1;
    gwi_relay(atoi(argv[1]), tail);
}
