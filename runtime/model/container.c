#include "model/container.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

cadre_model *cadre_model_new(const char *name)
{
    cadre_model *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    model->name = strdup(name ? name : "");
    if (model->name) return model;
    free(model);
    return NULL;
}

static void clear(cadre_model *model)
{
    for (size_t i = 0; i < model->tensor_count; i++) {
        free(model->tensors[i].name);
        free(model->tensors[i].values);
    }
    for (size_t i = 0; i < model->text_count; i++) {
        free(model->texts[i].name);
        free(model->texts[i].text);
    }
    for (size_t i = 0; i < model->metric_count; i++)
        free(model->metrics[i].name);
    free(model->tensors);
    free(model->texts);
    free(model->metrics);
    model->tensors = NULL;
    model->texts = NULL;
    model->metrics = NULL;
    model->tensor_count = model->text_count = model->metric_count = 0;
}

void cadre_model_free(cadre_model *model)
{
    if (!model) return;
    clear(model);
    free(model->name);
    free(model);
}

const char *cadre_model_name(const cadre_model *model)
{
    return model ? model->name : NULL;
}

/* The three lists have elements of different sizes that begin with their name. */
typedef struct list {
    void *items;
    size_t count, size;
} list;

static char *name_at(const list *all, size_t index)
{
    char *name;
    memcpy(&name, (char *)all->items + index * all->size, sizeof name);
    return name;
}

/* Where `name` is (true) or would be put in a list sorted by name. */
static bool find_sorted(const list *all, const char *name, size_t *index)
{
    size_t low = 0, high = all->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name_at(all, middle), name);
        if (order == 0) {
            *index = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *index = low;
    return false;
}

/* Room for an element at `index`, its name set; NULL: no memory, nothing changed. */
static void *insert(list *all, size_t index, const char *name)
{
    char *copy = strdup(name);
    char *items = copy ? realloc(all->items, (all->count + 1) * all->size) : NULL;
    if (!items) {
        free(copy);
        return NULL;
    }
    all->items = items;
    char *at = items + index * all->size;
    memmove(at + all->size, at, (all->count - index) * all->size);
    memset(at, 0, all->size);
    memcpy(at, &copy, sizeof copy);
    all->count++;
    return at;
}

static bool is_usable(const char *name)
{
    return name && *name && strcmp(name, "__metadata__");
}

int cadre_model_set(cadre_model *model, const char *name, const double *values, size_t count)
{
    if (!model || !is_usable(name) || (!values && count)) return CADRE_EINPUT;
    if (count > SIZE_MAX / sizeof *values - 1) return CADRE_EINPUT;
    double *copy = malloc((count + 1) * sizeof *copy);
    if (!copy) return CADRE_EMEMORY;
    if (count) memcpy(copy, values, count * sizeof *copy);
    list all = {model->tensors, model->tensor_count, sizeof *model->tensors};
    size_t index;
    if (!find_sorted(&all, name, &index)) {
        if (!insert(&all, index, name)) {
            free(copy);
            return CADRE_EMEMORY;
        }
        model->tensors = all.items;
        model->tensor_count = all.count;
    }
    free(model->tensors[index].values);
    model->tensors[index].values = copy;
    model->tensors[index].count = count;
    return CADRE_OK;
}

const double *cadre_model_get(const cadre_model *model, const char *name, size_t *count)
{
    if (count) *count = 0;
    if (!model || !name) return NULL;
    list all = {model->tensors, model->tensor_count, sizeof *model->tensors};
    size_t index;
    if (!find_sorted(&all, name, &index)) return NULL;
    if (count) *count = model->tensors[index].count;
    return model->tensors[index].values;
}

int cadre_model_set_text(cadre_model *model, const char *name, const char *text)
{
    if (!model || !is_usable(name) || !text) return CADRE_EINPUT;
    if (!strcmp(name, CADRE_MODEL_KEY_NAME) || !strcmp(name, CADRE_MODEL_KEY_METRICS))
        return CADRE_EINPUT;
    char *copy = strdup(text);
    if (!copy) return CADRE_EMEMORY;
    list all = {model->texts, model->text_count, sizeof *model->texts};
    size_t index;
    if (!find_sorted(&all, name, &index)) {
        if (!insert(&all, index, name)) {
            free(copy);
            return CADRE_EMEMORY;
        }
        model->texts = all.items;
        model->text_count = all.count;
    }
    free(model->texts[index].text);
    model->texts[index].text = copy;
    return CADRE_OK;
}

const char *cadre_model_get_text(const cadre_model *model, const char *name)
{
    if (!model || !name) return NULL;
    list all = {model->texts, model->text_count, sizeof *model->texts};
    size_t index;
    return find_sorted(&all, name, &index) ? model->texts[index].text : NULL;
}

static bool find_metric(const cadre_model *model, const char *name, size_t *index)
{
    for (*index = 0; *index < model->metric_count; ++*index)
        if (!strcmp(model->metrics[*index].name, name)) return true;
    return false;
}

int cadre_model_set_metric(cadre_model *model, const char *name, double value)
{
    size_t index;
    if (!model || !is_usable(name)) return CADRE_EINPUT;
    if (!find_metric(model, name, &index)) {
        list all = {model->metrics, model->metric_count, sizeof *model->metrics};
        if (!insert(&all, index, name)) return CADRE_EMEMORY;
        model->metrics = all.items;
        model->metric_count = all.count;
    }
    model->metrics[index].value = value;
    return CADRE_OK;
}

double cadre_model_metric(const cadre_model *model, const char *name)
{
    size_t index;
    return model && name && find_metric(model, name, &index) ? model->metrics[index].value
                                                             : (double)NAN;
}

size_t cadre_model_metric_count(const cadre_model *model)
{
    return model ? model->metric_count : 0;
}

const char *cadre_model_metric_name(const cadre_model *model, size_t index)
{
    return model && index < model->metric_count ? model->metrics[index].name : NULL;
}
