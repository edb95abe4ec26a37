#include "wire/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char *const port_keys[CADRE_CHANNEL_COUNT] = {
    [CADRE_SHELL] = "shell_port", [CADRE_CONTROL] = "control_port", [CADRE_STDIN] = "stdin_port",
    [CADRE_IOPUB] = "iopub_port", [CADRE_HEARTBEAT] = "hb_port",
};

enum { FILE_LIMIT = 1 << 20 };

static int text_of(const json_t *file, const char *key, const char *missing, char *into,
                   size_t size, const char *path, cadre_error *error)
{
    const json_t *value = json_object_get(file, key);
    const char *text = value ? json_string_value(value) : missing;
    if (!value || json_is_null(value)) text = missing;
    if (!text)
        return cadre_error_set_at(error, CADRE_EFORMAT, path, 0, 0, "\"%s\" must be a string", key);
    if (strlen(text) >= size ||
        (value && json_string_length(value) != strlen(text) && json_is_string(value)))
        return cadre_error_set_at(error, CADRE_EFORMAT, path, 0, 0, "\"%s\" is too long", key);
    snprintf(into, size, "%s", text);
    return 0;
}

static int port_of(const json_t *file, const char *key, int *port, const char *path,
                   cadre_error *error)
{
    const json_t *value = json_object_get(file, key);
    long long number = -1;
    if (!value || json_is_null(value)) {
        number = 0;
    } else if (json_is_integer(value)) {
        number = json_integer_value(value);
    } else if (json_is_string(value)) {
        const char *text = json_string_value(value);
        char *end;
        errno = 0;
        number = strtoll(text, &end, 10);
        if (!*text || *end || errno) number = -1;
    }
    if (number < 0 || number > 65535)
        return cadre_error_set_at(error, CADRE_EFORMAT, path, 0, 0,
                                  "\"%s\" must be a port number, 0 to 65535", key);
    *port = (int)number;
    return 0;
}

static int curve_of(const json_t *file, cadre_connection *connection, const char *path,
                    cadre_error *error)
{
    if (text_of(file, "curve_publickey", "", connection->curve_public, CADRE_CURVE_SIZE, path,
                error) < 0 ||
        text_of(file, "curve_secretkey", "", connection->curve_secret, CADRE_CURVE_SIZE, path,
                error) < 0)
        return error ? error->code : CADRE_EFORMAT;
    size_t public = strlen(connection->curve_public), secret = strlen(connection->curve_secret);
    if ((public || secret) && (public != 40 || secret != 40))
        return cadre_error_set_at(error, CADRE_EFORMAT, path, 0, 0,
                                  "\"curve_publickey\" and \"curve_secretkey\" must both be "
                                  "Z85 keys of 40 characters");
    return 0;
}

