/* Stores the communicators and ranks of an answer. */
#include "gwi_ras.h"

#include "gw_array.h"

#include <stdlib.h>
#include <string.h>

void gw_ras_free(gw_ras *ras)
{
    for (size_t i = 0; i < ras->comm_count; i++)
        free(ras->comm[i].rank);
    free(ras->comm);
    *ras = (gw_ras){0};
}

gw_ras_comm *gwi_ras_comm(gw_ras *ras, uint64_t hash)
{
    enum { COMMS_MAX = 1 << 16 };
    if (ras->comm_count > 0 && ras->comm[ras->comm_count - 1].hash == hash)
        return &ras->comm[ras->comm_count - 1];
    for (size_t i = 0; i < ras->comm_count; i++)
        if (ras->comm[i].hash == hash)
            return &ras->comm[i];
    if (ras->comm_count == COMMS_MAX ||
        !gw_array_room(&ras->comm, ras->comm_count, &ras->comm_capacity, sizeof *ras->comm))
        return NULL;
    ras->comm[ras->comm_count] = (gw_ras_comm){.hash = hash};
    return &ras->comm[ras->comm_count++];
}

gw_ras_rank *gwi_ras_rank(gw_ras_comm *comm, uint32_t rank)
{
    size_t low = 0, high = comm->rank_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (comm->rank[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < comm->rank_count && comm->rank[low].rank == rank)
        return &comm->rank[low];
    if (comm->rank_count == GWI_RAS_RANKS_MAX ||
        !gw_array_room(&comm->rank, comm->rank_count, &comm->rank_capacity, sizeof *comm->rank))
        return NULL;
    memmove(&comm->rank[low + 1], &comm->rank[low], (comm->rank_count - low) * sizeof *comm->rank);
    comm->rank[low] = (gw_ras_rank){.rank = rank};
    comm->rank_count++;
    return &comm->rank[low];
}

int gwi_ras_kind(const char *name, size_t bytes)
{
    static const char all[] = "collective";
    for (int i = 0; i < GW_NCCL_CALL_COUNT; i++) {
        const char *known = gw_nccl_call_name((gw_nccl_call)i) + strlen("nccl");
        if (strlen(known) == bytes && memcmp(known, name, bytes) == 0)
            return i;
    }
    return bytes == sizeof all - 1 && memcmp(all, name, bytes) == 0 ? (int)GW_RAS_ALL : -1;
}
