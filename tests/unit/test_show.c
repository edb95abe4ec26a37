/* runtime/show: what arrives at the other end of the display channel. */
#include "base/error_handler.h"
#include "show/comm.h"
#include "notebook/notebook.h"
#include "show/channel.h"
#include "show/grid.h"
#include "show/show.h"

#include <check.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int reader_end, sender_end;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void open_channel(void)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    reader_end = pair[0];
    sender_end = pair[1];
    cadre_show_set_channel(sender_end);
    cadre_set_error_handler(cadre_error_ignore);
}

/* One packet; *answer is the socket for the byte, -1: none came. NULL: the channel is closed. */
static json_t *receive(int *answer)
{
    static char text[256 * 1024];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    int fds[2] = {-1, -1};
    ssize_t length = recvmsg(reader_end, &message, MSG_CMSG_CLOEXEC);
    *answer = -1;
    if (length <= 0) return NULL;
    text[length] = 0;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    if (rights) memcpy(fds, CMSG_DATA(rights), rights->cmsg_len - CMSG_LEN(0));
    *answer = fds[0];
    if (fds[1] < 0) return json_loads(text, 0, NULL);
    ck_assert_str_eq(text, "{}");
    FILE *file = fdopen(fds[1], "r");
    json_t *packet = json_loadf(file, 0, NULL);
    fclose(file);
    return packet;
}

