/* Private to the runtime: what is in a model, for those who store or show it. */
#ifndef CADRE_MODEL_CONTAINER_H
#define CADRE_MODEL_CONTAINER_H

#include "model/model.h"

typedef struct model_tensor {
    char *name;
    double *values;
    size_t count;
} model_tensor;

typedef struct model_text {
    char *name, *text;
} model_text;

typedef struct model_metric {
    char *name;
    double value;
} model_metric;

/* Tensors and texts in the order of their names, metrics in the order in which they were set. */
struct cadre_model {
    char *name;
    model_tensor *tensors;
    size_t tensor_count;
    model_text *texts;
    size_t text_count;
    model_metric *metrics;
    size_t metric_count;
};

/* Names that the stored form keeps for itself among the texts. */
#define CADRE_MODEL_KEY_NAME "name"
#define CADRE_MODEL_KEY_METRICS "metrics"

#endif
