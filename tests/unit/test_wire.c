/* kernel/wire: what may come in, what goes out, and that both ends understand each other. */
#include "wire/wire.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define B(text) ((cadre_bytes){text, sizeof(text) - 1})

/* ---- signatures */

START_TEST(signatures_are_the_standards)
{
    /* RFC 4231, test case 2. */
    cadre_error error = {0};
    char signature[CADRE_SIGNATURE_SIZE];
    cadre_bytes pieces[2] = {B("what do ya want "), B("for nothing?")};
    cadre_signer *s = cadre_signer_new("hmac-sha256", "Jefe", 4, &error);
    cadre_signer_sign(s, pieces, 2, signature);
    ck_assert_str_eq(signature, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    ck_assert(cadre_signer_verify(s, pieces, 2, signature, 64));
    ck_assert(!cadre_signer_verify(s, pieces, 1, signature, 64));
    ck_assert(!cadre_signer_verify(s, pieces, 2, signature, 63));
    signature[63] = '4';
    ck_assert(!cadre_signer_verify(s, pieces, 2, signature, 64));
    cadre_signer_free(s);

    s = cadre_signer_new("hmac-sha512", "Jefe", 4, &error);
    cadre_signer_sign(s, pieces, 2, signature);
    ck_assert_str_eq(signature, "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
                                "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737");
    cadre_signer_free(s);

    ck_assert_ptr_null(cadre_signer_new("hmac-md5", "Jefe", 4, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "hmac-md5"));
    s = cadre_signer_new("hmac-sha256", "", 0, &error);
    cadre_signer_sign(s, pieces, 2, signature);
    ck_assert_str_eq(signature, "");
    ck_assert(cadre_signer_verify(s, pieces, 2, "anything", 8));
    cadre_signer_free(s);
}
END_TEST

START_TEST(repeats_are_known_and_bounded)
{
    cadre_replay *replay = cadre_replay_new();
    char text[32];
    for (int i = 0; i < 200000; i++) {
        int length = snprintf(text, sizeof text, "signature %d", i);
        ck_assert(cadre_replay_note(replay, text, (size_t)length));
    }
    for (int i = 200000 - 32768; i < 200000; i++) {
        int length = snprintf(text, sizeof text, "signature %d", i);
        ck_assert(!cadre_replay_note(replay, text, (size_t)length));
    }
    ck_assert(cadre_replay_note(replay, "signature 0", 11)); /* long forgotten */
    cadre_replay_free(replay);
}
END_TEST

/* ---- small parts */

START_TEST(dates_are_padded)
{
    char date[CADRE_DATE_SIZE];
    for (int i = 0; i < 2000; i++) {
        cadre_date_now(date);
        ck_assert_uint_eq(strlen(date), 27);
        ck_assert_msg(date[4] == '-' && date[10] == 'T' && date[19] == '.' && date[26] == 'Z', "%s",
                      date);
        ck_assert_uint_eq(strspn(date + 20, "0123456789"), 6);
    }
}
END_TEST

START_TEST(uuids_differ)
{
    char a[CADRE_UUID_SIZE], b[CADRE_UUID_SIZE];
    cadre_uuid(a);
    cadre_uuid(b);
    ck_assert_uint_eq(strlen(a), 36);
    ck_assert(a[14] == '4' && strchr("89ab", a[19]));
    ck_assert_str_ne(a, b);
}
END_TEST

static void utf8(const char *bytes, size_t length, bool final, size_t taken, const char *wanted)
{
    cadre_buffer out = {0};
    ck_assert_uint_eq(cadre_utf8_append(&out, bytes, length, final), taken);
    ck_assert_str_eq(out.data ? out.data : "", wanted);
    cadre_buffer_free(&out);
}

#define BAD "\xef\xbf\xbd"
START_TEST(broken_utf8_becomes_replacement_characters)
{
    utf8("plain", 5, true, 5, "plain");
    utf8("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, true, 9, "é€😀");
    utf8("a\xff\xfe"
         "b",
         4, true, 4, "a" BAD BAD "b");
    utf8("\xc0\x80", 2, true, 2, BAD BAD);         /* overlong */
    utf8("\xed\xa0\x80", 3, true, 3, BAD BAD BAD); /* a surrogate */
    utf8("\xf4\x90\x80\x80", 4, true, 4, BAD BAD BAD BAD);
    utf8("\xe2\x82x", 3, true, 3, BAD "x");
    utf8("x\xe2\x82", 3, false, 1, "x"); /* begun: left for the next bytes */
    utf8("x\xe2\x82", 3, true, 3, "x" BAD);
    utf8("\xf0\x9f\x98", 3, false, 0, "");
}
END_TEST

START_TEST(strings_are_escaped)
{
    cadre_buffer out = {0};
    cadre_json_escape(&out, "a\"b\\c\n\0\x1b\x7f\xff/", 11, true);
    ck_assert_str_eq(out.data, "a\\\"b\\\\c\\n\\u0000\\u001b\x7f" BAD "/");
    cadre_buffer_free(&out);
}
END_TEST

static void parses_as(const char *text, const char *wanted)
{
    cadre_error error = {0};
    json_t *value = cadre_json_parse(text, strlen(text), &error);
    ck_assert_msg(value != NULL, "%s: %s", text, error.message);
    char *got = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(17));
    ck_assert_str_eq(got, wanted);
    free(got);
    json_decref(value);
}

START_TEST(real_clients_json_is_read)
{
    parses_as("{\"a\":1,\"b\":0.5}", "{\"a\":1,\"b\":0.5}");
    parses_as("{\"a\":18446744073709551616}", "{\"a\":\"18446744073709551616\"}");
    parses_as("{\"a\":[9223372036854775808,-9223372036854775809,9223372036854775807]}",
              "{\"a\":[\"9223372036854775808\",\"-9223372036854775809\",9223372036854775807]}");
    parses_as("{\"a\":NaN,\"b\":-Infinity,\"c\":1e400,\"d\":true}",
              "{\"a\":\"NaN\",\"b\":\"-Infinity\",\"c\":\"1e400\",\"d\":true}");
    parses_as("{\"a\":\"x\\ud83dy\"}", "{\"a\":\"x\\uFFFDy\"}");
    parses_as("{\"a\":\"x\\ude00\\ud83d\\ude00\"}", "{\"a\":\"x\\uFFFD\\uD83D\\uDE00\"}");
    parses_as("{\"a\":\"\xff\"}", "{\"a\":\"\\uFFFD\"}");
    parses_as("{\"a\":\"1\n2\"}", "{\"a\":\"1\\n2\"}");
    parses_as("{\"a\":\"NaN 99999999999999999999 \\\"NaN\\\"\",\"b\":NaN}",
              "{\"a\":\"NaN 99999999999999999999 \\\"NaN\\\"\",\"b\":\"NaN\"}");
    parses_as("{\"a\":\"x\\u0000y\"}", "{\"a\":\"x\\u0000y\"}");
    cadre_error error = {0};
    const char *refused[] = {"",        "{",  "{\"a\":}",    "{\"a\":1} x", "{\"a\":\"\\u12\"}",
                             "{a:NaN}", "\"", "{\"a\":\"\\", "nonsense"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        ck_assert_msg(!cadre_json_parse(refused[i], strlen(refused[i]), &error), "%s", refused[i]);
}
END_TEST

/* ---- frames */

static const cadre_bytes good[] = {B("client"),
                                   B("<IDS|MSG>"),
                                   B(""),
                                   B("{\"msg_id\":\"1\",\"msg_type\":\"t\",\"n\": 1.50}"),
                                   B("{}"),
                                   B("{}"),
                                   B("{\"code\":\"x\"}"),
                                   B("buffer"),
                                   B("")};

START_TEST(a_message_is_taken_apart)
{
    cadre_error error = {0};
    cadre_message *m = cadre_message_parse(good, 9, NULL, NULL, &error);
    ck_assert_msg(m != NULL, "%s", error.message);
    ck_assert_uint_eq(m->identity_count, 1);
    ck_assert_uint_eq(m->identities[0].length, 6);
    ck_assert_str_eq(m->type, "t");
    ck_assert_uint_eq(m->header_bytes.length, good[3].length);
    ck_assert(memcmp(m->header_bytes.data, good[3].data, good[3].length) == 0);
    ck_assert_uint_eq(m->buffer_count, 2);
    ck_assert(memcmp(m->buffers[0].data, "buffer", 6) == 0);
    ck_assert_str_eq(json_string_value(json_object_get(m->content, "code")), "x");
    ck_assert_ptr_null(m->damage);
    cadre_message_free(m);
}
END_TEST

static void refused(size_t changed, cadre_bytes frame, size_t count, const char *reason)
{
    cadre_bytes frames[9];
    cadre_error error = {0};
    memcpy(frames, good, sizeof good);
    frames[changed] = frame;
    ck_assert_ptr_null(cadre_message_parse(frames, count, NULL, NULL, &error));
    ck_assert_msg(strstr(error.message, reason) != NULL, "%s", error.message);
}

START_TEST(malformed_messages_are_refused)
{
    refused(0, B("x"), 0, "no <IDS|MSG>");
    refused(1, B("<IDS|MSG"), 9, "no <IDS|MSG>");
    refused(0, B("x"), 6, "frames after");
    refused(3, B("[]"), 9, "not a JSON object");
    refused(3, B("{"), 9, "header");
    refused(3, B("{\"msg_id\":\"1\",\"msg_type\":7}"), 9, "msg_type");
    refused(3, B("{\"msg_id\":null,\"msg_type\":\"t\"}"), 9, "msg_id");
    cadre_bytes many[40];
    cadre_error error = {0};
    for (int i = 0; i < 40; i++)
        many[i] = i < 30 ? B("id") : good[i - 29 < 9 ? i - 29 : 8];
    ck_assert_ptr_null(cadre_message_parse(many, 40, NULL, NULL, &error));
    char *big = calloc(1, CADRE_MESSAGE_LIMIT);
    refused(7, (cadre_bytes){big, CADRE_MESSAGE_LIMIT}, 9, "larger than 64 MB");
    free(big);
}
END_TEST

START_TEST(bad_content_does_not_cost_the_request)
{
    cadre_bytes frames[9];
    cadre_error error = {0};
    memcpy(frames, good, sizeof good);
    frames[4] = B("null");
    frames[5] = B("{\"big\":99999999999999999999,\"cadre\":{\"parameters\":{\"n\":2}}}");
    frames[6] = B("{\"code\":");
    cadre_message *m = cadre_message_parse(frames, 9, NULL, NULL, &error);
    ck_assert_msg(m != NULL, "%s", error.message);
    ck_assert_ptr_nonnull(m->damage);
    ck_assert_uint_eq(json_object_size(m->content), 0);
    ck_assert_uint_eq(json_object_size(m->parent_header), 0);
    ck_assert_ptr_nonnull(json_object_get(json_object_get(m->metadata, "cadre"), "parameters"));
    cadre_message_free(m);
}
END_TEST

START_TEST(headers_that_others_could_not_read_are_repaired)
{
    cadre_bytes frames[9];
    cadre_error error = {0};
    memcpy(frames, good, sizeof good);
    frames[3] = B("{\"msg_id\":\"1\",\"msg_type\":\"t\",\"u\":\"\xff\"}");
    cadre_message *m = cadre_message_parse(frames, 9, NULL, NULL, &error);
    ck_assert_msg(m != NULL, "%s", error.message);
    ck_assert_str_eq(m->header_bytes.data,
                     "{\"msg_id\":\"1\",\"msg_type\":\"t\",\"u\":\"" BAD "\"}");
    ck_assert(memcmp(m->identities[0].data, "client", 6) == 0);
    ck_assert(memcmp(m->buffers[0].data, "buffer", 6) == 0);
    cadre_message_free(m);
    /* An integer that only we cannot hold is the client's own business: unchanged. */
    frames[3] = B("{\"msg_id\":\"1\",\"msg_type\":\"t\",\"n\":99999999999999999999}");
    m = cadre_message_parse(frames, 9, NULL, NULL, &error);
    ck_assert_uint_eq(m->header_bytes.length, frames[3].length);
    ck_assert(memcmp(m->header_bytes.data, frames[3].data, frames[3].length) == 0);
    cadre_message_free(m);
}
END_TEST

START_TEST(unsigned_and_repeated_messages_are_refused)
{
    cadre_bytes frames[9];
    cadre_error error = {0};
    char signature[CADRE_SIGNATURE_SIZE];
    cadre_signer *signer = cadre_signer_new("hmac-sha256", "secret", 6, &error);
    cadre_replay *replay = cadre_replay_new();
    memcpy(frames, good, sizeof good);
    ck_assert_ptr_null(cadre_message_parse(frames, 9, signer, replay, &error));
    ck_assert_str_eq(error.message, "not signed");
    cadre_signer_sign(signer, frames + 3, 4, signature);
    frames[2] = (cadre_bytes){signature, 64};
    cadre_message *m = cadre_message_parse(frames, 9, signer, replay, &error);
    ck_assert_ptr_nonnull(m);
    cadre_message_free(m);
    ck_assert_ptr_null(cadre_message_parse(frames, 9, signer, replay, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "repeated"));
    frames[6] = B("{\"code\":\"y\"}");
    ck_assert_ptr_null(cadre_message_parse(frames, 9, signer, replay, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "does not match"));
    cadre_signer_free(signer);
    cadre_replay_free(replay);
}
END_TEST

/* ---- connection files */

static int parse(cadre_connection *c, const char *text, cadre_error *error)
{
    return cadre_connection_parse(c, text, strlen(text), "k.json", error);
}

START_TEST(connection_files_of_all_kinds)
{
    cadre_connection c;
    cadre_error error = {0};
    char url[300];
    ck_assert_int_eq(
        parse(&c,
              "{\"shell_port\":1,\"iopub_port\":\"2\",\"stdin_port\":3,\"control_port\":4,"
              "\"hb_port\":5,\"ip\":\"::1\",\"key\":\"k\",\"transport\":\"tcp\","
              "\"signature_scheme\":\"hmac-sha512\",\"kernel_name\":\"cadre\",\"jupyter_session\":"
              "\"x\",\"big\":99999999999999999999}",
              &error),
        0);
    ck_assert_int_eq(c.ports[CADRE_IOPUB], 2);
    cadre_connection_url(&c, CADRE_IOPUB, url, sizeof url, &error);
    ck_assert_str_eq(url, "tcp://[::1]:2");
    ck_assert_int_eq(parse(&c, "{}", &error), 0);
    ck_assert_str_eq(c.ip, "127.0.0.1");
    ck_assert_int_eq(c.ports[CADRE_SHELL], 0);
    ck_assert_int_eq(
        parse(&c, "{\"transport\":\"ipc\",\"ip\":\"/tmp/k-ipc\",\"shell_port\":1}", &error), 0);
    cadre_connection_url(&c, CADRE_SHELL, url, sizeof url, &error);
    ck_assert_str_eq(url, "ipc:///tmp/k-ipc-1");

    static const struct {
        const char *text, *reason;
    } bad[] = {
        {"", "k.json: not JSON"},
        {"[]", "not a JSON object"},
        {"{\"shell_port\":-1}", "shell_port"},
        {"{\"hb_port\":\"5x\"}", "hb_port"},
        {"{\"iopub_port\":70000}", "iopub_port"},
        {"{\"ip\":7}", "\"ip\" must be a string"},
        {"{\"transport\":\"inproc\"}", "inproc"},
        {"{\"key\":\"k\",\"signature_scheme\":\"hmac-md5\"}", "hmac-md5"},
        {"{\"registration_ip\":\"1\"}", "registration file"},
        {"{\"curve_publickey\":\"abc\",\"curve_secretkey\":\"abc\"}", "Z85"},
        {"{\"shell_port\":7,\"hb_port\":7}", "same port"},
        {"{\"transport\":\"ipc\",\"ip\":\"/tmp/"
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaaaaaaaaaaaaa\"}",
         "too long"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_lt(parse(&c, bad[i].text, &error), 0);
        ck_assert_msg(strstr(error.message, bad[i].reason) != NULL, "%s", error.message);
    }
    ck_assert_int_eq(cadre_connection_read(&c, "/nonexistent/k.json", &error), CADRE_EFILE);
    ck_assert_int_eq(cadre_connection_read(&c, "/tmp", &error), CADRE_EFILE);
}
END_TEST

/* ---- both ends together */

static void converse(cadre_connection *connection)
{
    cadre_error error = {0};
    char id[CADRE_ID_SIZE];
    cadre_channel channel;
    cadre_wire_server *server = cadre_wire_server_bind(connection, &error);
    ck_assert_msg(server != NULL, "%s", error.message);
    cadre_client *client = cadre_client_open(connection, &error);
    ck_assert_msg(client != NULL, "%s", error.message);

    json_t *content = json_pack("{ss}", "code", "1");
    ck_assert_int_eq(
        cadre_client_send(client, CADRE_SHELL, "execute_request", content, NULL, id, &error), 0);
    json_decref(content);
    cadre_message *request = NULL;
    for (int i = 0; i < 100 && !request; i++) {
        cadre_wire_server_wait(server, NULL, 0, 1u << CADRE_IOPUB, 100);
        request = cadre_wire_server_receive(server, CADRE_SHELL, &error);
    }
    ck_assert_ptr_nonnull(request);
    ck_assert_str_eq(request->id, id);
    /* The subscription is there before anything is published: the first message is a welcome. */
    cadre_wire_server_wait(server, NULL, 0, 0, 2000);
    cadre_wire_server_welcome(server);
    char *big = malloc(1000001);
    memset(big, 'x', 1000000);
    big[1000000] = 0;
    content = json_pack("{ssss}", "name", "stdout", "text", big);
    cadre_outgoing stream = {.type = "stream", .request = request, .content = content};
    ck_assert_int_eq(cadre_wire_server_send(server, CADRE_IOPUB, &stream, &error), 0);
    json_decref(content);
    cadre_outgoing reply = {.type = "execute_reply",
                            .request = request,
                            .content_text = "{\"status\":\"ok\"}",
                            .content_length = 15};
    ck_assert_int_eq(cadre_wire_server_send(server, CADRE_SHELL, &reply, &error), 0);
    cadre_outgoing ask = {.type = "input_request", .request = request};
    ck_assert_int_eq(cadre_wire_server_send(server, CADRE_STDIN, &ask, &error), 0);

    int seen = 0;
    for (int i = 0; i < 4; i++) {
        cadre_message *m = cadre_client_receive(client, 5000, -1, &channel, &error);
        ck_assert_msg(m != NULL, "%s", error.message);
        if (strcmp(m->type, "iopub_welcome") == 0) seen |= 1;
        if (strcmp(m->type, "stream") == 0) {
            ck_assert_int_eq(seen & 1, 1);
            ck_assert_str_eq(json_string_value(json_object_get(m->content, "text")), big);
            seen |= 2;
        }
        if (strcmp(m->type, "execute_reply") == 0) seen |= 4;
        if (strcmp(m->type, "input_request") == 0) seen |= 8;
        if (seen & ~1 && strcmp(m->type, "iopub_welcome") != 0) ck_assert_str_eq(m->parent_id, id);
        cadre_message_free(m);
    }
    ck_assert_int_eq(seen, 15);
    for (int i = 0; i < 100 && cadre_wire_server_unsent(server); i++)
        usleep(10000);
    ck_assert_uint_eq(cadre_wire_server_unsent(server), 0);

    ck_assert_ptr_null(cadre_client_receive(client, 20, -1, &channel, &error));
    ck_assert_int_eq(error.code, CADRE_ETIMEOUT);
    int pipes[2];
    ck_assert_int_eq(pipe(pipes), 0);
    close(pipes[1]);
    ck_assert_ptr_null(cadre_client_receive(client, 5000, pipes[0], &channel, &error));
    ck_assert_int_eq(error.code, CADRE_EINTERRUPT);
    close(pipes[0]);

    cadre_message_free(request);
    cadre_client_close(client);
    cadre_wire_server_close(server, 0);
    free(big);
}

START_TEST(both_ends_talk_over_tcp)
{
    cadre_connection connection, copy;
    cadre_error error = {0};
    char path[] = "/tmp/cadre-wire-XXXXXX";
    struct stat info;
    close(mkstemp(path));
    ck_assert_int_eq(cadre_connection_create(&connection, &error), 0);
    ck_assert_int_eq(cadre_connection_write(&connection, path, &error), 0);
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_int_eq(info.st_mode & 0777, 0600);
    ck_assert_int_eq(cadre_connection_read(&copy, path, &error), 0);
    ck_assert_str_eq(copy.key, connection.key);
    ck_assert_int_eq(copy.ports[CADRE_HEARTBEAT], connection.ports[CADRE_HEARTBEAT]);
    unlink(path);
    converse(&copy);
}
END_TEST

START_TEST(ports_are_chosen_when_not_given)
{
    cadre_connection connection;
    cadre_error error = {0};
    ck_assert_int_eq(parse(&connection, "{\"key\":\"k\"}", &error), 0);
    converse(&connection);
    ck_assert_int_ne(connection.ports[CADRE_SHELL], 0);
    ck_assert_int_ne(connection.ports[CADRE_HEARTBEAT], 0);
}
END_TEST

START_TEST(both_ends_talk_over_ipc)
{
    cadre_connection connection;
    cadre_error error = {0};
    char text[200], folder[] = "/tmp/cadre-wire-XXXXXX";
    struct stat info;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(text, sizeof text, "{\"transport\":\"ipc\",\"ip\":\"%s/k\",\"key\":\"k\"}", folder);
    ck_assert_int_eq(parse(&connection, text, &error), 0);
    cadre_wire_server *server = cadre_wire_server_bind(&connection, &error);
    ck_assert_msg(server != NULL, "%s", error.message);
    snprintf(text, sizeof text, "%s/k-%d", folder, connection.ports[CADRE_SHELL]);
    ck_assert_int_eq(stat(text, &info), 0);
    ck_assert_int_eq(info.st_mode & 0777, 0600);
    cadre_wire_server_close(server, 0);
    converse(&connection);
    ck_assert_int_eq(rmdir(folder), 0); /* no socket is left */
}
END_TEST

START_TEST(both_ends_talk_encrypted)
{
    cadre_connection connection;
    cadre_error error = {0};
    /* The pair of the ZeroMQ manual (zmq_curve). */
    ck_assert_int_eq(parse(&connection,
                           "{\"key\":\"k\","
                           "\"curve_publickey\":\"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID\","
                           "\"curve_secretkey\":\"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs\"}",
                           &error),
                     0);
    converse(&connection);
    cadre_wire_server *server = cadre_wire_server_bind(&connection, &error);
    cadre_connection plain = connection;
    cadre_channel channel;
    plain.curve_public[0] = plain.curve_secret[0] = 0;
    cadre_client *client = cadre_client_open(&plain, &error);
    ck_assert_int_eq(cadre_client_send(client, CADRE_SHELL, "t", NULL, NULL, NULL, &error), 0);
    cadre_wire_server_wait(server, NULL, 0, 0, 300);
    ck_assert_ptr_null(cadre_wire_server_receive(server, CADRE_SHELL, &error));
    ck_assert_int_eq(error.code, 0);
    ck_assert_ptr_null(cadre_client_receive(client, 50, -1, &channel, &error));
    cadre_client_close(client);
    cadre_wire_server_close(server, 0);
}
END_TEST

START_TEST(an_address_in_use_is_named)
{
    cadre_connection connection;
    cadre_error error = {0};
    ck_assert_int_eq(cadre_connection_create(&connection, &error), 0);
    cadre_wire_server *first = cadre_wire_server_bind(&connection, &error);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(cadre_wire_server_bind(&connection, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "tcp://127.0.0.1:"));
    cadre_wire_server_close(first, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *parts = tcase_create("parts"), *ends = tcase_create("ends");
    tcase_add_test(parts, signatures_are_the_standards);
    tcase_add_test(parts, repeats_are_known_and_bounded);
    tcase_add_test(parts, dates_are_padded);
    tcase_add_test(parts, uuids_differ);
    tcase_add_test(parts, broken_utf8_becomes_replacement_characters);
    tcase_add_test(parts, strings_are_escaped);
    tcase_add_test(parts, real_clients_json_is_read);
    tcase_add_test(parts, a_message_is_taken_apart);
    tcase_add_test(parts, malformed_messages_are_refused);
    tcase_add_test(parts, bad_content_does_not_cost_the_request);
    tcase_add_test(parts, headers_that_others_could_not_read_are_repaired);
    tcase_add_test(parts, unsigned_and_repeated_messages_are_refused);
    tcase_add_test(parts, connection_files_of_all_kinds);
    tcase_add_test(ends, both_ends_talk_over_tcp);
    tcase_add_test(ends, ports_are_chosen_when_not_given);
    tcase_add_test(ends, both_ends_talk_over_ipc);
    tcase_add_test(ends, both_ends_talk_encrypted);
    tcase_add_test(ends, an_address_in_use_is_named);
    tcase_set_timeout(ends, 30);
    suite_add_tcase(suite, parts);
    suite_add_tcase(suite, ends);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
