/* Small JSON help for notebooks: parameters to a worker, values back from it.
 *
 *     char *parameters = cadre_json_pack("{s:b, s:i}", "is_multiple_processors", true, "cpu_count",
 * 2); double seconds = cadre_json_number(result->value, "seconds"); char *first =
 * cadre_json_text(result->value, "refused.0.name");
 *
 * A path is a row of keys and array positions with dots between: "refused.0.name".
 */
#ifndef CADRE_JSON_H
#define CADRE_JSON_H

#include "../base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* JSON text made from `format` and its values, as json_pack of the library jansson takes them:
 * {s:b} a bool, {s:i} an int, {s:f} a double, {s:s} a string, [..] an array. New (free()); a wrong
 * format or text that is not UTF-8 goes to the error handler, then NULL. */
CADRE_API char *cadre_json_pack(const char *format, ...);

/* The number (a bool counts as 0 or 1) at `path`; NaN when there is none or `json` is NULL. */
CADRE_API double cadre_json_number(const char *json, const char *path);

/* The value at `path` as text, new (free()): a string without quotes, anything else as JSON.
 * NULL when there is none. */
CADRE_API char *cadre_json_text(const char *json, const char *path);

/* Elements of the array or object at `path` ("" is the whole value); 0 when there is none. */
CADRE_API size_t cadre_json_count(const char *json, const char *path);

#ifdef __cplusplus
}
#endif
#endif
