/* kernel_info at a running kernel against a bare ZeroMQ echo of the same frames with HMAC, by
 * turns: bench_wire CONNECTION_FILE [ROUNDS]
 *
 * The echo is a process of its own: it checks the signature of each request, signs as many bytes
 * as the kernel's reply has, and sends them. Prints both medians in microseconds and their ratio.
 */
#include "wire/wire.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { PARTS = 4, MOST_FRAMES = 16, REPLY_ROOM = 1 << 16 };

static const char delimiter[] = "<IDS|MSG>";

static double microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_wire: %s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
}

/* All frames of one message; how many. */
static size_t receive(void *socket, zmq_msg_t *frames)
{
    size_t count = 0;
    do {
        if (count == MOST_FRAMES) fail("too many frames");
        zmq_msg_init(&frames[count]);
        if (zmq_msg_recv(&frames[count], socket, 0) < 0) fail("receiving");
    } while (zmq_msg_more(&frames[count++]));
    return count;
}

static void release(zmq_msg_t *frames, size_t count)
{
    for (size_t i = 0; i < count; i++)
        zmq_msg_close(&frames[i]);
}

static void send_signed(void *socket, const cadre_signer *signer, const cadre_bytes *parts)
{
    char signature[CADRE_SIGNATURE_SIZE];
    cadre_signer_sign(signer, parts, PARTS, signature);
    zmq_send(socket, delimiter, sizeof delimiter - 1, ZMQ_SNDMORE);
    zmq_send(socket, signature, strlen(signature), ZMQ_SNDMORE);
    for (int i = 0; i < PARTS; i++)
        if (zmq_send(socket, parts[i].data, parts[i].length, i + 1 < PARTS ? ZMQ_SNDMORE : 0) < 0)
            fail("sending");
}

/* Never returns. `content`: bytes of the reply's last part. */
static void echo(const char *url, const cadre_signer *signer, size_t content)
{
    static char reply[REPLY_ROOM];
    zmq_msg_t frames[MOST_FRAMES];
    void *socket = zmq_socket(zmq_ctx_new(), ZMQ_ROUTER);
    memset(reply, 'x', sizeof reply);
    if (!socket || zmq_bind(socket, url) < 0) fail(url);
    for (;;) {
        size_t count = receive(socket, frames);
        if (count != PARTS + 3) fail("frames");
        cadre_bytes parts[PARTS];
        for (int i = 0; i < PARTS; i++)
            parts[i] = (cadre_bytes){zmq_msg_data(&frames[i + 3]), zmq_msg_size(&frames[i + 3])};
        if (!cadre_signer_verify(signer, parts, PARTS, zmq_msg_data(&frames[2]),
                                 zmq_msg_size(&frames[2])))
            fail("signature");
        parts[1] = parts[0]; /* the parent */
        parts[3] = (cadre_bytes){reply, content};
        zmq_send(socket, zmq_msg_data(&frames[0]), zmq_msg_size(&frames[0]), ZMQ_SNDMORE);
        send_signed(socket, signer, parts);
        release(frames, count);
    }
}

/* One round trip; *content: bytes of the reply's last part. */
static double ask(void *socket, const cadre_signer *signer, size_t *content)
{
    char header[400], id[CADRE_UUID_SIZE], date[CADRE_DATE_SIZE];
    zmq_msg_t frames[MOST_FRAMES];
    cadre_uuid(id);
    cadre_date_now(date);
    snprintf(header, sizeof header,
             "{\"msg_id\":\"%s\",\"session\":\"bench\",\"username\":\"bench\",\"date\":\"%s\","
             "\"msg_type\":\"kernel_info_request\",\"version\":\"5.4\"}",
             id, date);
    const cadre_bytes parts[PARTS] = {{header, strlen(header)}, {"{}", 2}, {"{}", 2}, {"{}", 2}};
    double begin = microseconds();
    send_signed(socket, signer, parts);
    size_t count = receive(socket, frames);
    double took = microseconds() - begin;
    *content = zmq_msg_size(&frames[count - 1]);
    release(frames, count);
    return took;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

static void *connect_to(void *context, const char *url)
{
    const int limit_ms = 10000;
    void *socket = zmq_socket(context, ZMQ_DEALER);
    if (!socket || zmq_setsockopt(socket, ZMQ_RCVTIMEO, &limit_ms, sizeof limit_ms) < 0 ||
        zmq_connect(socket, url) < 0)
        fail(url);
    return socket;
}

int main(int argc, char **argv)
{
    cadre_connection kernel, bare;
    cadre_error error = {0};
    char kernel_url[400], bare_url[400];
    size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 3000, content;
    if (argc < 2 || rounds < 1) {
        fprintf(stderr, "usage: bench_wire CONNECTION_FILE [ROUNDS]\n");
        return 2;
    }
    cadre_signer *signer = NULL;
    if (cadre_connection_read(&kernel, argv[1], &error) < 0 ||
        cadre_connection_create(&bare, &error) < 0 ||
        cadre_connection_url(&kernel, CADRE_SHELL, kernel_url, sizeof kernel_url, &error) < 0 ||
        cadre_connection_url(&bare, CADRE_SHELL, bare_url, sizeof bare_url, &error) < 0 ||
        !(signer =
              cadre_signer_new(kernel.signature_scheme, kernel.key, strlen(kernel.key), &error))) {
        fprintf(stderr, "bench_wire: %s\n", error.message);
        return 1;
    }
    /* Before this process has sockets. The content is as long as a kernel_info_reply's. */
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        echo(bare_url, signer, 800);
    }
    double *ours = malloc(rounds * sizeof *ours), *theirs = malloc(rounds * sizeof *theirs);
    void *context = zmq_ctx_new();
    void *at_kernel = connect_to(context, kernel_url), *at_echo = connect_to(context, bare_url);
    if (!ours || !theirs) return 1;
    for (size_t i = 0; i < 100; i++) {
        ask(at_kernel, signer, &content);
        ask(at_echo, signer, &content);
    }
    for (size_t i = 0; i < rounds; i++) {
        ours[i] = ask(at_kernel, signer, &content);
        theirs[i] = ask(at_echo, signer, &content);
    }
    double kernel_us = median(ours, rounds), echo_us = median(theirs, rounds);
    printf("kernel %.1f us, echo %.1f us, ratio %.3f\n", kernel_us, echo_us, kernel_us / echo_us);
    zmq_close(at_kernel);
    zmq_close(at_echo);
    zmq_ctx_term(context);
    kill(child, SIGKILL);
    cadre_signer_free(signer);
    free(ours);
    free(theirs);
    return 0;
}