static int fields_of(const json_t *file, cadre_connection *c, const char *path, cadre_error *error)
{
    int status;
    if (json_object_get(file, "registration_ip"))
        return cadre_error_set_at(error, CADRE_EINPUT, path, 0, 0,
                                  "is a registration file (JEP 66), which this kernel does not "
                                  "support; it needs a connection file with ports");
    if ((status = text_of(file, "transport", "tcp", c->transport, sizeof c->transport, path,
                          error)) < 0 ||
        (status = text_of(file, "ip", "127.0.0.1", c->ip, sizeof c->ip, path, error)) < 0 ||
        (status = text_of(file, "key", "", c->key, sizeof c->key, path, error)) < 0 ||
        (status = text_of(file, "signature_scheme", "hmac-sha256", c->signature_scheme,
                          sizeof c->signature_scheme, path, error)) < 0 ||
        (status = text_of(file, "kernel_name", "", c->kernel_name, sizeof c->kernel_name, path,
                          error)) < 0 ||
        (status = curve_of(file, c, path, error)) < 0)
        return status;
    for (int i = 0; i < CADRE_CHANNEL_COUNT; i++)
        if ((status = port_of(file, port_keys[i], &c->ports[i], path, error)) < 0) return status;
    if (!*c->signature_scheme)
        snprintf(c->signature_scheme, sizeof c->signature_scheme, "hmac-sha256");
    if (*c->key && strcmp(c->signature_scheme, "hmac-sha256") != 0 &&
        strcmp(c->signature_scheme, "hmac-sha512") != 0)
        return cadre_error_set_at(error, CADRE_EINPUT, path, 0, 0,
                                  "signature_scheme \"%s\" is not supported; use hmac-sha256 or "
                                  "hmac-sha512",
                                  c->signature_scheme);
    if (strcmp(c->transport, "tcp") != 0 && strcmp(c->transport, "ipc") != 0)
        return cadre_error_set_at(error, CADRE_EINPUT, path, 0, 0,
                                  "transport \"%s\" is not supported; use tcp or ipc",
                                  c->transport);
    for (int i = 0; i < CADRE_CHANNEL_COUNT; i++) {
        char url[512];
        for (int k = 0; k < i; k++)
            if (c->ports[i] && c->ports[i] == c->ports[k])
                return cadre_error_set_at(error, CADRE_EFORMAT, path, 0, 0,
                                          "\"%s\" and \"%s\" are the same port", port_keys[k],
                                          port_keys[i]);
        cadre_error problem = {0};
        if ((status = cadre_connection_url(c, (cadre_channel)i, url, sizeof url, &problem)) < 0)
            return cadre_error_set_at(error, status, path, 0, 0, "%s", problem.message);
    }
    return 0;
}

int cadre_connection_parse(cadre_connection *connection, const char *text, size_t length,
                           const char *path, cadre_error *error)
{
    cadre_error problem = {0};
    *connection = (cadre_connection){0};
    json_t *file = cadre_json_parse(text, length, &problem);
    if (!file) return cadre_error_set_at(error, CADRE_EFORMAT, path, 0, 0, "%s", problem.message);
    int status = json_is_object(file)
                     ? fields_of(file, connection, path, error)
                     : cadre_error_set_at(error, CADRE_EFORMAT, path, 0, 0, "not a JSON object");
    json_decref(file);
    return status;
}

int cadre_connection_read(cadre_connection *connection, const char *path, cadre_error *error)
{
    struct stat info;
    char *text = NULL;
    size_t length = 0;
    int status = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) < 0) {
        status = cadre_error_set_at(error, CADRE_EFILE, path, 0, 0,
                                    "the connection file cannot be read: %s", strerror(errno));
        goto done;
    }
    if (!S_ISREG(info.st_mode) || info.st_size > FILE_LIMIT) {
        status = cadre_error_set_at(error, CADRE_EFILE, path, 0, 0,
                                    "is not a connection file (a regular file of at most 1 MB)");
        goto done;
    }
    /* Whoever can write the file decides the key. */
    if (geteuid() != 0 && info.st_uid != geteuid() && info.st_uid != 0) {
        status = cadre_error_set_at(error, CADRE_EFILE, path, 0, 0, "belongs to another user (%ld)",
                                    (long)info.st_uid);
        goto done;
    }
    text = malloc(FILE_LIMIT + 1);
    if (!text) {
        status = cadre_error_set(error, CADRE_EMEMORY, "no memory");
        goto done;
    }
    for (;;) {
        ssize_t got = read(fd, text + length, FILE_LIMIT - length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            status = cadre_error_set_at(error, CADRE_EFILE, path, 0, 0,
                                        "the connection file cannot be read: %s", strerror(errno));
            goto done;
        }
        if (got == 0) break;
        length += (size_t)got;
    }
    status = cadre_connection_parse(connection, text, length, path, error);
done:
    free(text);
    if (fd >= 0) close(fd);
    return status;
}

