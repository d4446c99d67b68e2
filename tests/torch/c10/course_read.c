/* Print the allocators of a recording's model as lines for test_course.py. Usage: course_read RECORDING */
#include "gw_model_facts.h"

#include <inttypes.h>
#include <stdio.h>

static void print_report(const gw_allocator_report *r)
{
    printf("report %d %d %d %" PRIu64 " %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
           r->device, r->is_oom, r->has_course, r->bytes_wanted, r->wanted_site, r->field[GW_ALLOCATOR_COURSE_REQUESTS],
           r->field[GW_ALLOCATOR_COURSE_FREES], r->field[GW_ALLOCATOR_COURSE_LIVE_COUNT],
           r->field[GW_ALLOCATOR_COURSE_LIVE], r->field[GW_ALLOCATOR_COURSE_PEAK], r->course_missed);
    for (size_t i = 0; i < r->live_count; i++)
        printf("live %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %" PRIu64 " %u\n", r->live[i].order, r->live[i].address,
               r->live[i].bytes, r->live[i].has_time, r->live[i].t_ns, r->live[i].site);
    printf("rest %" PRIu64 " %" PRIu64 "\n", r->rest_count, r->rest_bytes);
    for (size_t i = 0; i < r->request_count; i++) {
        const gw_allocator_request *it = &r->request[i];
        printf("request %" PRIu64 " %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u\n", it->order,
               it->bytes, it->freed, it->freed_order, it->launches, it->waits, it->t_ns, it->site);
    }
    for (size_t i = 0; i < r->peak_count; i++)
        printf("span %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", r->peak[i].t_ns, r->peak[i].low_bytes, r->peak[i].bytes);
    for (size_t i = 0; i < r->size_count; i++)
        printf("size %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", r->size[i].bytes_least, r->size[i].requests,
               r->size[i].frees, r->size[i].lifetime_sum);
}

int main(int argc, char **argv)
{
    gw_error err = {0};
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    if (argc != 2 || gw_reader_open(argv[1], &reader, &err) != GW_OK || gw_model_build(reader, &model, &err) != GW_OK) {
        fprintf(stderr, "course_read: %s\n", err.text);
        return 2;
    }
    for (size_t i = 0; i < model->allocator_count; i++)
        print_report(&model->allocator[i]);
    uint64_t lost = 0;
    for (size_t i = 0; i < model->process_count; i++)
        lost += model->process[i].lost_events;
    printf("lost %" PRIu64 "\n", lost);
    gw_model_free(model);
    gw_reader_close(reader);
    return 0;
}
