/* The talk between the front and cadre-assist, a process of its own that holds libclang: it may
 * crash or hang on a half-typed cell and costs nothing but an answer.
 *
 * Both directions of a SOCK_STREAM socket carry messages: 4 bytes of length (native order), then
 * that many bytes of JSON. A request:
 *   {"id": 7, "kind": "complete" | "inspect", "source": whole translation unit,
 *    "line": 12, "column": 5 (bytes, from 1), "prefix": "lea", "arguments": ["-std=gnu17", ...],
 *    "head": bytes of the source that are #include lines}
 * The answer to "complete": the best match first, the first `near` of them are parameters, members
 * and locals; and the kinds of global names that fit there ("function", "struct", ...), of which
 * libclang offers only those of the headers:
 *   {"id": 7, "types": [{"text", "type", "signature"} ...], "near": 2, "kinds": [...]}
 * and to "inspect":
 *   {"id": 7, "found": true, "kind": "function", "name", "declaration", "comment", "type",
 *    "file", "line", "source", "members", "size"}      file: as #line says
 */
#ifndef CADRE_ASSIST_PROTOCOL_H
#define CADRE_ASSIST_PROTOCOL_H

/* A longer message ends the connection: nobody types a cell of this size. */
enum { CADRE_ASSIST_LIMIT = 32 << 20, CADRE_ASSIST_FD = 3 };

#endif