int cadre_connection_create(cadre_connection *connection, cadre_error *error)
{
    int sockets[CADRE_CHANNEL_COUNT];
    int count = 0, status = 0;
    cadre_error problem = {0};
    *connection = (cadre_connection){
        .transport = "tcp", .ip = "127.0.0.1", .signature_scheme = "hmac-sha256"};
    cadre_signer *ready = cadre_signer_new("hmac-sha256", "k", 1, &problem); /* libsodium is up */
    if (!ready) return cadre_error_set(error, problem.code, "%s", problem.message);
    cadre_signer_free(ready);
    cadre_uuid(connection->key);
    /* All five are open at the same time, so that they differ. */
    for (; count < CADRE_CHANNEL_COUNT; count++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        sockets[count] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (sockets[count] < 0) {
            status = cadre_error_set(error, CADRE_ESYSTEM, "no socket: %s", strerror(errno));
            break;
        }
        if (bind(sockets[count], (struct sockaddr *)&address, size) < 0 ||
            getsockname(sockets[count], (struct sockaddr *)&address, &size) < 0) {
            status = cadre_error_set(error, CADRE_ESYSTEM, "no free port: %s", strerror(errno));
            close(sockets[count]);
            break;
        }
        connection->ports[count] = ntohs(address.sin_port);
    }
    while (count > 0)
        close(sockets[--count]);
    return status;
}

int cadre_connection_write(const cadre_connection *connection, const char *path, cadre_error *error)
{
    cadre_buffer temporary = {0};
    char *text = NULL;
    int fd = -1, status = 0;
    json_t *file = json_pack("{ss ss ss ss ss}", "transport", connection->transport, "ip",
                             connection->ip, "key", connection->key, "signature_scheme",
                             connection->signature_scheme, "kernel_name", connection->kernel_name);
    bool whole = file != NULL;
    for (int i = 0; i < CADRE_CHANNEL_COUNT; i++)
        whole = whole &&
                json_object_set_new(file, port_keys[i], json_integer(connection->ports[i])) == 0;
    if (*connection->curve_public) {
        whole = whole && json_object_set_new(file, "curve_publickey",
                                             json_string(connection->curve_public)) == 0;
        whole = whole && json_object_set_new(file, "curve_secretkey",
                                             json_string(connection->curve_secret)) == 0;
    }
    text = whole ? json_dumps(file, JSON_INDENT(2)) : NULL;
    cadre_buffer_printf(&temporary, "%s.%ld.new", path, (long)getpid());
    if (!text || temporary.failed) {
        status = cadre_error_set(error, CADRE_EMEMORY, "no memory for the connection file");
        goto done;
    }
    unlink(temporary.data); /* of a process with our id that died here */
    fd = open(temporary.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t length = strlen(text);
    if (fd < 0 || write(fd, text, length) != (ssize_t)length || rename(temporary.data, path) < 0) {
        status = cadre_error_set_at(error, CADRE_EFILE, path, 0, 0,
                                    "the connection file cannot be written: %s", strerror(errno));
        if (fd >= 0) unlink(temporary.data);
    }
done:
    if (fd >= 0) close(fd);
    free(text);
    cadre_buffer_free(&temporary);
    json_decref(file);
    return status;
}

int cadre_connection_url(const cadre_connection *connection, cadre_channel channel, char *url,
                         size_t size, cadre_error *error)
{
    int port = connection->ports[channel], length;
    size_t limit = size;
    const char *ip = connection->ip;
    if (strcmp(connection->transport, "ipc") == 0) {
        length = snprintf(url, size, "ipc://%s-%d", ip, port);
        size_t longest = sizeof "ipc://" - 1 + sizeof((struct sockaddr_un *)0)->sun_path;
        if (longest < limit) limit = longest;
    } else {
        const char *open = strchr(ip, ':') && ip[0] != '[' ? "[" : "", *close = *open ? "]" : "";
        if (strcmp(ip, "localhost") == 0) ip = "127.0.0.1"; /* zmq_bind takes no host names */
        length = snprintf(url, size, "tcp://%s%s%s:%d", open, ip, close, port);
    }
    if (length < 0 || (size_t)length >= limit)
        return cadre_error_set(error, CADRE_EINPUT,
                               "the address %.300s is too long for a socket; use a shorter path",
                               url);
    return 0;
}
