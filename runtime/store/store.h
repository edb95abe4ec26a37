/* Models as bytes and as files: safetensors, readable from Python.
 *
 *     cadre_error error = {0};
 *     if (cadre_model_save(model, "models/UA.safetensors", &error) < 0) puts(error.message);
 *
 *     >>> from safetensors import safe_open
 *     >>> file = safe_open("models/UA.safetensors", "numpy")
 *     >>> file.get_tensor("coefficients"), file.metadata()["features"]
 *
 * Tensors are one-dimensional F64. The texts of a model are metadata under their own names, "name"
 * is the model's name, "metrics" a JSON object of its metrics in the order in which they were set
 * (null: NaN). Every file is written whole under another name and renamed, so that a reader never
 * sees half of one. All errors are values; NULL or a negative status with *error filled.
 */
#ifndef CADRE_STORE_H
#define CADRE_STORE_H

#include "../base/base.h"
#include "../model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The model's bytes in safetensors format, new (free()). Equal models give equal bytes: tensors
 * in name order, metadata in name order, no clock, no host. */
CADRE_API unsigned char *cadre_model_encode(const cadre_model *model, size_t *length,
                                            cadre_error *error);
/* New model. Nothing in the bytes is trusted: CADRE_EFORMAT when the header does not fit the file,
 * tensors overlap, leave holes or are not one-dimensional F64. */
CADRE_API cadre_model *cadre_model_decode(const unsigned char *bytes, size_t length,
                                          cadre_error *error);
CADRE_API int cadre_model_save(const cadre_model *model, const char *path, cadre_error *error);
CADRE_API cadre_model *cadre_model_load(const char *path, cadre_error *error);
/* Writes bytes to `path` atomically (temporary name in the same folder, fsync, rename), with the
 * permissions of a new file. */
CADRE_API int cadre_write_file(const char *path, const void *bytes, size_t length,
                               cadre_error *error);

#ifdef __cplusplus
}
#endif
#endif
