# runtime/data
cadredataincludedir = $(cadreincludedir)/data
cadredatainclude_HEADERS = runtime/data/data.h
libcadre_la_SOURCES += runtime/data/table.h runtime/data/table.c \
    runtime/data/storage.h runtime/data/storage.c \
    runtime/data/dictionary.h runtime/data/dictionary.c \
    runtime/data/number.h runtime/data/number.c \
    runtime/data/csv.h runtime/data/csv.c runtime/data/csv_input.c runtime/data/csv_field.c \
    runtime/data/csv_column.c runtime/data/slices.c