static void answer(int fd)
{
    ck_assert_int_eq(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    close(fd);
}

/* Takes `count` packets into an array, each answered after `delay` seconds. */
typedef struct packet_reader {
    pthread_t thread;
    int count;
    double delay;
    json_t *packets;
} packet_reader;

static void *read_packets(void *argument)
{
    packet_reader *self = argument;
    for (int i = 0; i < self->count; i++) {
        int fd;
        json_t *packet = receive(&fd);
        if (!packet) break;
        json_array_append_new(self->packets, packet);
        struct timespec wait = {0, (long)(self->delay * 1e9)};
        nanosleep(&wait, NULL);
        answer(fd);
    }
    return NULL;
}

static void start_reader(packet_reader *self, int count, double delay)
{
    *self = (packet_reader){.count = count, .delay = delay, .packets = json_array()};
    pthread_create(&self->thread, NULL, read_packets, self);
}

static const char *text_at(const json_t *packet, const char *key)
{
    const char *text = json_string_value(json_object_get(packet, key));
    return text ? text : "(none)";
}

static const char *data_at(const json_t *packet, const char *mime)
{
    return text_at(json_object_get(packet, "data"), mime);
}

START_TEST(a_display_arrives_and_is_waited_for)
{
    packet_reader reader;
    open_channel();
    start_reader(&reader, 1, 0.2);
    double start = now();
    ck_assert_int_eq(cadre_display_html("<b>x</b>", "x"), 0);
    ck_assert_double_ge(now() - start, 0.2);
    pthread_join(reader.thread, NULL);
    json_t *packet = json_array_get(reader.packets, 0);
    ck_assert_str_eq(text_at(packet, "kind"), "display");
    ck_assert_str_eq(data_at(packet, "text/html"), "<b>x</b>");
    ck_assert_str_eq(data_at(packet, "text/plain"), "x");
    ck_assert(json_is_object(json_object_get(packet, "metadata")));
    ck_assert_ptr_null(json_object_get(packet, "display_id"));
    json_decref(reader.packets);
}
END_TEST

START_TEST(updates_clears_and_returns)
{
    packet_reader reader;
    open_channel();
    start_reader(&reader, 4, 0);
    ck_assert_int_eq(cadre_display_bundle("{\"text/plain\": \"a\"}", "one"), 0);
    ck_assert_int_eq(cadre_display_update("{\"text/plain\": \"b\"}", "one"), 0);
    ck_assert_int_eq(cadre_display_clear(true), 0);
    ck_assert_int_eq(cadre_notebook_return("{\"rows\": 3}"), 0);
    pthread_join(reader.thread, NULL);
    json_t *first = json_array_get(reader.packets, 0), *second = json_array_get(reader.packets, 1);
    json_t *third = json_array_get(reader.packets, 2), *last = json_array_get(reader.packets, 3);
    ck_assert_str_eq(text_at(first, "display_id"), "one");
    ck_assert_str_eq(text_at(second, "kind"), "update");
    ck_assert_str_eq(text_at(second, "display_id"), "one");
    ck_assert_str_eq(text_at(third, "kind"), "clear");
    ck_assert(json_is_true(json_object_get(third, "wait")));
    ck_assert_str_eq(text_at(last, "kind"), "return");
    json_t *value =
        json_object_get(json_object_get(last, "data"), "application/vnd.cadre.return+json");
    ck_assert_int_eq(json_integer_value(json_object_get(value, "rows")), 3);
    json_decref(reader.packets);
}
END_TEST

START_TEST(a_large_display_comes_in_a_memfd)
{
    packet_reader reader;
    open_channel();
    start_reader(&reader, 1, 0);
    size_t size = 3 << 20;
    char *text = malloc(size + 1);
    memset(text, 'y', size);
    text[size] = 0;
    ck_assert_int_eq(cadre_display_html(text, "short"), 0);
    pthread_join(reader.thread, NULL);
    ck_assert_str_eq(data_at(json_array_get(reader.packets, 0), "text/html"), text);
    json_decref(reader.packets);
    free(text);
}
END_TEST

START_TEST(a_forked_child_shows_too)
{
    packet_reader reader;
    open_channel();
    start_reader(&reader, 2, 0);
    pid_t child = fork();
    if (child == 0) _exit(cadre_display_html("c", "child") == 0 ? 0 : 1);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(cadre_display_html("p", "parent"), 0);
    pthread_join(reader.thread, NULL);
    ck_assert_str_eq(data_at(json_array_get(reader.packets, 0), "text/plain"), "child");
    json_decref(reader.packets);
}
END_TEST

START_TEST(a_broken_channel_neither_hangs_nor_kills)
{
    open_channel();
    close(reader_end);
    double start = now();
    ck_assert_int_lt(cadre_display_html("x", "x"), 0);
    cadre_progress *progress = cadre_progress_new("work", 3);
    cadre_progress_set(progress, 1, "note");
    cadre_progress_free(progress);
    cadre_show_set_channel(sender_end + 100); /* not even a descriptor */
    ck_assert_int_lt(cadre_display_html("x", "x"), 0);
    ck_assert_double_lt(now() - start, 1);
}
END_TEST

START_TEST(a_silent_kernel_costs_five_seconds_at_most)
{
    open_channel();
    double start = now();
    ck_assert_int_eq(cadre_display_html("x", "x"), CADRE_ETIMEOUT);
    ck_assert_double_ge(now() - start, 4.5);
    ck_assert_double_lt(now() - start, 6);
}
END_TEST

/* A plain program has nobody to talk to, and is told so. */
START_TEST(comms_need_a_kernel)
{
    cadre_show_set_channel(-1);
    cadre_set_error_handler(cadre_error_ignore);
    ck_assert_ptr_null(cadre_comm_open("target", NULL));
    ck_assert_ptr_nonnull(strstr(cadre_last_error()->message, "runs in no kernel"));
    ck_assert_int_eq(cadre_comm_register("target", NULL, NULL), CADRE_ESYSTEM);
    ck_assert_int_eq(cadre_comm_send(NULL, NULL), CADRE_EINPUT);
    ck_assert_int_eq(cadre_comm_close(NULL, NULL), CADRE_OK);
    ck_assert_ptr_null(cadre_comm_id(NULL));
    cadre_comm_deliver();
    ck_assert_ptr_nonnull(strstr(cadre_last_error()->message, "runs in no kernel"));
}
END_TEST

START_TEST(what_is_no_bundle_goes_to_the_error_handler)
{
    open_channel();
    ck_assert_int_eq(cadre_display_bundle("{", NULL), CADRE_EINPUT);
    ck_assert_ptr_nonnull(strstr(cadre_last_error()->message, "line 1"));
    ck_assert_int_eq(cadre_display_bundle("[]", NULL), CADRE_EINPUT);
    ck_assert_int_eq(cadre_display_bundle(NULL, NULL), CADRE_EINPUT);
    ck_assert_int_eq(cadre_display_update("{\"text/plain\": \"b\"}", NULL), CADRE_EINPUT);
    ck_assert_int_eq(cadre_notebook_return("nan"), CADRE_EINPUT);
}
END_TEST

START_TEST(bytes_that_are_not_utf8_are_replaced)
{
    packet_reader reader;
    open_channel();
    start_reader(&reader, 1, 0);
    cadre_display_html("<i>", "a\xff"
                              "b\xc3\xa9\xe2\x82");
    pthread_join(reader.thread, NULL);
    ck_assert_str_eq(data_at(json_array_get(reader.packets, 0), "text/plain"),
                     "a\xef\xbf\xbd"
                     "b\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
    json_decref(reader.packets);
}
END_TEST

START_TEST(a_grid_is_aligned_and_escaped)
{
    const char *headings[] = {"name", "rows"};
    const char *cells[] = {"<UA>", "12", "B\xc3\xa9", NULL, "x\ny", "1234567"};
    cadre_grid grid = {"T & t", headings, cells, 3, 2};
    cadre_buffer text = {0}, html = {0};
    cadre_grid_text(&grid, &text);
    cadre_grid_html(&grid, &html);
    ck_assert_str_eq(text.data, "T & t\n"
                                "name     rows\n"
                                "<UA>       12\n"
                                "B\xc3\xa9           \n"
                                "x y   1234567\n");
    ck_assert_ptr_nonnull(strstr(html.data, "<caption>T &amp; t</caption>"));
    ck_assert_ptr_nonnull(strstr(html.data, "&lt;UA&gt;"));
    ck_assert_ptr_null(strstr(html.data, "<UA>"));
    cadre_buffer_free(&text);
    cadre_buffer_free(&html);
}
END_TEST

START_TEST(a_progress_bar_is_one_display_and_at_most_ten_updates_a_second)
{
    packet_reader reader;
    open_channel();
    start_reader(&reader, 1000, 0);
    cadre_progress *progress = cadre_progress_new("a<b", 1000000);
    double start = now();
    size_t done = 0;
    while (now() - start < 0.55)
        cadre_progress_set(progress, ++done, "n");
    cadre_progress_set(progress, 1000000, NULL);
    cadre_progress_free(progress);
    shutdown(sender_end, SHUT_RDWR);
    pthread_join(reader.thread, NULL);
    size_t count = json_array_size(reader.packets);
    ck_assert_uint_ge(count, 4);
    ck_assert_uint_le(count, 8);
    const char *id = text_at(json_array_get(reader.packets, 0), "display_id");
    for (size_t i = 0; i < count; i++) {
        json_t *packet = json_array_get(reader.packets, i);
        ck_assert_str_eq(text_at(packet, "kind"), i ? "update" : "display");
        ck_assert_str_eq(text_at(packet, "display_id"), id);
    }
    json_t *last = json_array_get(reader.packets, count - 1);
    ck_assert_ptr_nonnull(strstr(data_at(last, "text/plain"), "1000000/1000000"));
    ck_assert_ptr_nonnull(strstr(data_at(last, "text/html"), "a&lt;b"));
    json_decref(reader.packets);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("show");
    TCase *channel = tcase_create("channel");
    tcase_set_timeout(channel, 20);
    tcase_add_test(channel, a_display_arrives_and_is_waited_for);
    tcase_add_test(channel, updates_clears_and_returns);
    tcase_add_test(channel, comms_need_a_kernel);
    tcase_add_test(channel, a_large_display_comes_in_a_memfd);
    tcase_add_test(channel, a_forked_child_shows_too);
    tcase_add_test(channel, a_broken_channel_neither_hangs_nor_kills);
    tcase_add_test(channel, a_silent_kernel_costs_five_seconds_at_most);
    tcase_add_test(channel, what_is_no_bundle_goes_to_the_error_handler);
    tcase_add_test(channel, bytes_that_are_not_utf8_are_replaced);
    suite_add_tcase(suite, channel);
    TCase *pictures = tcase_create("pictures");
    tcase_add_test(pictures, a_grid_is_aligned_and_escaped);
    tcase_add_test(pictures, a_progress_bar_is_one_display_and_at_most_ten_updates_a_second);
    suite_add_tcase(suite, pictures);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
